"""A snapshot that may be shown to others: every name that could tell something replaced, consistently.

What allocation depends on stays: numbers, versions, the shape of selectors and who refers to whom. Names of nodes,
namespaces, pods, containers, claims and pools, and values of node labels, become ``node-1``, ``ns-2`` and so on;
annotations, images, environments, messages and events go. Names of classes, drivers, devices and attributes and the values of attributes
stay, as selectors mean nothing without them, except where a value is the name of a node or looks like a serial number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dray.explain.model.snapshot import Document, Snapshot

_SERIAL = re.compile(r"(?i)(uuid|serial|mac(address)?|ip(address)?|hostname)")
_POD_SPEC = (
    "nodeName", "nodeSelector", "affinity", "tolerations", "resourceClaims", "schedulerName",
    "priority", "resources", "overhead", "schedulingGates", "topologySpreadConstraints",
)  # fmt: skip
_CONTAINER = ("name", "resources", "restartPolicy", "ports")
_NODE_STATUS = ("allocatable", "capacity", "conditions")


class _Names:
    """One alias for each name, counted up per sort of name."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def of(self, sort: str, name: str) -> str:
        if not name:
            return name
        alias = self._known.get((sort, name))
        if alias is None:
            self._counts[sort] = self._counts.get(sort, 0) + 1
            alias = self._known[sort, name] = f"{sort}-{self._counts[sort]}"
        return alias

    def known(self, sort: str, name: str) -> str | None:
        return self._known.get((sort, name))


def anonymize(snapshot: Snapshot) -> Snapshot:
    names = _Names()
    for node in snapshot.nodes:
        names.of("node", node["metadata"]["name"])

    def each(documents: tuple[Document, ...], change: Callable[[_Names, Any], dict[str, Any]]) -> Any:
        return tuple(change(names, document) for document in documents)

    return replace(
        snapshot,
        namespaces=each(snapshot.namespaces, _namespace),
        nodes=each(snapshot.nodes, _node),
        slices=each(snapshot.slices, _slice),
        claims=each(snapshot.claims, _claim),
        templates=each(snapshot.templates, _template),
        pods=each(snapshot.pods, _pod),
        taint_rules=each(snapshot.taint_rules, _rule),
        volume_claims=each(snapshot.volume_claims, _volume_claim),
        volumes=each(snapshot.volumes, _volume),
        storage_classes=each(snapshot.storage_classes, _storage_class),
        events=(),
        classes=tuple(_typed(one, {"metadata": {"name": one["metadata"]["name"]}, "spec": one.get("spec") or {}}) for one in snapshot.classes),
    )  # fmt: skip


def _typed(document: Document, rest: Mapping[str, Any]) -> dict[str, Any]:
    return {key: document[key] for key in ("apiVersion", "kind") if key in document} | dict(rest)


def _metadata(names: _Names, document: Document, sort: str) -> dict[str, Any]:
    metadata = document.get("metadata") or {}
    kept: dict[str, Any] = {"name": names.of(sort, metadata.get("name", ""))}
    if metadata.get("namespace"):
        kept["namespace"] = names.of("ns", metadata["namespace"])
    if metadata.get("uid"):
        kept["uid"] = names.of("uid", metadata["uid"])
    for key in ("deletionTimestamp", "creationTimestamp", "finalizers"):
        if metadata.get(key):
            kept[key] = metadata[key]
    owners = [
        {**owner, "name": names.of(str(owner.get("kind", "owner")).lower(), owner.get("name", "")),
         "uid": names.of("uid", owner.get("uid", ""))}
        for owner in metadata.get("ownerReferences") or ()
    ]  # fmt: skip
    return kept | ({"ownerReferences": owners} if owners else {})


def _namespace(names: _Names, document: Document) -> dict[str, Any]:
    metadata = _metadata(names, document, "ns")
    labels = (document["metadata"].get("labels") or {}).items()
    kept = {k: v if k.startswith("resource.kubernetes.io/") else _value(names, v) for k, v in labels}
    return _typed(document, {"metadata": {**metadata, "labels": kept}})


def _node(names: _Names, document: Document) -> dict[str, Any]:
    labels = document["metadata"].get("labels") or {}
    metadata = {**_metadata(names, document, "node"), "labels": _labels(names, labels)}
    spec = {k: v for k, v in (document.get("spec") or {}).items() if k in ("taints", "unschedulable")}
    if spec.get("taints"):
        spec["taints"] = [_taint(names, taint) for taint in spec["taints"]]
    status = {k: v for k, v in (document.get("status") or {}).items() if k in _NODE_STATUS}
    if status.get("conditions"):
        status["conditions"] = _without_messages(status["conditions"])
    return _typed(document, {"metadata": metadata, "spec": spec, "status": status})


def _labels(names: _Names, labels: Mapping[str, str]) -> dict[str, str]:
    return {key: _value(names, value) for key, value in labels.items()}


def _taint(names: _Names, taint: Mapping[str, Any]) -> dict[str, Any]:
    """A taint or a toleration."""
    return {**taint, "value": _value(names, taint["value"])} if taint.get("value") else dict(taint)


def _value(names: _Names, value: str) -> str:
    """The value of a label; numbers are compared as such, and empty and boolean ones tell nothing."""
    if not value or value.isdigit() or value in ("true", "false"):
        return value
    return names.known("node", value) or names.of("value", value)


def _slice(names: _Names, document: Document) -> dict[str, Any]:
    spec = dict(document["spec"])
    spec["pool"] = {**spec["pool"], "name": _pool(names, spec["pool"]["name"])}
    if spec.get("nodeName"):
        spec["nodeName"] = names.of("node", spec["nodeName"])
    spec["devices"] = [_device(names, device) for device in spec.get("devices") or ()]
    if spec.get("nodeSelector"):
        spec["nodeSelector"] = _selector(names, spec["nodeSelector"])
    return _typed(document, {"metadata": _metadata(names, document, "slice"), "spec": spec})


def _pool(names: _Names, name: str) -> str:
    return names.known("node", name) or names.of("pool", name)


def _device(names: _Names, device: Mapping[str, Any]) -> dict[str, Any]:
    changed = dict(device)
    if device.get("nodeName"):
        changed["nodeName"] = names.of("node", device["nodeName"])
    if device.get("nodeSelector"):
        changed["nodeSelector"] = _selector(names, device["nodeSelector"])
    attributes = device.get("attributes")
    if attributes:
        changed["attributes"] = {k: _attribute(names, k, v) for k, v in attributes.items()}
    return changed


def _attribute(names: _Names, name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    text = value.get("string")
    if text is None:
        return value
    if _SERIAL.search(name):
        return {"string": names.of("serial", text)}
    return {"string": names.known("node", text) or text}


def _selector(names: _Names, selector: Any) -> Any:
    """A selector of nodes or pods, or whatever contains some, with all values and namespaces replaced."""
    if isinstance(selector, list):
        return [_selector(names, one) for one in selector]
    if not isinstance(selector, Mapping):
        return selector
    changed: dict[str, Any] = {}
    for key, one in selector.items():
        match key:
            case "values":
                changed[key] = [_value(names, value) for value in one]
            case "matchLabels":
                changed[key] = _labels(names, one)
            case "namespaces":
                changed[key] = [names.of("ns", name) for name in one]
            case _:
                changed[key] = _selector(names, one)
    return changed


def _claim(names: _Names, document: Document) -> dict[str, Any]:
    status = dict(document.get("status") or {})
    if reserved := status.get("reservedFor"):
        status["reservedFor"] = [
            {**one, "name": names.of("pod", one.get("name", "")), "uid": names.of("uid", one.get("uid", ""))}
            for one in reserved
        ]
    if allocation := status.get("allocation"):
        allocation = dict(allocation)
        devices = dict(allocation.get("devices") or {})
        devices.pop("config", None)
        devices["results"] = [
            {**one, "pool": _pool(names, one["pool"])} for one in devices.get("results") or ()
        ]
        allocation["devices"] = devices
        if allocation.get("nodeSelector"):
            allocation["nodeSelector"] = _selector(names, allocation["nodeSelector"])
        status["allocation"] = allocation
    if reported := status.get("devices"):
        keep = ("driver", "pool", "device", "conditions", "shareID")
        status["devices"] = [
            {
                **{k: v for k, v in one.items() if k in keep},
                "pool": _pool(names, one["pool"]),
                "conditions": _without_messages(one.get("conditions") or ()),
            }
            for one in reported
        ]
    rest = {
        "metadata": _metadata(names, document, "claim"),
        "spec": _claim_spec(document.get("spec") or {}),
        "status": status,
    }
    return _typed(document, rest)


def _claim_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    devices = {k: v for k, v in (spec.get("devices") or {}).items() if k != "config"}
    return {"devices": devices}


def _template(names: _Names, document: Document) -> dict[str, Any]:
    inner = (document.get("spec") or {}).get("spec") or {}
    return _typed(
        document, {"metadata": _metadata(names, document, "template"), "spec": {"spec": _claim_spec(inner)}}
    )


def _pod(names: _Names, document: Document) -> dict[str, Any]:
    old = document.get("spec") or {}
    spec = {key: old[key] for key in _POD_SPEC if key in old}
    if spec.get("nodeName"):
        spec["nodeName"] = names.of("node", spec["nodeName"])
    for field in ("affinity", "topologySpreadConstraints"):
        if spec.get(field):
            spec[field] = _selector(names, spec[field])
    volumes = [v for v in old.get("volumes") or () if v.get("persistentVolumeClaim")]
    if volumes:
        spec["volumes"] = [_volume_of_pod(names, volume) for volume in volumes]
    if spec.get("nodeSelector"):
        spec["nodeSelector"] = _labels(names, spec["nodeSelector"])
    if spec.get("tolerations"):
        spec["tolerations"] = [_taint(names, toleration) for toleration in spec["tolerations"]]
    if spec.get("resourceClaims"):
        spec["resourceClaims"] = [_entry(names, entry) for entry in spec["resourceClaims"]]
    for group in ("containers", "initContainers"):
        if old.get(group):
            spec[group] = [_container(names, container) for container in old[group]]
    status = document.get("status") or {}
    kept = {key: status[key] for key in ("phase", "conditions", "nominatedNodeName") if key in status}
    if status.get("resourceClaimStatuses"):
        kept["resourceClaimStatuses"] = [_entry(names, e) for e in status["resourceClaimStatuses"]]
    if kept.get("nominatedNodeName"):
        kept["nominatedNodeName"] = names.of("node", kept["nominatedNodeName"])
    if kept.get("conditions"):
        kept["conditions"] = _without_messages(kept["conditions"])
    if status.get("extendedResourceClaimStatus"):
        name = status["extendedResourceClaimStatus"].get("resourceClaimName", "")
        kept["extendedResourceClaimStatus"] = {"resourceClaimName": names.of("claim", name)}
    metadata = _metadata(names, document, "pod")
    if labels := (document.get("metadata") or {}).get("labels"):
        metadata["labels"] = _labels(names, labels)
    return _typed(document, {"metadata": metadata, "spec": spec, "status": kept})


def _volume_of_pod(names: _Names, volume: Mapping[str, Any]) -> dict[str, Any]:
    claim = names.of("pvc", volume["persistentVolumeClaim"].get("claimName", ""))
    return {"name": names.of("volume", volume.get("name", "")), "persistentVolumeClaim": {"claimName": claim}}


def _volume_claim(names: _Names, document: Document) -> dict[str, Any]:
    spec = document.get("spec") or {}
    kept = {
        "volumeName": names.of("pv", spec.get("volumeName") or ""),
        "storageClassName": names.of("storage", spec.get("storageClassName") or ""),
    }
    return _typed(document, {"metadata": _metadata(names, document, "pvc"), "spec": kept})


def _volume(names: _Names, document: Document) -> dict[str, Any]:
    affinity = (document.get("spec") or {}).get("nodeAffinity")
    spec = {"nodeAffinity": _selector(names, affinity)} if affinity else {}
    return _typed(document, {"metadata": _metadata(names, document, "pv"), "spec": spec})


def _storage_class(names: _Names, document: Document) -> dict[str, Any]:
    mode = {"volumeBindingMode": document.get("volumeBindingMode")}
    return _typed(document, {"metadata": _metadata(names, document, "storage"), **mode})


def _without_messages(conditions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in one.items() if key != "message"} for one in conditions]


def _container(names: _Names, container: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: container[key] for key in _CONTAINER if key in container}
    kept["name"] = names.of("container", container.get("name", ""))
    used = (container.get("resources") or {}).get("claims")
    if used:
        claims = [{**one, "name": names.of("entry", one.get("name", ""))} for one in used]
        kept["resources"] = {**kept["resources"], "claims": claims}
    return kept


def _entry(names: _Names, entry: Mapping[str, Any]) -> dict[str, Any]:
    changed = {**entry, "name": names.of("entry", entry.get("name", ""))}
    for key, sort in (("resourceClaimName", "claim"), ("resourceClaimTemplateName", "template")):
        if changed.get(key):
            changed[key] = names.of(sort, changed[key])
    return changed


def _rule(names: _Names, document: Document) -> dict[str, Any]:
    spec = dict(document.get("spec") or {})
    selector = spec.get("deviceSelector")
    if selector and selector.get("pool"):
        spec["deviceSelector"] = {**selector, "pool": _pool(names, selector["pool"])}
    return _typed(document, {"metadata": _metadata(names, document, "rule"), "spec": spec})
