"""A snapshot without names that are confidential: each is replaced by an alias, everywhere by the same one.

What allocation depends on stays: numbers, versions, the shape of selectors and references between objects. Names of nodes,
namespaces, pods, containers, claims and pools, and values of node labels, become ``node-1``, ``ns-2`` and so on;
annotations, images, environments, messages, events and classic objects, which hold drivers' own data, go. Names of classes, drivers, devices and attributes and the values of attributes
stay, as selectors mean nothing without them, except where a value is the name of a node or looks like a serial number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from dray.explain.model.snapshot import CLASSIC_KINDS, Snapshot

if TYPE_CHECKING:
    from dray.api.types import Object, resource
    from dray.api.types.core import (
        Container,
        Namespace,
        Node,
        PersistentVolume,
        PersistentVolumeClaim,
        PersistentVolumeSpec,
        Pod,
        PodResourceClaim,
        PodResourceClaimStatus,
        PodSpec,
        PodStatus,
        Taint,
        Toleration,
        Volume,
    )
    from dray.api.types.meta import ObjectMeta, OwnerReference
    from dray.api.types.resource import (
        DeviceAttribute,
        DeviceClass,
        DeviceTaintRule,
        ResourceClaim,
        ResourceClaimSpec,
        ResourceClaimTemplate,
        ResourceSlice,
    )
    from dray.api.types.storage import StorageClass

T = TypeVar("T")
TaintT = TypeVar("TaintT", "Taint", "Toleration")

_SERIAL = re.compile(r"(?i)(uuid|serial|mac(address)?|ip(address)?|hostname)")
_POD_SPEC = (
    "nodeName", "nodeSelector", "affinity", "tolerations", "resourceClaims", "schedulerName",
    "priority", "resources", "overhead", "schedulingGates", "topologySpreadConstraints",
)  # fmt: skip
_TYPE = ("apiVersion", "kind")


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

    def each(objects: tuple[T, ...], change: Callable[[_Names, T], T]) -> tuple[T, ...]:
        return tuple(change(names, obj) for obj in objects)

    without_classic: dict[str, Any] = dict.fromkeys(CLASSIC_KINDS, ())
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
        on_demand=(),
        groups=(),
        classes=each(snapshot.classes, _device_class),
        **without_classic,
    )


def _kept(document: T, fields: Iterable[str]) -> T:
    """The document with these fields alone."""
    entries = cast("Mapping[str, object]", document)
    return cast("T", {key: entries[key] for key in fields if key in entries})


def _metadata(names: _Names, document: Object, sort: str) -> ObjectMeta:
    metadata = document.get("metadata") or {}
    kept: ObjectMeta = {"name": names.of(sort, metadata.get("name", ""))}
    if metadata.get("namespace"):
        kept["namespace"] = names.of("ns", metadata["namespace"])
    if metadata.get("uid"):
        kept["uid"] = names.of("uid", metadata["uid"])
    if metadata.get("deletionTimestamp"):
        kept["deletionTimestamp"] = metadata["deletionTimestamp"]
    if metadata.get("creationTimestamp"):
        kept["creationTimestamp"] = metadata["creationTimestamp"]
    if metadata.get("finalizers"):
        kept["finalizers"] = metadata["finalizers"]
    if metadata.get("ownerReferences"):
        kept["ownerReferences"] = [_owner(names, owner) for owner in metadata["ownerReferences"]]
    return kept


def _owner(names: _Names, owner: OwnerReference) -> OwnerReference:
    sort = str(owner.get("kind", "owner")).lower()
    return {
        **owner,
        "name": names.of(sort, owner.get("name", "")),
        "uid": names.of("uid", owner.get("uid", "")),
    }


def _device_class(names: _Names, device_class: DeviceClass) -> DeviceClass:
    metadata: ObjectMeta = {"name": device_class["metadata"]["name"]}
    return {**_kept(device_class, _TYPE), "metadata": metadata, "spec": device_class.get("spec") or {}}


def _namespace(names: _Names, namespace: Namespace) -> Namespace:
    metadata = _metadata(names, namespace, "ns")
    labels = (namespace["metadata"].get("labels") or {}).items()
    metadata["labels"] = {
        k: v if k.startswith("resource.kubernetes.io/") else _value(names, v) for k, v in labels
    }
    return {**_kept(namespace, _TYPE), "metadata": metadata}


def _node(names: _Names, node: Node) -> Node:
    metadata = _metadata(names, node, "node")
    metadata["labels"] = _labels(names, node["metadata"].get("labels") or {})
    spec = _kept(node.get("spec") or {}, ("taints", "unschedulable"))
    if spec.get("taints"):
        spec["taints"] = [_taint(names, taint) for taint in spec["taints"]]
    status = _kept(node.get("status") or {}, ("allocatable", "capacity", "conditions"))
    if status.get("conditions"):
        status["conditions"] = _without_messages(status["conditions"])
    return {**_kept(node, _TYPE), "metadata": metadata, "spec": spec, "status": status}


def _labels(names: _Names, labels: Mapping[str, str]) -> dict[str, str]:
    return {key: _value(names, value) for key, value in labels.items()}


def _taint(names: _Names, taint: TaintT) -> TaintT:
    """A taint or a toleration."""
    changed = taint.copy()
    if taint.get("value"):
        changed["value"] = _value(names, taint["value"])
    return changed


def _value(names: _Names, value: str) -> str:
    """The value of a label; numbers stay as they are compared, and so do empty and boolean values, which reveal nothing."""
    if not value or value.isdigit() or value in ("true", "false"):
        return value
    return names.known("node", value) or names.of("value", value)


def _slice(names: _Names, resource_slice: ResourceSlice) -> ResourceSlice:
    spec = resource_slice["spec"].copy()
    spec["pool"] = {**spec["pool"], "name": _pool(names, spec["pool"]["name"])}
    if spec.get("nodeName"):
        spec["nodeName"] = names.of("node", spec["nodeName"])
    spec["devices"] = [_device(names, device) for device in spec.get("devices") or ()]
    if spec.get("nodeSelector"):
        spec["nodeSelector"] = _selector(names, spec["nodeSelector"])
    metadata = _metadata(names, resource_slice, "slice")
    return {**_kept(resource_slice, _TYPE), "metadata": metadata, "spec": spec}


def _pool(names: _Names, name: str) -> str:
    return names.known("node", name) or names.of("pool", name)


def _device(names: _Names, device: resource.Device) -> resource.Device:
    changed = device.copy()
    if device.get("nodeName"):
        changed["nodeName"] = names.of("node", device["nodeName"])
    if device.get("nodeSelector"):
        changed["nodeSelector"] = _selector(names, device["nodeSelector"])
    attributes = device.get("attributes")
    if attributes:
        changed["attributes"] = {k: _attribute(names, k, v) for k, v in attributes.items()}
    return changed


def _attribute(names: _Names, name: str, value: DeviceAttribute) -> DeviceAttribute:
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


def _claim(names: _Names, claim: ResourceClaim) -> ResourceClaim:
    status = (claim.get("status") or {}).copy()
    if reserved := status.get("reservedFor"):
        status["reservedFor"] = [
            {**one, "name": names.of("pod", one.get("name", "")), "uid": names.of("uid", one.get("uid", ""))}
            for one in reserved
        ]
    if status.get("allocation"):
        allocation = status["allocation"].copy()
        devices = (allocation.get("devices") or {}).copy()
        devices.pop("config", None)
        devices["results"] = [
            {**one, "pool": _pool(names, one["pool"])} for one in devices.get("results") or ()
        ]
        allocation["devices"] = devices
        if allocation.get("nodeSelector"):
            allocation["nodeSelector"] = _selector(names, allocation["nodeSelector"])
        status["allocation"] = allocation
    if reported := status.get("devices"):
        status["devices"] = [
            {
                **_kept(one, ("driver", "pool", "device", "conditions", "shareID")),
                "pool": _pool(names, one["pool"]),
                "conditions": _without_messages(one.get("conditions") or ()),
            }
            for one in reported
        ]
    return {
        **_kept(claim, _TYPE),
        "metadata": _metadata(names, claim, "claim"),
        "spec": _claim_spec(claim.get("spec") or {}),
        "status": status,
    }


def _claim_spec(spec: ResourceClaimSpec) -> ResourceClaimSpec:
    devices = (spec.get("devices") or {}).copy()
    devices.pop("config", None)
    return {"devices": devices}


def _template(names: _Names, template: ResourceClaimTemplate) -> ResourceClaimTemplate:
    inner = _claim_spec((template.get("spec") or {}).get("spec") or {})
    metadata = _metadata(names, template, "template")
    return {**_kept(template, _TYPE), "metadata": metadata, "spec": {"spec": inner}}


def _pod(names: _Names, pod: Pod) -> Pod:
    metadata = _metadata(names, pod, "pod")
    if labels := (pod.get("metadata") or {}).get("labels"):
        metadata["labels"] = _labels(names, labels)
    spec, status = _pod_spec(names, pod.get("spec") or {}), _pod_status(names, pod.get("status") or {})
    return {**_kept(pod, _TYPE), "metadata": metadata, "spec": spec, "status": status}


def _pod_spec(names: _Names, old: PodSpec) -> PodSpec:
    spec = _kept(old, _POD_SPEC)
    if spec.get("nodeName"):
        spec["nodeName"] = names.of("node", spec["nodeName"])
    if spec.get("affinity"):
        spec["affinity"] = _selector(names, spec["affinity"])
    if spec.get("topologySpreadConstraints"):
        spec["topologySpreadConstraints"] = _selector(names, spec["topologySpreadConstraints"])
    volumes = [volume for volume in old.get("volumes") or () if volume.get("persistentVolumeClaim")]
    if volumes:
        spec["volumes"] = [_volume_of_pod(names, volume) for volume in volumes]
    if spec.get("nodeSelector"):
        spec["nodeSelector"] = _labels(names, spec["nodeSelector"])
    if spec.get("tolerations"):
        spec["tolerations"] = [_taint(names, toleration) for toleration in spec["tolerations"]]
    if spec.get("resourceClaims"):
        spec["resourceClaims"] = [_entry(names, entry) for entry in spec["resourceClaims"]]
    if old.get("containers"):
        spec["containers"] = [_container(names, container) for container in old["containers"]]
    if old.get("initContainers"):
        spec["initContainers"] = [_container(names, container) for container in old["initContainers"]]
    return spec


def _pod_status(names: _Names, old: PodStatus) -> PodStatus:
    status = _kept(old, ("phase", "conditions", "nominatedNodeName"))
    if old.get("resourceClaimStatuses"):
        status["resourceClaimStatuses"] = [_claim_status(names, one) for one in old["resourceClaimStatuses"]]
    if status.get("nominatedNodeName"):
        status["nominatedNodeName"] = names.of("node", status["nominatedNodeName"])
    if status.get("conditions"):
        status["conditions"] = _without_messages(status["conditions"])
    if extended := old.get("extendedResourceClaimStatus"):
        name = names.of("claim", extended.get("resourceClaimName", ""))
        status["extendedResourceClaimStatus"] = {"resourceClaimName": name}
    return status


def _volume_of_pod(names: _Names, volume: Volume) -> Volume:
    claim = names.of("pvc", volume["persistentVolumeClaim"].get("claimName", ""))
    return {"name": names.of("volume", volume.get("name", "")), "persistentVolumeClaim": {"claimName": claim}}


def _volume_claim(names: _Names, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    spec = claim.get("spec") or {}
    return {
        **_kept(claim, _TYPE),
        "metadata": _metadata(names, claim, "pvc"),
        "spec": {
            "volumeName": names.of("pv", spec.get("volumeName") or ""),
            "storageClassName": names.of("storage", spec.get("storageClassName") or ""),
        },
    }


def _volume(names: _Names, volume: PersistentVolume) -> PersistentVolume:
    affinity = (volume.get("spec") or {}).get("nodeAffinity")
    spec: PersistentVolumeSpec = {"nodeAffinity": _selector(names, affinity)} if affinity else {}
    return {**_kept(volume, _TYPE), "metadata": _metadata(names, volume, "pv"), "spec": spec}


def _storage_class(names: _Names, storage_class: StorageClass) -> StorageClass:
    return {
        **_kept(storage_class, (*_TYPE, "volumeBindingMode")),
        "metadata": _metadata(names, storage_class, "storage"),
    }


def _without_messages(conditions: Iterable[T]) -> list[T]:
    return [
        cast(
            "T", {key: value for key, value in cast("Mapping[str, object]", one).items() if key != "message"}
        )
        for one in conditions
    ]


def _container(names: _Names, container: Container) -> Container:
    kept = _kept(container, ("name", "resources", "restartPolicy", "ports"))
    kept["name"] = names.of("container", container.get("name", ""))
    resources = container.get("resources") or {}
    if used := resources.get("claims"):
        kept["resources"] = {
            **resources,
            "claims": [{**one, "name": names.of("entry", one.get("name", ""))} for one in used],
        }
    return kept


def _entry(names: _Names, entry: PodResourceClaim) -> PodResourceClaim:
    changed: PodResourceClaim = {**entry, "name": names.of("entry", entry.get("name", ""))}
    if changed.get("resourceClaimName"):
        changed["resourceClaimName"] = names.of("claim", changed["resourceClaimName"])
    if changed.get("resourceClaimTemplateName"):
        changed["resourceClaimTemplateName"] = names.of("template", changed["resourceClaimTemplateName"])
    return changed


def _claim_status(names: _Names, status: PodResourceClaimStatus) -> PodResourceClaimStatus:
    changed: PodResourceClaimStatus = {**status, "name": names.of("entry", status.get("name", ""))}
    if changed.get("resourceClaimName"):
        changed["resourceClaimName"] = names.of("claim", changed["resourceClaimName"])
    return changed


def _rule(names: _Names, rule: DeviceTaintRule) -> DeviceTaintRule:
    spec = (rule.get("spec") or {}).copy()
    selector = spec.get("deviceSelector")
    if selector and selector.get("pool"):
        spec["deviceSelector"] = {**selector, "pool": _pool(names, selector["pool"])}
    return {**_kept(rule, _TYPE), "metadata": _metadata(names, rule, "rule"), "spec": spec}
