"""PodGroup: pods that are scheduled together; CompositePodGroup: such groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.groups.scheduling import rules
from dray.api.groups.scheduling.disabledfields import drop_from_composite, drop_from_group
from dray.api.scheme import printers
from dray.api.scheme.strategy import SPEC, STATUS, Context, StatusStrategy, SubdomainStrategy, keep_fields
from dray.api.validation import declarative, field, objectmeta
from dray.api.validation.field import FieldError

if TYPE_CHECKING:
    from dray.api.types.scheduling_v1alpha3 import CompositePodGroup
    from dray.api.types.scheduling_v1beta1 import PodGroup


#: Keeps a group while pods refer to it.
PROTECTION_FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"


class PodGroupStrategy(SubdomainStrategy["PodGroup"]):
    has_declared_rules = True
    unconditional_update = False

    def prepare_create(self, obj: PodGroup, ctx: Context) -> None:
        obj["status"] = {}
        drop_from_group(obj["spec"], {}, ctx.gates)

    def prepare_update(self, new: PodGroup, old: PodGroup, ctx: Context) -> None:
        keep_fields(new, old, "status")
        drop_from_group(new["spec"], old["spec"], ctx.gates)

    def validate(self, obj: PodGroup, ctx: Context) -> Sequence[FieldError]:
        spec, found = obj["spec"], []
        if spec.get("parentCompositePodGroupName") is not None and spec.get("workloadRef") is None:
            words = "must be set when parentCompositePodGroupName is set"
            found.append(field.required(SPEC.child("workloadRef"), words))
        return [*found, *declarative.check(rules.POD_GROUP, spec, None, SPEC, ctx.gates)]

    def validate_update(self, new: PodGroup, old: PodGroup, ctx: Context) -> Sequence[FieldError]:
        return declarative.check(rules.POD_GROUP, new["spec"], old["spec"], SPEC, ctx.gates)


class PodGroupStatusStrategy(StatusStrategy["PodGroup"]):
    has_declared_rules = True
    reset = (("metadata",), ("spec",))

    def prepare_update(self, new: PodGroup, old: PodGroup, ctx: Context) -> None:
        super().prepare_update(new, old, ctx)
        keep_fields(
            new["metadata"], old["metadata"], "labels", "annotations", "finalizers", "ownerReferences"
        )
        if "DRAWorkloadResourceClaims" not in ctx.gates and not old["spec"].get("resourceClaims"):
            new["status"].pop("resourceClaimStatuses", None)

    def validate_update(self, new: PodGroup, old: PodGroup, ctx: Context) -> Sequence[FieldError]:
        status, before = new.get("status", {}), old.get("status", {})
        found = objectmeta.validate_conditions(
            status.get("conditions") or (), STATUS.child("conditions"), declared=True
        )
        claims = {claim["name"] for claim in new["spec"].get("resourceClaims") or ()}
        for i, known in enumerate(status.get("resourceClaimStatuses") or ()):
            if known.get("name", "") not in claims:
                at = STATUS.child("resourceClaimStatuses").index(i).child("name")
                words = "must match the name of an entry in `spec.resourceClaims`"
                found.append(field.invalid(at, known.get("name", ""), words))
        return [*found, *declarative.check(rules.POD_GROUP_STATUS, status, before, STATUS, ctx.gates)]


class CompositePodGroupStrategy(SubdomainStrategy["CompositePodGroup"]):
    has_declared_rules = True
    unconditional_update = False

    def prepare_create(self, obj: CompositePodGroup, ctx: Context) -> None:
        obj["status"] = {}
        drop_from_composite(obj["spec"], {}, ctx.gates)

    def prepare_update(self, new: CompositePodGroup, old: CompositePodGroup, ctx: Context) -> None:
        keep_fields(new, old, "status")
        drop_from_composite(new["spec"], old["spec"], ctx.gates)

    def validate(self, obj: CompositePodGroup, ctx: Context) -> Sequence[FieldError]:
        return declarative.check(rules.COMPOSITE, obj["spec"], None, SPEC, ctx.gates)

    def validate_update(
        self, new: CompositePodGroup, old: CompositePodGroup, ctx: Context
    ) -> Sequence[FieldError]:
        return declarative.check(rules.COMPOSITE, new["spec"], old["spec"], SPEC, ctx.gates)


class CompositePodGroupStatusStrategy(StatusStrategy["CompositePodGroup"]):
    has_declared_rules = True
    reset = (("metadata",), ("spec",))

    def validate_update(
        self, new: CompositePodGroup, old: CompositePodGroup, ctx: Context
    ) -> Sequence[FieldError]:
        conditions = new.get("status", {}).get("conditions") or ()
        return objectmeta.validate_conditions(conditions, STATUS.child("conditions"), declared=True)


def group_cells(obj: PodGroup, now: float) -> Sequence[object]:
    return *_policy_and_workload(obj), _state(obj), printers.age(obj, now)


def composite_cells(obj: CompositePodGroup, now: float) -> Sequence[object]:
    return *_policy_and_workload(obj), printers.age(obj, now)


def _policy_and_workload(obj: PodGroup | CompositePodGroup) -> tuple[str, str, str]:
    policy = obj["spec"].get("schedulingPolicy") or {}
    kind = (
        "Gang" if policy.get("gang") is not None else "Basic" if policy.get("basic") is not None else "<none>"
    )
    return printers.name(obj), kind, (obj["spec"].get("workloadRef") or {}).get("workloadName") or "<none>"


def _state(obj: PodGroup) -> str:
    conditions = {c["type"]: c for c in obj.get("status", {}).get("conditions") or ()}
    if (target := conditions.get("DisruptionTarget")) is not None:
        return target["reason"]
    scheduled = conditions.get("PodGroupInitiallyScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled["status"] == "True" else "Unschedulable"
