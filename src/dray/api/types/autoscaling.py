"""The structs of autoscaling/v2 as types of documents.

Written by ``make types`` from ``api/schema/types/autoscaling_v2.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import LabelSelector, ObjectMeta


class HorizontalPodAutoscaler(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: HorizontalPodAutoscalerSpec
    status: HorizontalPodAutoscalerStatus


class HorizontalPodAutoscalerSpec(TypedDict, total=False):
    scaleTargetRef: CrossVersionObjectReference
    minReplicas: int
    maxReplicas: int
    metrics: Sequence[MetricSpec]
    behavior: HorizontalPodAutoscalerBehavior


class CrossVersionObjectReference(TypedDict, total=False):
    kind: str
    name: str
    apiVersion: str


class MetricSpec(TypedDict, total=False):
    type: Required[str]
    object: ObjectMetricSource
    pods: PodsMetricSource
    resource: ResourceMetricSource
    containerResource: ContainerResourceMetricSource
    external: ExternalMetricSource


class HorizontalPodAutoscalerBehavior(TypedDict, total=False):
    scaleUp: HPAScalingRules
    scaleDown: HPAScalingRules


class HPAScalingRules(TypedDict, total=False):
    stabilizationWindowSeconds: int
    selectPolicy: str
    policies: Sequence[HPAScalingPolicy]
    tolerance: str


class HPAScalingPolicy(TypedDict, total=False):
    type: Required[str]
    value: Required[int]
    periodSeconds: Required[int]


class ObjectMetricSource(TypedDict, total=False):
    describedObject: CrossVersionObjectReference
    target: MetricTarget
    metric: MetricIdentifier


class PodsMetricSource(TypedDict, total=False):
    metric: MetricIdentifier
    target: MetricTarget


class ResourceMetricSource(TypedDict, total=False):
    name: str
    target: MetricTarget


class ContainerResourceMetricSource(TypedDict, total=False):
    name: str
    target: MetricTarget
    container: str


class ExternalMetricSource(TypedDict, total=False):
    metric: MetricIdentifier
    target: MetricTarget


class MetricIdentifier(TypedDict, total=False):
    name: str
    selector: LabelSelector


class MetricTarget(TypedDict, total=False):
    type: str
    value: str
    averageValue: str
    averageUtilization: int


class HorizontalPodAutoscalerStatus(TypedDict, total=False):
    observedGeneration: int
    lastScaleTime: str
    currentReplicas: int
    desiredReplicas: int
    currentMetrics: Sequence[MetricStatus]
    conditions: Sequence[HorizontalPodAutoscalerCondition]


class HorizontalPodAutoscalerCondition(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastTransitionTime: str
    reason: str
    message: str


class MetricStatus(TypedDict, total=False):
    type: Required[str]
    object: ObjectMetricStatus
    pods: PodsMetricStatus
    resource: ResourceMetricStatus
    containerResource: ContainerResourceMetricStatus
    external: ExternalMetricStatus


class ObjectMetricStatus(TypedDict, total=False):
    metric: MetricIdentifier
    current: MetricValueStatus
    describedObject: CrossVersionObjectReference


class PodsMetricStatus(TypedDict, total=False):
    metric: MetricIdentifier
    current: MetricValueStatus


class ResourceMetricStatus(TypedDict, total=False):
    name: str
    current: MetricValueStatus


class ContainerResourceMetricStatus(TypedDict, total=False):
    name: str
    current: MetricValueStatus
    container: str


class ExternalMetricStatus(TypedDict, total=False):
    metric: MetricIdentifier
    current: MetricValueStatus


class MetricValueStatus(TypedDict, total=False):
    value: str
    averageValue: str
    averageUtilization: int
