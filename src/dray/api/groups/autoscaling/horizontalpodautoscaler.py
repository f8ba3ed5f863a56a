"""Horizontal pod autoscalers: which metrics decide on the number of replicas, and how fast it may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dray.api.groups.apps.workload import check_counts
from dray.api.groups.autoscaling import v1
from dray.api.objects import clone
from dray.api.quantity import Quantity
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import SPEC, STATUS, Context, SubdomainStrategy, keep_fields
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.autoscaling import (
        CrossVersionObjectReference,
        HorizontalPodAutoscaler,
        HPAScalingPolicy,
        HPAScalingRules,
        MetricSpec,
    )

_SOURCES: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_LONGEST_PERIOD: Final = 1800
_LONGEST_WINDOW: Final = 3600
_SHOWN_METRICS: Final = 2
_SCALE_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN: Final = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


def _default(obj: Any) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("minReplicas") is None:
        spec["minReplicas"] = 1
    if not spec.get("metrics"):
        spec["metrics"] = [v1.cpu_metric()]
    if (behavior := spec.get("behavior")) is not None:
        behavior["scaleUp"] = {**clone(_SCALE_UP), **(behavior.get("scaleUp") or {})}
        behavior["scaleDown"] = {**clone(_SCALE_DOWN), **(behavior.get("scaleDown") or {})}


def _check_segment(value: str, path: Path, words: str = "") -> list[FieldError]:
    return checks.each(value, path, names.path_segment(value)) if value else [field.required(path, words)]


def _check_reference(
    reference: CrossVersionObjectReference | Mapping[str, Any], path: Path
) -> list[FieldError]:
    found = _check_segment(reference.get("kind", ""), path.child("kind"))
    found += _check_segment(reference.get("name", ""), path.child("name"))
    version = reference.get("apiVersion", "")
    if version.count("/") > 1:
        found.append(
            field.invalid(path.child("apiVersion"), version, f"unexpected GroupVersion string: {version}")
        )
    return found


def _check_target(target: Mapping[str, Any], path: Path) -> list[FieldError]:
    kind = target.get("type", "")
    found = [] if kind else [field.required(path.child("type"), "must specify a metric target type")]
    if kind not in _TARGETS:
        words = "must be either Utilization, Value, or AverageValue"
        found.append(field.invalid(path.child("type"), kind, words))
    found += [
        field.invalid(path.child(part), amount, "must be positive")
        for part in ("value", "averageValue")
        if (amount := target.get(part)) is not None and Quantity.parse(amount).sign != 1
    ]
    if (used := target.get("averageUtilization")) is not None and used < 1:
        found.append(field.invalid(path.child("averageUtilization"), used, "must be greater than 0"))
    return found


def _check_source(name: str, source: Mapping[str, Any], path: Path) -> list[FieldError]:
    target, at = source.get("target") or {}, path.child("target")
    found: list[FieldError] = []
    if name in ("resource", "containerResource"):
        if not source.get("name"):
            found.append(field.required(path.child("name"), "must specify a resource name"))
        if name == "containerResource":
            container, where = source.get("container", ""), path.child("container")
            words = "must specify a container"
            found += checks.dns_label(container, where) if container else [field.required(where, words)]
        found += _check_target(target, at)
        raw, used = target.get("averageValue"), target.get("averageUtilization")
        if raw is None and used is None:
            words = "must set either a target raw value or a target utilization"
            found.append(field.required(at.child("averageUtilization"), words))
        if raw is not None and used is not None:
            words = "may not set both a target raw value and a target utilization"
            found.append(field.forbidden(at.child("averageValue"), words))
        return found
    if name == "object":
        found += _check_reference(source.get("describedObject") or {}, path.child("describedObject"))
    called = (source.get("metric") or {}).get("name", "")
    found += _check_segment(called, path.child("metric", "name"), "must specify a metric name")
    found += _check_target(target, at)
    value, average, where = target.get("value"), target.get("averageValue"), at.child("averageValue")
    if name == "pods":
        words = "must specify a positive target averageValue"
        return found + ([field.required(where, words)] if average is None else [])
    if value is None and average is None:
        words = (
            "must set either a target value or averageValue"
            if name == "object"
            else "must set either a target value for metric or a per-pod target"
        )
        found.append(field.required(where, words))
    if name == "external" and value is not None and average is not None:
        words = "may not set both a target value for metric and a per-pod target"
        found.append(field.forbidden(at.child("value"), words))
    return found


def _check_metric(metric: MetricSpec, path: Path) -> list[FieldError]:
    kind, parts = metric.get("type", ""), dict[str, Any](metric)
    found: list[FieldError] = []
    if not kind:
        found.append(field.required(path.child("type"), "must specify a metric source type"))
    if kind not in _SOURCES:
        found.append(field.not_supported(path.child("type"), kind, sorted(_SOURCES)))
    present = [n for n in ("object", "external", "pods", "resource", "containerResource") if parts.get(n)]
    if present:
        found += _check_source(present[0], parts[present[0]], path.child(present[0]))
    expected = _SOURCES.get(kind, "")
    if not expected:
        found.append(field.not_supported(path.child("type"), kind, sorted(_SOURCES)))
    elif expected not in present:
        words = "must populate information for the given metric source"
        found.append(field.required(path.child(expected), words))
    if len(present) != 1:
        words = "must populate the given metric source only"
        found += [field.forbidden(path.child(name), words) for name in present if name != expected]
    return found


def _check_policy(policy: HPAScalingPolicy, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    if (kind := policy.get("type", "")) not in ("Pods", "Percent"):
        found.append(field.not_supported(path.child("type"), kind, ("Percent", "Pods")))
    if (value := policy.get("value", 0)) <= 0:
        found.append(field.invalid(path.child("value"), value, "must be greater than zero"))
    period, at = policy.get("periodSeconds", 0), path.child("periodSeconds")
    if period <= 0:
        found.append(field.invalid(at, period, "must be greater than zero"))
    if period > _LONGEST_PERIOD:
        found.append(field.invalid(at, period, f"must be less than or equal to {_LONGEST_PERIOD}"))
    return found


def _check_rules(rules: HPAScalingRules | None, path: Path) -> list[FieldError]:
    if rules is None:
        return []
    found: list[FieldError] = []
    window, at = rules.get("stabilizationWindowSeconds"), path.child("stabilizationWindowSeconds")
    if window is not None and window < 0:
        found.append(field.invalid(at, window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW:
        found.append(field.invalid(at, window, f"must be less than or equal to {_LONGEST_WINDOW}"))
    if (chosen := rules.get("selectPolicy")) is not None:
        found += checks.one_of(chosen, path.child("selectPolicy"), ("Disabled", "Max", "Min"))
    policies, at = rules.get("policies") or (), path.child("policies")
    if not policies:
        found.append(field.required(at, "must specify at least one Policy"))
    found += [p for i, policy in enumerate(policies) for p in _check_policy(policy, at.index(i))]
    if (tolerance := rules.get("tolerance")) is not None and Quantity.parse(tolerance).sign < 0:
        found.append(field.invalid(path.child("tolerance"), tolerance, checks.NOT_NEGATIVE))
    return found


class HorizontalPodAutoscalerStrategy(SubdomainStrategy["HorizontalPodAutoscaler"]):
    empty_status: ClassVar[Mapping[str, Any]] = {"desiredReplicas": 0, "currentMetrics": None}

    def prepare_create(self, obj: HorizontalPodAutoscaler, ctx: Context) -> None:
        obj["status"] = {**self.empty_status}  # type: ignore[typeddict-item]

    def prepare_update(
        self, new: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler, ctx: Context
    ) -> None:
        keep_fields(new, old, "status")

    def validate(self, obj: HorizontalPodAutoscaler, ctx: Context) -> Sequence[FieldError]:
        spec = obj.get("spec", {})
        lowest, highest, at = spec.get("minReplicas"), spec.get("maxReplicas", 0), SPEC.child("maxReplicas")
        bound = 0 if "HPAScaleToZero" in ctx.gates else 1
        found: list[FieldError] = []
        if lowest is not None and lowest < bound:
            words = f"must be greater than or equal to {bound}"
            found.append(field.invalid(SPEC.child("minReplicas"), lowest, words))
        if highest == 0:
            found.append(field.required(at, "must be set and greater than 0"))
        elif highest < 0:
            found.append(field.invalid(at, highest, "must be greater than or equal to 1"))
        if lowest is not None and highest < lowest:
            found.append(field.invalid(at, highest, "must be greater than or equal to `minReplicas`"))
        found += _check_reference(spec.get("scaleTargetRef") or {}, SPEC.child("scaleTargetRef"))
        metrics, at = spec.get("metrics") or (), SPEC.child("metrics")
        found += [p for i, metric in enumerate(metrics) for p in _check_metric(metric, at.index(i))]
        if lowest == 0 and not {m.get("type") for m in metrics} & {"Object", "External"}:
            words = "must specify at least one Object or External metric to support scaling to zero replicas"
            found.append(field.forbidden(at, words))
        behavior = spec.get("behavior") or {}
        for part, rules in (("scaleUp", behavior.get("scaleUp")), ("scaleDown", behavior.get("scaleDown"))):
            found += _check_rules(rules, SPEC.child("behavior", part))
        return found

    def validate_update(
        self, new: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler, ctx: Context
    ) -> Sequence[FieldError]:
        return self.validate(new, ctx)


class HorizontalPodAutoscalerStatusStrategy(HorizontalPodAutoscalerStrategy):
    def prepare_update(
        self, new: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler, ctx: Context
    ) -> None:
        keep_fields(new, old, "spec")

    def validate_update(
        self, new: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler, ctx: Context
    ) -> Sequence[FieldError]:
        return check_counts(new.get("status", {}), STATUS, "currentReplicas", "desiredReplicas")


def _shown(metric: MetricSpec, status: Mapping[str, Any]) -> str:
    name = _SOURCES.get(metric.get("type", ""), "")
    source, current = dict[str, Any](metric).get(name) or {}, (status.get(name) or {}).get("current") or {}
    target = source.get("target") or {}
    average = target.get("averageValue")
    if name in ("resource", "containerResource"):
        if average is not None:
            return f"{source.get('name', '')}: {current.get('averageValue', '<unknown>')}/{average}"
        used, wanted = current.get("averageUtilization"), target.get("averageUtilization")
        shown = "<unknown>" if used is None else f"{used}%"
        return f"{source.get('name', '')}: {shown}/{'<auto>' if wanted is None else f'{wanted}%'}"
    if name == "pods":
        return f"{current.get('averageValue', '<unknown>')}/{average}"
    if not name:
        return "<unknown type>"
    if average is not None:
        return f"{current.get('averageValue', '<unknown>')}/{average} (avg)"
    return f"{current.get('value', '<unknown>')}/{target.get('value', '<nil>')}"


def _metrics(metrics: Sequence[MetricSpec], statuses: Sequence[Mapping[str, Any]]) -> str:
    shown = [_shown(m, statuses[i] if i < len(statuses) else {}) for i, m in enumerate(metrics)]
    text = ", ".join(shown[:_SHOWN_METRICS]) or "<none>"
    more = len(shown) - _SHOWN_METRICS
    return f"{text} + {more} more..." if more > 0 else text


def _cells(obj: HorizontalPodAutoscaler, now: float) -> Sequence[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    reference = spec.get("scaleTargetRef") or {}
    return (
        printers.name(obj),
        f"{reference.get('kind', '')}/{reference.get('name', '')}",
        _metrics(spec.get("metrics") or (), status.get("currentMetrics") or ()),
        str(spec.get("minReplicas", "<unset>")),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        printers.age(obj, now),
    )


KIND = Kind(
    group="autoscaling",
    kind="HorizontalPodAutoscaler",
    plural="horizontalpodautoscalers",
    short_names=("hpa",),
    categories=("all",),
    versions=(
        Version(name="v2", type="autoscaling/v2.HorizontalPodAutoscaler", default=_default),
        Version(
            name="v1",
            type="autoscaling/v1.HorizontalPodAutoscaler",
            default=v1.default,
            to_hub=v1.to_hub,
            from_hub=v1.from_hub,
        ),
    ),
    storage="v2",
    strategy=HorizontalPodAutoscalerStrategy(),
    subresources={"status": HorizontalPodAutoscalerStatusStrategy()},
    printer=printers.printer(
        (
            printers.NAME,
            Column("Reference", description="What is scaled."),
            Column("Targets", description="The metrics, as they are and as they should be."),
            Column("MinPods", description="The fewest replicas."),
            Column("MaxPods", description="The most replicas."),
            Column("Replicas", description="How many replicas there are."),
            printers.AGE,
        ),
        _cells,
    ),
)
