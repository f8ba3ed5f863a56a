"""Converts the structured parameters of 1.30 between documents of the API and messages of kubelet and drivers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dray.kubelet_api.services import Service

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import (
        DriverAllocationResult,
        NamedResourcesAttribute,
        NamedResourcesInstance,
        ResourceModel,
        StructuredResourceHandle,
    )

_MESSAGES = Service("resource_v1alpha2", "")


def handle_message(handle: StructuredResourceHandle) -> Any:
    """``structuredData`` of an allocation as the kubelet sends it."""
    messages = _MESSAGES.module
    out = messages.StructuredResourceHandle(node_name=handle.get("nodeName") or "")
    _set_raw(out.vendor_class_parameters, handle.get("vendorClassParameters"))
    _set_raw(out.vendor_claim_parameters, handle.get("vendorClaimParameters"))
    for result in handle.get("results") or ():
        sent = out.results.add()
        _set_raw(sent.vendor_request_parameters, result.get("vendorRequestParameters"))
        if named := result.get("namedResources"):
            sent.allocation_result_model.named_resources.name = named.get("name") or ""
    return out


def handle_document(message: Any) -> StructuredResourceHandle:
    """What a driver is sent, as the claim has it."""
    out: StructuredResourceHandle = {}
    if (parameters := _raw(message.vendor_class_parameters)) is not None:
        out["vendorClassParameters"] = parameters
    if (parameters := _raw(message.vendor_claim_parameters)) is not None:
        out["vendorClaimParameters"] = parameters
    if message.node_name:
        out["nodeName"] = message.node_name
    out["results"] = [_result(result) for result in message.results]
    return out


def model_message(model: ResourceModel) -> Any:
    """The resources of a node, as its driver tells the kubelet."""
    messages = _MESSAGES.module
    out = messages.ResourceModel()
    for instance in (model.get("namedResources") or {}).get("instances") or ():
        sent = out.named_resources.instances.add(name=instance["name"])
        for attribute in instance.get("attributes") or ():
            _set_value(sent.attributes.add(name=attribute["name"]).attribute_value, attribute)
    return out


def _set_value(message: Any, attribute: NamedResourcesAttribute) -> None:
    if "bool" in attribute:
        message.bool = attribute["bool"]
    if "int" in attribute:
        message.int = attribute["int"]
    if "string" in attribute:
        message.string = attribute["string"]
    if "version" in attribute:
        message.version = attribute["version"]
    if "quantity" in attribute:
        message.quantity.string = str(attribute["quantity"])
    if "intSlice" in attribute:
        message.int_slice.ints.extend(attribute["intSlice"].get("ints") or ())
    if "stringSlice" in attribute:
        message.string_slice.strings.extend(attribute["stringSlice"].get("strings") or ())


def model_document(message: Any) -> ResourceModel:
    """The resources of a node, as a ResourceSlice has them."""
    instances: list[NamedResourcesInstance] = [
        {"name": instance.name, "attributes": [_attribute(a) for a in instance.attributes]}
        if instance.attributes
        else {"name": instance.name}
        for instance in message.named_resources.instances
    ]
    return {"namedResources": {"instances": instances}}


def _attribute(message: Any) -> NamedResourcesAttribute:
    value = message.attribute_value
    out: NamedResourcesAttribute = {"name": message.name}
    if value.HasField("bool"):
        out["bool"] = value.bool
    if value.HasField("int"):
        out["int"] = value.int
    if value.HasField("string"):
        out["string"] = value.string
    if value.HasField("version"):
        out["version"] = value.version
    if value.HasField("quantity"):
        out["quantity"] = value.quantity.string
    if value.HasField("int_slice"):
        out["intSlice"] = {"ints": list(value.int_slice.ints)}
    if value.HasField("string_slice"):
        out["stringSlice"] = {"strings": list(value.string_slice.strings)}
    return out


def _result(message: Any) -> DriverAllocationResult:
    out: DriverAllocationResult = {}
    if (parameters := _raw(message.vendor_request_parameters)) is not None:
        out["vendorRequestParameters"] = parameters
    if message.allocation_result_model.HasField("named_resources"):
        out["namedResources"] = {"name": message.allocation_result_model.named_resources.name}
    return out


def _set_raw(field: Any, parameters: Any) -> None:
    field.SetInParent()  # Go sends these always, empty where there is nothing
    if parameters is not None:
        field.raw = json.dumps(parameters, separators=(",", ":")).encode()


def _raw(field: Any) -> Any:
    return json.loads(field.raw) if field.raw else None
