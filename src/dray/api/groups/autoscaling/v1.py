"""autoscaling/v1: one number, the use of CPU in percent; everything else stands in annotations, as upstream puts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from dray.api import schema

_METRICS: Final = "autoscaling.alpha.kubernetes.io/metrics"
_CURRENT: Final = "autoscaling.alpha.kubernetes.io/current-metrics"
_CONDITIONS: Final = "autoscaling.alpha.kubernetes.io/conditions"
_BEHAVIOR: Final = "autoscaling.alpha.kubernetes.io/behavior"
_ANNOTATIONS: Final = (_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR)
_DEFAULT_UTILIZATION: Final = 80

Part = Mapping[str, Any]


def default(obj: Any) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("minReplicas") is None:
        spec["minReplicas"] = 1


def cpu_metric(utilization: int = _DEFAULT_UTILIZATION) -> dict[str, Any]:
    """The metric that v1 can express."""
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def to_hub(obj: Part) -> dict[str, Any]:
    metadata, spec, status = dict(obj["metadata"]), dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    annotations = dict(metadata.get("annotations") or {})
    kept = {name: _parsed(annotations.pop(name, "")) for name in _ANNOTATIONS}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    utilization = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = [_spec_to_v2(metric) for metric in kept[_METRICS] or ()]
    metrics += [] if utilization is None else [cpu_metric(utilization)]
    spec["metrics"] = metrics or [cpu_metric()]
    if kept[_BEHAVIOR]:
        spec["behavior"] = kept[_BEHAVIOR]
    current = status.pop("currentCPUUtilizationPercentage", None)
    if kept[_CURRENT]:
        status["currentMetrics"] = [_status_to_v2(metric) for metric in kept[_CURRENT]]
    elif current is not None:
        value = {"averageUtilization": current}
        status["currentMetrics"] = [{"type": "Resource", "resource": {"name": "cpu", "current": value}}]
    if kept[_CONDITIONS]:
        status["conditions"] = kept[_CONDITIONS]
    return schema.normalise(
        schema.type_of("autoscaling/v2.HorizontalPodAutoscaler"),
        {**obj, "metadata": metadata, "spec": spec, "status": status},
    )


def from_hub(obj: Part) -> dict[str, Any]:
    metadata, spec, status = dict(obj["metadata"]), dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    annotations = dict(metadata.get("annotations") or {})
    others = []
    for metric in spec.pop("metrics", None) or ():
        utilization = _cpu_utilization(metric)
        if utilization is None:
            others.append(_to_v1(metric, figures="target"))
        else:
            spec.setdefault("targetCPUUtilizationPercentage", utilization)
    current = status.pop("currentMetrics", None) or ()
    for metric in current:
        used = (metric.get("resource") or {}).get("current", {}).get("averageUtilization")
        if (metric.get("resource") or {}).get("name") == "cpu" and used is not None:
            status["currentCPUUtilizationPercentage"] = used
    _keep(annotations, _METRICS, _ordered("MetricSpec", others))
    _keep(
        annotations,
        _CURRENT,
        _ordered("MetricStatus", [_to_v1(metric, figures="current") for metric in current]),
    )
    _keep(annotations, _BEHAVIOR, spec.pop("behavior", None))
    _keep(annotations, _CONDITIONS, status.pop("conditions", None))
    if annotations:
        metadata["annotations"] = annotations
    return schema.normalise(
        schema.type_of("autoscaling/v1.HorizontalPodAutoscaler"),
        {**obj, "metadata": metadata, "spec": spec, "status": status},
    )


def _parsed(text: str) -> Any:
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.MsgspecError:
        return None


def _keep(annotations: dict[str, str], name: str, value: Any) -> None:
    if value:
        annotations[name] = msgspec.json.encode(value).decode()


def _ordered(name: str, metrics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    type_ = schema.type_of(f"autoscaling/v1.{name}")
    return [schema.normalise(type_, metric) for metric in metrics]


def _cpu_utilization(metric: Part) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    found: int | None = (resource.get("target") or {}).get("averageUtilization")
    return found


def _without_none(**parts: Any) -> dict[str, Any]:
    return {name: value for name, value in parts.items() if value is not None}


def _source(metric: Part) -> tuple[str, Part]:
    """The name of the member that holds a metric's source, and the source."""
    kind = str(metric.get("type", ""))
    name = kind[:1].lower() + kind[1:]
    return name, metric.get(name) or {}


def _to_v1(metric: Part, *, figures: Literal["target", "current"]) -> dict[str, Any]:
    """A metric of the spec, whose figures are its target, or of the status, whose figures are what it is now."""
    name, source = _source(metric)
    given, identifier = source.get(figures) or {}, source.get("metric") or {}
    value, average = given.get("value"), given.get("averageValue")
    called, selector = identifier.get("name"), identifier.get("selector")
    values = {f"{figures}Value": value}
    averages = {f"{figures}AverageValue": average}
    match name:
        case "object":
            made = _without_none(
                target=source.get("describedObject"),
                metricName=called,
                **values,
                selector=selector,
                averageValue=average,
            )
        case "pods":
            made = _without_none(metricName=called, **averages, selector=selector)
        case "external":
            made = _without_none(metricName=called, metricSelector=selector, **values, **averages)
        case _:
            made = _without_none(
                name=source.get("name"),
                container=source.get("container"),
                **{f"{figures}AverageUtilization": given.get("averageUtilization")},
                **averages,
            )
    return {"type": metric.get("type", ""), name: made}


def _spec_to_v2(metric: Part) -> dict[str, Any]:
    name, source = _source(metric)
    selector = source.get("metricSelector" if name == "external" else "selector")
    identifier = _without_none(name=source.get("metricName"), selector=selector)
    average = source.get("averageValue" if name == "object" else "targetAverageValue")
    value, utilization = source.get("targetValue"), source.get("targetAverageUtilization")
    if name == "object" and average is not None:
        value = None
    kind = "Value" if value is not None else "AverageValue" if utilization is None else "Utilization"
    target = _without_none(type=kind, value=value, averageValue=average, averageUtilization=utilization)
    if name in ("resource", "containerResource"):
        made = _without_none(name=source.get("name"), container=source.get("container"), target=target)
    else:
        described = source.get("target") if name == "object" else None
        made = _without_none(describedObject=described, metric=identifier, target=target)
    return {"type": metric.get("type", ""), name: made}


def _status_to_v2(metric: Part) -> dict[str, Any]:
    name, source = _source(metric)
    selector = source.get("metricSelector" if name == "external" else "selector")
    identifier = _without_none(name=source.get("metricName"), selector=selector)
    average = source.get("averageValue" if name == "object" else "currentAverageValue")
    current = _without_none(
        value=source.get("currentValue"),
        averageValue=average,
        averageUtilization=source.get("currentAverageUtilization"),
    )
    if name in ("resource", "containerResource"):
        made = _without_none(name=source.get("name"), container=source.get("container"), current=current)
    else:
        described = source.get("target") if name == "object" else None
        made = _without_none(metric=identifier, current=current, describedObject=described)
    return {"type": metric.get("type", ""), name: made}
