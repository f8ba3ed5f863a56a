"""1.30's structured parameters between their two forms: documents of the API, and messages of kubelet and drivers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dray.kubelet_api.services import Service

Document = Mapping[str, Any]

_MESSAGES = Service("resource_v1alpha2", "")
_RAW = {
    "vendor_class_parameters": "vendorClassParameters",
    "vendor_claim_parameters": "vendorClaimParameters",
}
_PLAIN = ("bool", "int", "string", "version")


def handle_message(handle: Document) -> Any:
    """``structuredData`` of an allocation as the kubelet sends it."""
    messages = _MESSAGES.module
    out = messages.StructuredResourceHandle(node_name=handle.get("nodeName") or "")
    for field, key in _RAW.items():
        _set_raw(getattr(out, field), handle.get(key))
    for result in handle.get("results") or ():
        sent = out.results.add()
        _set_raw(sent.vendor_request_parameters, result.get("vendorRequestParameters"))
        if named := result.get("namedResources"):
            sent.allocation_result_model.named_resources.name = named.get("name") or ""
    return out


def handle_document(message: Any) -> dict[str, Any]:
    """What a driver is sent, as the claim has it."""
    out: dict[str, Any] = {}
    for field, key in _RAW.items():
        if (parameters := _raw(getattr(message, field))) is not None:
            out[key] = parameters
    if message.node_name:
        out["nodeName"] = message.node_name
    out["results"] = [_result(result) for result in message.results]
    return out


def model_message(model: Document) -> Any:
    """The resources of a node, as its driver tells the kubelet."""
    messages = _MESSAGES.module
    out = messages.ResourceModel()
    for instance in (model.get("namedResources") or {}).get("instances") or ():
        sent = out.named_resources.instances.add(name=instance["name"])
        for attribute in instance.get("attributes") or ():
            value = sent.attributes.add(name=attribute["name"]).attribute_value
            for key in _PLAIN:
                if key in attribute:
                    setattr(value, key, attribute[key])
            if "quantity" in attribute:
                value.quantity.string = str(attribute["quantity"])
            if "intSlice" in attribute:
                value.int_slice.ints.extend(attribute["intSlice"].get("ints") or ())
            if "stringSlice" in attribute:
                value.string_slice.strings.extend(attribute["stringSlice"].get("strings") or ())
    return out


def model_document(message: Any) -> dict[str, Any]:
    """The resources of a node, as a ResourceSlice has them."""
    instances = [
        {"name": instance.name, "attributes": [_attribute(a) for a in instance.attributes]}
        if instance.attributes
        else {"name": instance.name}
        for instance in message.named_resources.instances
    ]
    return {"namedResources": {"instances": instances}}


def _attribute(message: Any) -> dict[str, Any]:
    value, out = message.attribute_value, {"name": message.name}
    for key in _PLAIN:
        if value.HasField(key):
            out[key] = getattr(value, key)
    if value.HasField("quantity"):
        out["quantity"] = value.quantity.string
    if value.HasField("int_slice"):
        out["intSlice"] = {"ints": list(value.int_slice.ints)}
    if value.HasField("string_slice"):
        out["stringSlice"] = {"strings": list(value.string_slice.strings)}
    return out


def _result(message: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
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
