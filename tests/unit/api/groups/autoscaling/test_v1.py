"""Autoscalers in v1, which can say but one thing about metrics."""

from __future__ import annotations

import json
from typing import Any

from dray.api.groups.autoscaling import v1
from dray.api.schema import normalise, type_of

METRICS: list[Any] = [
    {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
    },
    {
        "type": "Pods",
        "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}},
    },
    {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "7"}}},
    {
        "type": "Object",
        "object": {
            "describedObject": {"kind": "Ingress", "name": "i"},
            "target": {"type": "Value", "value": "3"},
            "metric": {"name": "r"},
        },
    },
    v1.cpu_metric(55),
]


def autoscaler(metrics: list[Any]) -> Any:
    spec = {
        "scaleTargetRef": {"kind": "Deployment", "name": "d"},
        "minReplicas": 1,
        "maxReplicas": 3,
        "metrics": metrics,
        "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 5}]}},
    }
    status = {"desiredReplicas": 2, "currentMetrics": None}
    return normalise(
        type_of("autoscaling/v2.HorizontalPodAutoscaler"),
        {"metadata": {"name": "h", "annotations": {"mine": "1"}}, "spec": spec, "status": status},
    )


def test_what_v1_cannot_say_survives_a_round_trip_in_upstreams_annotations():
    before = autoscaler(METRICS)
    shown = v1.from_hub(before)
    assert shown["spec"]["targetCPUUtilizationPercentage"] == 55
    annotations = shown["metadata"]["annotations"]
    kept = json.loads(annotations["autoscaling.alpha.kubernetes.io/metrics"])
    assert kept[1] == {"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "5"}}
    assert "behavior" not in shown["spec"]
    assert v1.to_hub(shown) == before


def test_without_a_metric_v1_means_eighty_percent_of_cpu():
    shown = v1.from_hub(autoscaler([v1.cpu_metric()]))
    del shown["spec"]["targetCPUUtilizationPercentage"]
    assert v1.to_hub(shown)["spec"]["metrics"] == [v1.cpu_metric(80)]
