"""The structs of autoscaling/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/autoscaling_v1.types``; not to be edited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import LabelSelector, ObjectMeta


class CrossVersionObjectReference(TypedDict, total=False):
    kind: str
    name: str
    apiVersion: str


class HorizontalPodAutoscalerSpec(TypedDict, total=False):
    scaleTargetRef: CrossVersionObjectReference
    minReplicas: int
    maxReplicas: int
    targetCPUUtilizationPercentage: int


class HorizontalPodAutoscalerStatus(TypedDict, total=False):
    observedGeneration: int
    lastScaleTime: str
    currentReplicas: int
    desiredReplicas: int
    currentCPUUtilizationPercentage: int


class HorizontalPodAutoscaler(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: HorizontalPodAutoscalerSpec
    status: HorizontalPodAutoscalerStatus


class Scale(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: ScaleSpec
    status: ScaleStatus


class ScaleSpec(TypedDict, total=False):
    replicas: int


class ScaleStatus(TypedDict, total=False):
    replicas: int
    selector: str


class MetricSpec(TypedDict, total=False):
    type: str
    object: ObjectMetricSource
    pods: PodsMetricSource
    resource: ResourceMetricSource
    containerResource: ContainerResourceMetricSource
    external: ExternalMetricSource


class ObjectMetricSource(TypedDict, total=False):
    target: CrossVersionObjectReference
    metricName: str
    targetValue: str
    selector: LabelSelector
    averageValue: str


class PodsMetricSource(TypedDict, total=False):
    metricName: str
    targetAverageValue: str
    selector: LabelSelector


class ResourceMetricSource(TypedDict, total=False):
    name: str
    targetAverageUtilization: int
    targetAverageValue: str


class ContainerResourceMetricSource(TypedDict, total=False):
    name: str
    targetAverageUtilization: int
    targetAverageValue: str
    container: str


class ExternalMetricSource(TypedDict, total=False):
    metricName: str
    metricSelector: LabelSelector
    targetValue: str
    targetAverageValue: str


class MetricStatus(TypedDict, total=False):
    type: str
    object: ObjectMetricStatus
    pods: PodsMetricStatus
    resource: ResourceMetricStatus
    containerResource: ContainerResourceMetricStatus
    external: ExternalMetricStatus


class HorizontalPodAutoscalerCondition(TypedDict, total=False):
    type: str
    status: str
    lastTransitionTime: str
    reason: str
    message: str
    observedGeneration: int


class ObjectMetricStatus(TypedDict, total=False):
    target: CrossVersionObjectReference
    metricName: str
    currentValue: str
    selector: LabelSelector
    averageValue: str


class PodsMetricStatus(TypedDict, total=False):
    metricName: str
    currentAverageValue: str
    selector: LabelSelector


class ResourceMetricStatus(TypedDict, total=False):
    name: str
    currentAverageUtilization: int
    currentAverageValue: str


class ContainerResourceMetricStatus(TypedDict, total=False):
    name: str
    currentAverageUtilization: int
    currentAverageValue: str
    container: str


class ExternalMetricStatus(TypedDict, total=False):
    metricName: str
    metricSelector: LabelSelector
    currentValue: str
    currentAverageValue: str
