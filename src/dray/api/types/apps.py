"""The structs of apps/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/apps_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.core import PersistentVolumeClaim, PodTemplateSpec
    from dray.api.types.meta import LabelSelector, ObjectMeta


class StatefulSet(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: StatefulSetSpec
    status: StatefulSetStatus


class StatefulSetUpdateStrategy(TypedDict, total=False):
    type: str
    rollingUpdate: RollingUpdateStatefulSetStrategy


class RollingUpdateStatefulSetStrategy(TypedDict, total=False):
    partition: int
    maxUnavailable: int | str


class StatefulSetPersistentVolumeClaimRetentionPolicy(TypedDict, total=False):
    whenDeleted: str
    whenScaled: str


class StatefulSetOrdinals(TypedDict, total=False):
    start: int


class StatefulSetSpec(TypedDict, total=False):
    replicas: int
    selector: LabelSelector
    template: PodTemplateSpec
    volumeClaimTemplates: Sequence[PersistentVolumeClaim]
    serviceName: str
    podManagementPolicy: str
    updateStrategy: StatefulSetUpdateStrategy
    revisionHistoryLimit: int
    minReadySeconds: int
    persistentVolumeClaimRetentionPolicy: StatefulSetPersistentVolumeClaimRetentionPolicy
    ordinals: StatefulSetOrdinals


class StatefulSetStatus(TypedDict, total=False):
    observedGeneration: int
    replicas: int
    readyReplicas: int
    currentReplicas: int
    updatedReplicas: int
    currentRevision: str
    updateRevision: str
    collisionCount: int
    conditions: Sequence[StatefulSetCondition]
    availableReplicas: int


class StatefulSetCondition(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastTransitionTime: str
    reason: str
    message: str


class Deployment(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: DeploymentSpec
    status: DeploymentStatus


class DeploymentSpec(TypedDict, total=False):
    replicas: int
    selector: LabelSelector
    template: PodTemplateSpec
    strategy: DeploymentStrategy
    minReadySeconds: int
    revisionHistoryLimit: int
    paused: bool
    progressDeadlineSeconds: int


class DeploymentStrategy(TypedDict, total=False):
    type: str
    rollingUpdate: RollingUpdateDeployment


class RollingUpdateDeployment(TypedDict, total=False):
    maxUnavailable: int | str
    maxSurge: int | str


class DeploymentStatus(TypedDict, total=False):
    observedGeneration: int
    replicas: int
    updatedReplicas: int
    readyReplicas: int
    availableReplicas: int
    unavailableReplicas: int
    terminatingReplicas: int
    conditions: Sequence[DeploymentCondition]
    collisionCount: int


class DeploymentCondition(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastUpdateTime: str
    lastTransitionTime: str
    reason: str
    message: str


class DaemonSetUpdateStrategy(TypedDict, total=False):
    type: str
    rollingUpdate: RollingUpdateDaemonSet


class RollingUpdateDaemonSet(TypedDict, total=False):
    maxUnavailable: int | str
    maxSurge: int | str


class DaemonSetSpec(TypedDict, total=False):
    selector: LabelSelector
    template: PodTemplateSpec
    updateStrategy: DaemonSetUpdateStrategy
    minReadySeconds: int
    revisionHistoryLimit: int


class DaemonSetStatus(TypedDict, total=False):
    currentNumberScheduled: int
    numberMisscheduled: int
    desiredNumberScheduled: int
    numberReady: int
    observedGeneration: int
    updatedNumberScheduled: int
    numberAvailable: int
    numberUnavailable: int
    collisionCount: int
    conditions: Sequence[DaemonSetCondition]


class DaemonSetCondition(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastTransitionTime: str
    reason: str
    message: str


class DaemonSet(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: DaemonSetSpec
    status: DaemonSetStatus


class ReplicaSet(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: ReplicaSetSpec
    status: ReplicaSetStatus


class ReplicaSetSpec(TypedDict, total=False):
    replicas: int
    minReadySeconds: int
    selector: LabelSelector
    template: PodTemplateSpec


class ReplicaSetStatus(TypedDict, total=False):
    replicas: int
    fullyLabeledReplicas: int
    readyReplicas: int
    availableReplicas: int
    terminatingReplicas: int
    observedGeneration: int
    conditions: Sequence[ReplicaSetCondition]


class ReplicaSetCondition(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastTransitionTime: str
    reason: str
    message: str


class ControllerRevision(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    data: Any
    revision: int
