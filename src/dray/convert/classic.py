"""Classes, claims and slices of v1alpha1 and v1alpha2, in v1's shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from dray.convert import selectors
from dray.convert.modern import claim_spec
from dray.convert.notes import Remarks
from dray.convert.parameters import Parameters, Reference, as_config
from dray.convert.trees import Tree, put_in_place

if TYPE_CHECKING:
    from dray.api.types import Object, resource
    from dray.api.types.resource import (
        DeviceAttribute,
        DeviceCapacity,
        DeviceClaim,
        DeviceClaimConfiguration,
        DeviceClassSpec,
        DeviceRequest,
        ExactDeviceRequest,
        ResourceSliceSpec,
    )
    from dray.api.types.resource_v1alpha2 import (
        NamedResourcesInstance,
        ResourceClaim,
        ResourceClaimParameters,
        ResourceClaimParametersReference,
        ResourceClaimSpec,
        ResourceClass,
        ResourceClassParametersReference,
        ResourceSlice,
    )

VERSIONS = ("v1alpha1", "v1alpha2")
#: Kinds that nothing reads any more, and what has become of them.
GONE = {
    "PodScheduling": "the scheduler no longer negotiates with drivers",
    "PodSchedulingContext": "the scheduler no longer negotiates with drivers",
    "ResourceClaimParameters": "its requests are part of the claims that refer to it",
    "ResourceClassParameters": "its filters are part of the classes that refer to it",
}


class Classic:
    """One conversion of classic documents, all of which may refer to one another."""

    def __init__(self, documents: Iterable[Any], parameters: Parameters) -> None:
        self._parameters = parameters
        self._slices = Counter(_pool(document) for document in documents if _is_classic_slice(document))

    def convert(self, document: Tree, remarks: Remarks) -> bool:
        """Rewrite a document in place; False: there is nothing to put in its place."""
        kind = str(document.get("kind"))
        if kind in GONE:
            remarks.changed(f"left out: {GONE[kind]}")
            return False
        match kind:
            case "ResourceClass":
                self._class(document, remarks)
            case "ResourceClaim" | "ResourceClaimTemplate":
                self._claim(document, remarks)
            case "ResourceSlice":
                self._slice(document, remarks)
        return True

    # -- classes ----------------------------------------------------------------------------------------------------

    def _class(self, document: Tree, remarks: Remarks) -> None:
        old = cast("ResourceClass", document)
        driver = str(old.get("driverName") or "")
        structured = bool(old.pop("structuredParameters", False))
        found, config = self._class_parameters(old.pop("parametersRef", None), driver, structured, remarks)
        terms = [selectors.driver_is(driver), *found]
        if old.pop("suitableNodes", None):
            remarks.lost(
                "suitableNodes has no equivalent: restrict the pods, or the devices by their attributes"
            )
        # One expression, as it would be an error to look up an attribute on other drivers' devices.
        expression = terms[0] if len(terms) == 1 else " && ".join([terms[0], *(f"({t})" for t in terms[1:])])
        spec: DeviceClassSpec = {"selectors": [{"cel": {"expression": expression}}]}
        if config:
            spec["config"] = config
        document["kind"] = "DeviceClass"
        if "driverName" in document:
            put_in_place(document, "driverName", "spec", spec)
        else:
            document["spec"] = spec

    def _class_parameters(
        self,
        reference: ResourceClassParametersReference | None,
        driver: str,
        structured: bool,
        remarks: Remarks,
    ) -> tuple[list[str], list[DeviceClaimConfiguration]]:
        if not reference:
            return [], []
        wanted = Reference.of(reference, "")
        parameters = self._parameters.class_parameters(wanted)
        if not structured or parameters is None:
            return self._by_rule(wanted, driver, remarks)
        terms = []
        for filter in parameters.get("filters") or ():
            if filter.get("driverName") not in ("", None, driver):
                remarks.lost(
                    f"filter for driver {filter['driverName']}: the class is for devices of {driver}"
                )
            elif expression := (filter.get("namedResources") or {}).get("selector"):
                terms.append(self._translate(expression, driver, remarks))
        config = []
        for vendor in parameters.get("vendorParameters") or ():
            config += _opaque(vendor.get("driverName") or driver, vendor.get("parameters"), remarks)
        return terms, config

    # -- claims -----------------------------------------------------------------------------------------------------

    def _claim(self, document: Tree, remarks: Remarks) -> None:
        tree = claim_spec(document)
        if tree is None:
            return
        old, spec = cast("ResourceClaim", document), cast("ResourceClaimSpec", tree)
        if (old.pop("status", None) or {}).get("allocation"):
            remarks.lost("the allocation is left out: the scheduler makes a new one")
        if spec.pop("allocationMode", None) == "Immediate":
            remarks.lost(
                "allocationMode Immediate has no equivalent: devices are allocated with the first pod"
            )
        class_name = str(spec.get("resourceClassName") or "")
        namespace = (old.get("metadata") or {}).get("namespace") or ""
        requests, config = self._requests(
            old, spec.pop("parametersRef", None), class_name, namespace, remarks
        )
        devices: DeviceClaim = {"requests": requests}
        if config:
            devices["config"] = config
        if "resourceClassName" in tree:
            put_in_place(tree, "resourceClassName", "devices", devices)
        else:
            tree["devices"] = devices

    def _requests(
        self,
        claim: ResourceClaim,
        reference: ResourceClaimParametersReference | None,
        class_name: str,
        namespace: str,
        remarks: Remarks,
    ) -> tuple[list[DeviceRequest], list[DeviceClaimConfiguration]]:
        if not reference:
            return [_request(0, class_name, ())], []
        resource_class = self._parameters.resource_class(class_name)
        wanted = Reference.of(reference, namespace)
        parameters = self._parameters.claim_parameters(wanted)
        if parameters is not None and (resource_class is None or resource_class.get("structuredParameters")):
            return self._structured(claim, parameters, resource_class, class_name, remarks)
        driver = "" if resource_class is None else str(resource_class.get("driverName") or "")
        if resource_class is None and (rule := self._parameters.rule(wanted)) is not None and rule.config:
            remarks.lost(f"class {class_name} is not among the documents: no driver to configure is known")
        terms, config = self._by_rule(wanted, driver, remarks)
        return [_request(0, class_name, terms)], config

    def _structured(
        self,
        claim: ResourceClaim,
        parameters: ResourceClaimParameters,
        resource_class: ResourceClass | None,
        class_name: str,
        remarks: Remarks,
    ) -> tuple[list[DeviceRequest], list[DeviceClaimConfiguration]]:
        # A claim made from a template has one pod, so nobody notices whether it could be shared.
        if not parameters.get("shareable") and claim.get("kind") == "ResourceClaim":
            remarks.lost("exclusive use has no equivalent: any number of pods may share a claim")
        requests: list[DeviceRequest] = []
        config: list[DeviceClaimConfiguration] = []
        for entry in parameters.get("driverRequests") or ():
            driver = str(entry.get("driverName") or "")
            if resource_class is not None and driver != resource_class.get("driverName"):
                remarks.lost(
                    f"requests for driver {driver} need a class of their own: {class_name} is for another"
                )
            names = []
            for wanted in entry.get("requests") or ():
                expression = (wanted.get("namedResources") or {}).get("selector")
                terms = [self._translate(expression, driver, remarks)] if expression else []
                requests.append(_request(len(requests), class_name, terms))
                names.append(requests[-1]["name"])
                own = _opaque(driver, wanted.get("vendorParameters"), remarks)
                config += _for_requests(names[-1:], own)
            config += _for_requests(names, _opaque(driver, entry.get("vendorParameters"), remarks))
        return requests or [_request(0, class_name, ())], config

    def _by_rule(
        self, reference: Reference, driver: str, remarks: Remarks
    ) -> tuple[list[str], list[DeviceClaimConfiguration]]:
        """The selectors and the configuration that an object becomes which only the driver understands."""
        document = self._parameters.find(reference)
        if document is None:
            remarks.lost(f"parameters {reference} are not among the documents: nothing stands for them now")
            return [], []
        rule = self._parameters.rule(reference)
        if rule is None:
            remarks.lost(
                f"parameters {reference} select nothing now, they only configure the device: "
                f"give a rule for {reference.kind} to make selectors of them"
            )
            return [], _opaque(driver, as_config(document), remarks)
        terms = rule.expressions(document)
        remarks.changed(
            f"parameters {reference} became {len(terms)} selector{'' if len(terms) == 1 else 's'}"
        )
        return terms, _opaque(driver, as_config(document), remarks) if rule.config else []

    # -- slices -----------------------------------------------------------------------------------------------------

    def _slice(self, document: Tree, remarks: Remarks) -> None:
        old = cast("ResourceSlice", document)
        node = old.get("nodeName")
        spec: ResourceSliceSpec = {"driver": str(old.get("driverName") or "")}
        if node:
            spec["nodeName"] = node
        else:
            spec["allNodes"] = True
        spec["pool"] = {
            "name": node or "all-nodes",
            "generation": 1,
            "resourceSliceCount": max(1, self._slices[_pool(old)]),
        }
        instances = (old.get("namedResources") or {}).get("instances") or ()
        devices = [_device(instance, remarks) for instance in instances]
        spec["devices"] = devices
        for name, count in Counter(device["name"] for device in devices).items():
            if count > 1:
                remarks.lost(f"{count} instances would be called {name}: rename all but one")
        for key in ("driverName", "namedResources"):
            document.pop(key, None)
        if "nodeName" in document:
            put_in_place(document, "nodeName", "spec", spec)
        else:
            document["spec"] = spec

    def _translate(self, expression: str, driver: str, remarks: Remarks) -> str:
        return selectors.translate(expression, driver, renamed=lambda old, new: _renamed(old, new, remarks))


def _renamed(old: str, new: str, remarks: Remarks) -> None:
    remarks.changed(f"attribute {old} is called {new} now, in the driver's slices as well")


def _request(number: int, class_name: str, terms: Sequence[str]) -> DeviceRequest:
    exactly: ExactDeviceRequest = {"deviceClassName": class_name}
    if terms:
        exactly["selectors"] = [{"cel": {"expression": term}} for term in terms]
    return {"name": f"req-{number}", "exactly": exactly}


def _opaque(driver: str, parameters: Any, remarks: Remarks) -> list[DeviceClaimConfiguration]:
    if parameters is None or not driver:
        return []
    if not isinstance(parameters, Mapping):
        remarks.lost("vendor parameters that are not an object cannot be passed on")
        return []
    return [{"opaque": {"driver": driver, "parameters": dict(parameters)}}]


def _for_requests(names: list[str], config: list[DeviceClaimConfiguration]) -> list[DeviceClaimConfiguration]:
    return [{"requests": names, **setting} for setting in config] if names else config


def _device(instance: NamedResourcesInstance, remarks: Remarks) -> resource.Device:
    name = selectors.device_name(str(instance.get("name") or ""))
    if name != instance.get("name"):
        remarks.changed(f"instance {instance.get('name')} is called {name} now")
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    for attribute in instance.get("attributes") or ():
        old = str(attribute.get("name") or "")
        new = selectors.attribute_name(old)
        if new != old:
            _renamed(old, new, remarks)
        if new in attributes or new in capacity:
            remarks.lost(f"attribute {old} of {name}: {new} is another attribute's name")
            continue
        if "quantity" in attribute:
            capacity[new] = {"value": attribute["quantity"]}
            continue
        if "intSlice" in attribute:
            attributes[new] = {"ints": list((attribute["intSlice"] or {}).get("ints") or ())}
        if "stringSlice" in attribute:
            attributes[new] = {"strings": list((attribute["stringSlice"] or {}).get("strings") or ())}
        if new in attributes:
            remarks.changed(f"attribute {old} is a list: that takes the DRAListTypeAttributes feature")
        if "bool" in attribute:
            attributes[new] = {"bool": attribute["bool"]}
        if "int" in attribute:
            attributes[new] = {"int": attribute["int"]}
        if "string" in attribute:
            attributes[new] = {"string": attribute["string"]}
        if "version" in attribute:
            attributes[new] = {"version": attribute["version"]}
    device: resource.Device = {"name": name}
    if attributes:
        device["attributes"] = attributes
    if capacity:
        device["capacity"] = capacity
    return device


def _pool(resource_slice: ResourceSlice) -> tuple[str | None, str | None]:
    return resource_slice.get("driverName"), resource_slice.get("nodeName")


def _is_classic_slice(obj: Object) -> bool:
    version = str(obj.get("apiVersion") or "").rpartition("/")[2]
    return obj.get("kind") == "ResourceSlice" and version in VERSIONS
