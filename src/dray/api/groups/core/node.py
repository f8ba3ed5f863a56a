"""Nodes: taints, addresses, and what a kubelet reports about itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.groups.core import resourcenames
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import (
    METADATA,
    SPEC,
    STATUS,
    Context,
    Strategy,
    UpdateStrategy,
    keep_fields,
    name_is_dns_subdomain,
)
from dray.api.validation import addresses, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import Node, NodeStatus, Taint

TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE: Final = "kubernetes.io/role"
_FEATURE: Final = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z0-9]+)*")


def _default(obj: Node) -> None:
    status = obj.setdefault("status", {})
    for part in ("capacity", "allocatable"):
        if status.get(part):
            status[part] = resourcenames.rounded(status[part])
    if "allocatable" not in status and "capacity" in status:
        status["allocatable"] = dict(status["capacity"])


def check_taints(taints: Sequence[Taint], path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        at = path.index(i)
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        found += (field.invalid(at.child("key"), key, message) for message in names.qualified_name(key))
        if messages := names.label_value(value):
            found.append(field.invalid(at.child("value"), value, ";".join(messages)))
        if not effect:
            found.append(field.required(at.child("effect")))
        elif effect not in TAINT_EFFECTS:
            found.append(field.not_supported(at.child("effect"), effect, TAINT_EFFECTS))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            words = "taints must be unique by key and effect pair"
            found.append(FieldError(field.ErrorType.DUPLICATE, str(at), shown, words))
        seen.add((key, effect))
    return found


def _check_pod_cidrs(cidrs: Sequence[str], ctx: Context) -> list[FieldError]:
    path = SPEC.child("podCIDRs")
    strict = "StrictIPCIDRValidation" in ctx.gates
    found = [
        p for i, cidr in enumerate(cidrs) for p in addresses.check_cidr(cidr, path.index(i), strict=strict)
    ]
    if len(cidrs) > 1 and (len(cidrs) > 2 or not addresses.dual_stack(cidrs)):
        found.append(field.invalid(path, cidrs, "may specify no more than one CIDR for each IP family"))
    return found


def _check_resources(status: NodeStatus) -> list[FieldError]:
    return [
        problem
        for part in ("capacity", "allocatable")
        for name, value in sorted((status.get(part) or {}).items())
        for problem in resourcenames.check_value(name, value, STATUS.child(part, name))
    ]


def _check_declared_features(declared: Sequence[str]) -> list[FieldError]:
    path = STATUS.child("declaredFeatures")
    found: list[FieldError] = []
    for i, feature in enumerate(declared):
        if len(feature) > 253:
            words = f"invalid feature name {field.quote(feature)}: must be no more than 253 characters"
            found.append(field.invalid(path.index(i), feature, words))
        elif not _FEATURE.fullmatch(feature):
            words = (
                f"invalid feature name {field.quote(feature)}: must start with an UpperCamelCase segment, with "
                "subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only "
                "alphanumeric characters and slashes"
            )
            found.append(field.invalid(path.index(i), feature, words))
        if i and declared[i - 1] == feature:
            found.append(field.duplicate(path.index(i), feature))
        elif i and declared[i - 1] > feature:
            found.append(field.invalid(path.index(i), feature, "list must be sorted alphabetically"))
    return found


def _check_change(new: Node, old: Node) -> list[FieldError]:
    """What is checked when a node changes, whether through the main resource or its status."""
    spec, old_spec, status = new.get("spec", {}), old.get("spec", {}), new.get("status", {})
    found = _check_resources(status) + _check_declared_features(status.get("declaredFeatures") or ())
    seen: set[tuple[str, str]] = set()
    for i, address in enumerate(status.get("addresses") or ()):
        identity = (address.get("type", ""), address.get("address", ""))
        if identity in seen:
            shown = {"Type": identity[0], "Address": identity[1]}
            found.append(field.duplicate(STATUS.child("addresses").index(i), shown))
        seen.add(identity)
    if old_spec.get("podCIDRs") and old_spec["podCIDRs"] != spec.get("podCIDRs"):
        words = 'node updates may not change podCIDR except from "" to valid'
        found.append(field.forbidden(SPEC.child("podCIDRs"), words))
    if old_spec.get("providerID") and old_spec["providerID"] != spec.get("providerID"):
        words = 'node updates may not change providerID except from "" to valid'
        found.append(field.forbidden(SPEC.child("providerID"), words))
    found += check_taints(spec.get("taints") or (), METADATA.child("taints"))
    if spec.get("externalID") != old_spec.get("externalID"):
        found.append(field.forbidden(SPEC.child("externalID"), "may not be updated"))
    return found


def _one_and_many_cidrs(obj: Node) -> Node:
    """``podCIDR`` is the first of ``podCIDRs``; either may be given."""
    spec = obj.get("spec") or {}
    one, many = spec.get("podCIDR", ""), spec.get("podCIDRs") or []
    if one and not many:
        return {**obj, "spec": {**spec, "podCIDRs": [one]}}
    if many and one != many[0]:
        return {**obj, "spec": {**spec, "podCIDR": many[0]}} if not one else obj
    return obj


class NodeStrategy(Strategy["Node"]):
    check_name = staticmethod(name_is_dns_subdomain)

    def prepare_create(self, obj: Node, ctx: Context) -> None:
        obj.setdefault("spec", {}).pop("configSource", None)
        obj.setdefault("status", {}).pop("config", None)
        _drop_gated(obj, {}, ctx)

    def validate(self, obj: Node, ctx: Context) -> Sequence[FieldError]:
        spec, status = obj.get("spec", {}), obj.get("status", {})
        found = check_taints(spec.get("taints") or (), METADATA.child("taints"))
        found += _check_resources(status)
        capacity = (status.get("nodeInfo") or {}).get("swap", {}).get("capacity")
        if capacity is not None and capacity <= 0:
            path = METADATA.child("nodeSwapStatus", "capacity")
            found.append(field.invalid(path, capacity, "must be greater than zero"))
        found += _check_declared_features(status.get("declaredFeatures") or ())
        return found + _check_pod_cidrs(spec.get("podCIDRs") or [], ctx)

    def warn(self, obj: Node, ctx: Context) -> Sequence[str]:
        if obj.get("spec", {}).get("externalID"):
            return ("spec.externalID: this field is deprecated, and is unused by Kubernetes",)
        return ()

    def prepare_update(self, new: Node, old: Node, ctx: Context) -> None:
        keep_fields(new, old, "status")
        if "configSource" not in old.get("spec", {}):
            new.get("spec", {}).pop("configSource", None)

    def validate_update(self, new: Node, old: Node, ctx: Context) -> Sequence[FieldError]:
        return [*self.validate(new, ctx), *_check_change(new, old)]

    def warn_update(self, new: Node, old: Node, ctx: Context) -> Sequence[str]:
        return self.warn(new, ctx)


class NodeStatusStrategy(UpdateStrategy["Node"]):
    def prepare_update(self, new: Node, old: Node, ctx: Context) -> None:
        keep_fields(new, old, "spec")
        if "config" not in old.get("status", {}):
            new.get("status", {}).pop("config", None)

    def validate_update(self, new: Node, old: Node, ctx: Context) -> Sequence[FieldError]:
        return _check_change(new, old)


def _drop_gated(obj: Node, old: Node, ctx: Context) -> None:
    status, before = obj["status"], old.get("status", {})
    if "NodeDeclaredFeatures" not in ctx.gates and "declaredFeatures" not in before:
        status.pop("declaredFeatures", None)


def _roles(obj: Node) -> str:
    labels = obj["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)} - {""}
    if labels.get(_ROLE):
        roles.add(labels[_ROLE])
    return ",".join(sorted(roles)) or "<none>"


def _cells(obj: Node, now: float) -> Sequence[object]:
    status = obj.get("status", {})
    info = status.get("nodeInfo") or {}
    ready = {c["type"]: c["status"] for c in status.get("conditions") or ()}.get("Ready")
    states = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    if obj.get("spec", {}).get("unschedulable"):
        states.append("SchedulingDisabled")
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return (
        printers.name(obj),
        ",".join(states),
        _roles(obj),
        printers.age(obj, now),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    )


def _address(status: NodeStatus, type: str) -> str:
    return next((a["address"] for a in status.get("addresses") or () if a["type"] == type), "<none>")


KIND = Kind(
    group="",
    kind="Node",
    plural="nodes",
    namespaced=False,
    short_names=("no",),
    prefix="minions",
    versions=(Version(name="v1", type="core/v1.Node", default=_default, to_hub=_one_and_many_cidrs),),
    storage="v1",
    strategy=NodeStrategy(),
    subresources={"status": NodeStatusStrategy()},
    actions={"proxy": ("create", "delete", "get", "patch", "update")},
    printer=printers.printer(
        (
            printers.NAME,
            Column("Status", description="Whether the node is ready and takes new pods."),
            Column("Roles", description="The roles that the node's labels name."),
            printers.AGE,
            Column("Version", description="The version of the node's agent."),
            Column("Internal-IP", priority=1, description="Where the cluster reaches the node."),
            Column("External-IP", priority=1, description="Where the outside world reaches the node."),
            Column("OS-Image", priority=1, description="The node's operating system."),
            Column("Kernel-Version", priority=1, description="The node's kernel."),
            Column("Container-Runtime", priority=1, description="What runs the node's containers."),
        ),
        _cells,
    ),
    fields={
        "spec.unschedulable": lambda obj: "true" if obj.get("spec", {}).get("unschedulable") else "false"
    },
)
