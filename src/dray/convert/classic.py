"""Classes, claims and slices of v1alpha1 and v1alpha2, in v1's shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dray.convert import selectors
from dray.convert.modern import claim_spec
from dray.convert.notes import Remarks
from dray.convert.parameters import Parameters, Reference, as_config
from dray.convert.trees import Tree, put_in_place

Document = Mapping[str, Any]

VERSIONS = ("v1alpha1", "v1alpha2")
#: Kinds that nothing reads any more, and what has become of them.
GONE = {
    "PodScheduling": "the scheduler no longer negotiates with drivers",
    "PodSchedulingContext": "the scheduler no longer negotiates with drivers",
    "ResourceClaimParameters": "its requests are part of the claims that refer to it",
    "ResourceClassParameters": "its filters are part of the classes that refer to it",
}

_ATTRIBUTES = {"bool": "bool", "int": "int", "string": "string", "version": "version"}
_LISTS = {"intSlice": ("ints", "ints"), "stringSlice": ("strings", "strings")}


class Classic:
    """One conversion of classic documents, all of which may refer to one another."""

    def __init__(self, documents: Iterable[Document], parameters: Parameters) -> None:
        self._parameters = parameters
        self._slices = Counter(
            _pool(d) for d in documents if d.get("kind") == "ResourceSlice" and _is_classic(d)
        )

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
        driver = str(document.get("driverName") or "")
        structured = bool(document.pop("structuredParameters", False))
        terms = [selectors.driver_is(driver)]
        config: list[dict[str, Any]] = []
        found, settings = self._class_parameters(
            document.pop("parametersRef", None), driver, structured, remarks
        )
        terms += found
        config += settings
        if document.pop("suitableNodes", None):
            remarks.lost(
                "suitableNodes has no equivalent: restrict the pods, or the devices by their attributes"
            )
        # One expression: an attribute must not be asked of other drivers' devices, that would be an error.
        expression = terms[0] if len(terms) == 1 else " && ".join([terms[0], *(f"({t})" for t in terms[1:])])
        spec: dict[str, Any] = {"selectors": [{"cel": {"expression": expression}}]}
        if config:
            spec["config"] = config
        document["kind"] = "DeviceClass"
        if "driverName" in document:
            put_in_place(document, "driverName", "spec", spec)
        else:
            document["spec"] = spec

    def _class_parameters(
        self, reference: Document | None, driver: str, structured: bool, remarks: Remarks
    ) -> tuple[list[str], list[dict[str, Any]]]:
        if not reference:
            return [], []
        wanted = Reference.of(reference, "")
        made = self._parameters.structured("ResourceClassParameters", wanted)
        if not structured or made is None:
            return self._by_rule(wanted, driver, remarks)
        terms = []
        for entry in made.get("filters") or ():
            if entry.get("driverName") not in ("", None, driver):
                remarks.lost(f"filter for driver {entry['driverName']}: the class is for devices of {driver}")
            elif expression := (entry.get("namedResources") or {}).get("selector"):
                terms.append(self._translate(expression, driver, remarks))
        config = []
        for entry in made.get("vendorParameters") or ():
            config += _opaque(entry.get("driverName") or driver, entry.get("parameters"), remarks)
        return terms, config

    # -- claims -----------------------------------------------------------------------------------------------------

    def _claim(self, document: Tree, remarks: Remarks) -> None:
        spec = claim_spec(document)
        if spec is None:
            return
        if (document.pop("status", None) or {}).get("allocation"):
            remarks.lost("the allocation is left out: the scheduler makes a new one")
        if spec.pop("allocationMode", None) == "Immediate":
            remarks.lost(
                "allocationMode Immediate has no equivalent: devices are allocated with the first pod"
            )
        class_name = str(spec.get("resourceClassName") or "")
        of = self._parameters.resource_class(class_name)
        namespace = (document.get("metadata") or {}).get("namespace") or ""
        requests, config = self._requests(
            document, spec.pop("parametersRef", None), of, class_name, namespace, remarks
        )
        devices: dict[str, Any] = {"requests": requests}
        if config:
            devices["config"] = config
        if "resourceClassName" in spec:
            put_in_place(spec, "resourceClassName", "devices", devices)
        else:
            spec["devices"] = devices

    def _requests(
        self,
        document: Tree,
        reference: Document | None,
        of: Document | None,
        class_name: str,
        namespace: str,
        remarks: Remarks,
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        if not reference:
            return [_request(0, class_name, ())], []
        wanted = Reference.of(reference, namespace)
        made = self._parameters.structured("ResourceClaimParameters", wanted)
        if made is not None and (of is None or of.get("structuredParameters")):
            return self._structured(document, made, of, class_name, remarks)
        driver = str((of or {}).get("driverName") or "")
        if of is None and (rule := self._parameters.rule(wanted)) is not None and rule.config:
            remarks.lost(f"class {class_name} is not among the documents: no driver to configure is known")
        terms, config = self._by_rule(wanted, driver, remarks)
        return [_request(0, class_name, terms)], config

    def _structured(
        self, document: Tree, made: Document, of: Document | None, class_name: str, remarks: Remarks
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        # A claim made from a template has one pod, so nobody notices whether it could be shared.
        if not made.get("shareable") and document.get("kind") == "ResourceClaim":
            remarks.lost("exclusive use has no equivalent: any number of pods may share a claim")
        requests: list[dict[str, Any]] = []
        config: list[dict[str, Any]] = []
        for entry in made.get("driverRequests") or ():
            driver = str(entry.get("driverName") or "")
            if of is not None and driver != of.get("driverName"):
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
                config += [{"requests": names[-1:], **setting} for setting in own]
            common = _opaque(driver, entry.get("vendorParameters"), remarks)
            config += [{"requests": names, **setting} if names else setting for setting in common]
        return requests or [_request(0, class_name, ())], config

    def _by_rule(
        self, reference: Reference, driver: str, remarks: Remarks
    ) -> tuple[list[str], list[dict[str, Any]]]:
        """What an object that only the driver understands comes to."""
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
        driver, node = str(document.get("driverName") or ""), document.get("nodeName")
        spec: dict[str, Any] = {"driver": driver}
        spec |= {"nodeName": node} if node else {"allNodes": True}
        spec["pool"] = {
            "name": node or "all-nodes",
            "generation": 1,
            "resourceSliceCount": max(1, self._slices[_pool(document)]),
        }
        instances = (document.get("namedResources") or {}).get("instances") or ()
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


def _request(number: int, class_name: str, terms: Iterable[str]) -> dict[str, Any]:
    exactly: dict[str, Any] = {"deviceClassName": class_name}
    chosen = [{"cel": {"expression": term}} for term in terms]
    if chosen:
        exactly["selectors"] = chosen
    return {"name": f"req-{number}", "exactly": exactly}


def _opaque(driver: str, parameters: Any, remarks: Remarks) -> list[dict[str, Any]]:
    if parameters is None or not driver:
        return []
    if not isinstance(parameters, Mapping):
        remarks.lost("vendor parameters that are not an object cannot be passed on")
        return []
    return [{"opaque": {"driver": driver, "parameters": dict(parameters)}}]


def _device(instance: Document, remarks: Remarks) -> dict[str, Any]:
    name = selectors.device_name(str(instance.get("name") or ""))
    if name != instance.get("name"):
        remarks.changed(f"instance {instance.get('name')} is called {name} now")
    attributes: dict[str, Any] = {}
    capacity: dict[str, Any] = {}
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
        for field, (inner, today) in _LISTS.items():
            if field in attribute:
                attributes[new] = {today: list((attribute[field] or {}).get(inner) or ())}
                remarks.changed(f"attribute {old} is a list: that takes the DRAListTypeAttributes feature")
        for field, today in _ATTRIBUTES.items():
            if field in attribute:
                attributes[new] = {today: attribute[field]}
    device: dict[str, Any] = {"name": name}
    if attributes:
        device["attributes"] = attributes
    if capacity:
        device["capacity"] = capacity
    return device


def _pool(document: Document) -> tuple[Any, Any]:
    return document.get("driverName"), document.get("nodeName")


def _is_classic(document: Document) -> bool:
    return str(document.get("apiVersion") or "").rpartition("/")[2] in VERSIONS
