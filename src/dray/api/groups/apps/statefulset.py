"""Stateful sets: pods with a lasting name and storage of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dray.api.golang import structs
from dray.api.groups.apps.workload import (
    CONTAINERS,
    IMAGES,
    TEMPLATE,
    ReplicaStatusStrategy,
    WorkloadStrategy,
    amount_of,
    at_most_all,
    check_counts,
    check_long_running,
    check_selector,
    check_selector_matches_template,
    int_or_percent,
    selector_string,
    template_cells,
)
from dray.api.groups.core import persistentvolumeclaim
from dray.api.groups.core.pod.defaults import default_template
from dray.api.groups.core.podtemplate import check_template, codecs
from dray.api.quirks import APIQuirks
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Scale, Version
from dray.api.scheme.strategy import SPEC, Context, name_is_dns_label
from dray.api.validation import checks, field
from dray.api.validation.field import FieldError

if TYPE_CHECKING:
    from dray.api.types.apps import StatefulSet, StatefulSetSpec
    from dray.api.types.core import PersistentVolumeClaim, PodTemplateSpec, Volume

_MANAGEMENT: Final = ("OrderedReady", "Parallel")
_RETENTION: Final = ("Retain", "Delete")
_MUTABLE: Final = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_IMMUTABLE: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _default(obj: StatefulSet) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec.setdefault("template", {}))
    for claim in spec.get("volumeClaimTemplates") or ():
        persistentvolumeclaim.default_spec(claim.setdefault("spec", {}))
        claim.setdefault("status", {}).setdefault("phase", "Pending")
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)


def _name_claims(obj: StatefulSet) -> StatefulSet:
    """Claims inside a set always say what they are."""
    claims = obj.get("spec", {}).get("volumeClaimTemplates")
    if not claims or all(claim.get("kind") for claim in claims):
        return obj
    named: list[PersistentVolumeClaim] = [
        {**claim, "kind": "PersistentVolumeClaim", "apiVersion": "v1"} for claim in claims
    ]
    return {**obj, "spec": {**obj["spec"], "volumeClaimTemplates": named}}


def _check_strategy(spec: StatefulSetSpec) -> list[FieldError]:
    strategy, path = spec.get("updateStrategy") or {}, SPEC.child("updateStrategy")
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if not kind:
        return [field.required(path)]
    if kind == "OnDelete":
        if rolling is None:
            return []
        shown = structs.render("apps/v1.RollingUpdateStatefulSetStrategy", rolling)
        words = "only allowed for updateStrategy 'RollingUpdate'"
        return [field.invalid(path.child("rollingUpdate"), shown, words)]
    if kind != "RollingUpdate":
        shown = structs.render("apps/v1.StatefulSetUpdateStrategy", strategy)
        return [field.invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")]
    if rolling is None:
        return []
    at = path.child("rollingUpdate")
    found = check_counts(rolling, at, "partition")
    if (unavailable := rolling.get("maxUnavailable")) is not None:
        where = at.child("maxUnavailable")
        found += int_or_percent(unavailable, where)
        if not amount_of(unavailable):
            found.append(field.invalid(where, unavailable, "cannot be 0"))
        found += at_most_all(unavailable, where)
    return found


def _template_to_check(spec: StatefulSetSpec) -> PodTemplateSpec:
    """The template as its pods will be: named by the set, with the volumes that its claims become."""
    template = spec.get("template") or {}
    pod_spec = (template.get("spec") or {}).copy()
    pod_spec.pop("subdomain", None)
    pod_spec.pop("hostname", None)
    claims = [
        (claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()
    ]
    if claims:
        made: list[Volume] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
        kept = [volume for volume in pod_spec.get("volumes") or () if volume.get("name") not in claims]
        pod_spec["volumes"] = [*made, *kept]
    return {**template, "spec": pod_spec}


class StatefulSetStrategy(WorkloadStrategy["StatefulSet"]):
    check_name = staticmethod(name_is_dns_label)
    empty_status: ClassVar[Mapping[str, Any]] = {"replicas": 0, "availableReplicas": 0}

    def prepare_create(self, obj: StatefulSet, ctx: Context) -> None:
        super().prepare_create(obj, ctx)
        _bound_unavailable(obj["spec"], {}, ctx)

    def prepare_update(self, new: StatefulSet, old: StatefulSet, ctx: Context) -> None:
        _bound_unavailable(new["spec"], old["spec"], ctx)
        super().prepare_update(new, old, ctx)

    def validate(self, obj: StatefulSet, ctx: Context) -> Sequence[FieldError]:
        return self._check(obj["spec"], ctx, new=True)

    def _check(self, spec: StatefulSetSpec, ctx: Context, *, new: bool) -> list[FieldError]:
        found: list[FieldError] = []
        management, path = spec.get("podManagementPolicy", ""), SPEC.child("podManagementPolicy")
        if not management:
            found.append(field.required(path))
        elif management not in _MANAGEMENT:
            found.append(field.invalid(path, management, "must be 'OrderedReady' or 'Parallel'"))
        found += _check_strategy(spec)
        retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        for part in ("whenDeleted", "whenScaled"):
            at = SPEC.child("persistentVolumeClaimRetentionPolicy", part)
            if retention.get(part) not in _RETENTION:
                found.append(field.not_supported(at, retention.get(part, ""), _RETENTION))
        if new:
            for i, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
                at = SPEC.child("volumeClaimTemplates").index(i).child("spec")
                found += persistentvolumeclaim.check_spec(claim.get("spec") or {}, at)
        found += check_counts(spec, SPEC, "replicas", "minReadySeconds")
        if spec.get("ordinals") is not None:
            start = spec["ordinals"].get("start", 0)
            found += checks.not_negative(start, SPEC.child("ordinals.start"))
        if new and spec.get("serviceName"):
            found += checks.dns_label(spec["serviceName"], SPEC.child("serviceName"))
        found += check_selector(spec, kind="statefulset")
        wrong, usable = check_selector_matches_template(spec, invalid="")
        found += wrong
        if usable:
            found += check_template(_template_to_check(spec), TEMPLATE, ctx)
        return found + check_long_running(spec.get("template") or {}, TEMPLATE, kind="StatefulSet")

    def warn(self, obj: StatefulSet, ctx: Context) -> Sequence[str]:
        return [*super().warn(obj, ctx), *_warn_history(obj)]

    def warn_update(self, new: StatefulSet, old: StatefulSet, ctx: Context) -> Sequence[str]:
        return [*super().warn_update(new, old, ctx), *_warn_history(new)]

    def validate_update(self, new: StatefulSet, old: StatefulSet, ctx: Context) -> Sequence[FieldError]:
        found = self._check(new["spec"], ctx, new=False)
        fixed, before = ({k: v for k, v in x["spec"].items() if k not in _MUTABLE} for x in (new, old))
        if fixed != before:
            found.append(field.forbidden(SPEC, _IMMUTABLE))
        return found


def _bound_unavailable(spec: StatefulSetSpec, old: StatefulSetSpec, ctx: Context) -> None:
    """How many pods may be down during an update is behind a gate, and one by default when it is on."""
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate")
    if rolling is None:
        return
    if "MaxUnavailableStatefulSet" in ctx.gates:
        rolling.setdefault("maxUnavailable", 1)
    elif "maxUnavailable" not in ((old.get("updateStrategy") or {}).get("rollingUpdate") or {}):
        rolling.pop("maxUnavailable", None)


def _warn_history(obj: StatefulSet) -> Sequence[str]:
    if (obj["spec"].get("revisionHistoryLimit") or 0) >= 0:
        return ()
    advice = "a negative value retains all historical revisions; a value >= 0 is recommended"
    return (f"spec.revisionHistoryLimit: {advice}",)


class StatefulSetStatusStrategy(ReplicaStatusStrategy["StatefulSet"]):
    counts = (
        "replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas",
        "observedGeneration", "collisionCount",
    )  # fmt: skip
    within_replicas = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    ready_words = "cannot be greater than status.readyReplicas"


def _cells(obj: StatefulSet, now: float) -> Sequence[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return printers.name(obj), ready, printers.age(obj, now), *template_cells(spec)


def kind(quirks: APIQuirks) -> Kind:
    found = codecs(quirks, "spec", "template")
    template_to_hub = found.pop("to_hub")
    version = Version(
        name="v1",
        type="apps/v1.StatefulSet",
        default=_default,
        to_hub=lambda obj: _name_claims(template_to_hub(obj)),
        **found,
    )
    return Kind(
        group="apps",
        kind="StatefulSet",
        plural="statefulsets",
        short_names=("sts",),
        categories=("all",),
        versions=(version,),
        storage="v1",
        strategy=StatefulSetStrategy(),
        subresources={"status": StatefulSetStatusStrategy()},
        scale=Scale(selector=selector_string),
        printer=printers.printer(
            (
                printers.NAME,
                Column("Ready", description="How many of the wanted pods are ready."),
                printers.AGE,
                CONTAINERS,
                IMAGES,
            ),
            _cells,
        ),
    )
