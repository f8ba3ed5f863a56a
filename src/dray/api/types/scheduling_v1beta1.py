"""The structs of scheduling/v1beta1 as types of documents.

Written by ``make types`` from ``api/schema/types/scheduling_v1beta1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import Condition, ObjectMeta


class Workload(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: WorkloadSpec


class WorkloadSpec(TypedDict, total=False):
    controllerRef: TypedLocalObjectReference
    podGroupTemplates: Sequence[PodGroupTemplate]
    compositePodGroupTemplates: Sequence[CompositePodGroupTemplate]


class TypedLocalObjectReference(TypedDict, total=False):
    apiGroup: str
    kind: str
    name: str


class PodGroupTemplate(TypedDict, total=False):
    name: Required[str]
    schedulingPolicy: Required[PodGroupSchedulingPolicy]
    schedulingConstraints: PodGroupSchedulingConstraints
    resourceClaims: Sequence[PodGroupResourceClaim]
    disruptionMode: DisruptionMode
    priorityClassName: str
    priority: int
    preemptionPolicy: str


class CompositePodGroupTemplate(TypedDict, total=False):
    name: Required[str]
    schedulingPolicy: Required[CompositePodGroupSchedulingPolicy]
    schedulingConstraints: CompositePodGroupSchedulingConstraints
    disruptionMode: CompositeDisruptionMode
    priorityClassName: str
    priority: int
    preemptionPolicy: str
    podGroupTemplates: Sequence[PodGroupTemplate]
    compositePodGroupTemplates: Sequence[CompositePodGroupTemplate]


class PodGroupSchedulingPolicy(TypedDict, total=False):
    basic: BasicSchedulingPolicy
    gang: GangSchedulingPolicy


class BasicSchedulingPolicy(TypedDict, total=False):
    pass


class GangSchedulingPolicy(TypedDict, total=False):
    minCount: int


class PodGroupResourceClaim(TypedDict, total=False):
    name: Required[str]
    resourceClaimName: str
    resourceClaimTemplateName: str


class DisruptionMode(TypedDict, total=False):
    single: SingleDisruptionMode
    all: AllDisruptionMode


class SingleDisruptionMode(TypedDict, total=False):
    pass


class AllDisruptionMode(TypedDict, total=False):
    pass


class PodGroup(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: PodGroupSpec
    status: PodGroupStatus


class PodGroupSpec(TypedDict, total=False):
    parentCompositePodGroupName: str
    workloadRef: WorkloadReference
    schedulingPolicy: PodGroupSchedulingPolicy
    schedulingConstraints: PodGroupSchedulingConstraints
    resourceClaims: Sequence[PodGroupResourceClaim]
    disruptionMode: DisruptionMode
    priorityClassName: str
    priority: int
    preemptionPolicy: str


class PodGroupStatus(TypedDict, total=False):
    conditions: Sequence[Condition]
    resourceClaimStatuses: Sequence[PodGroupResourceClaimStatus]


class PodGroupResourceClaimStatus(TypedDict, total=False):
    name: Required[str]
    resourceClaimName: str


class WorkloadReference(TypedDict, total=False):
    workloadName: str
    templateName: str


class PodGroupSchedulingConstraints(TypedDict, total=False):
    topology: Sequence[TopologyConstraint]


class TopologyConstraint(TypedDict, total=False):
    key: Required[str]


class CompositePodGroupSchedulingPolicy(TypedDict, total=False):
    basic: CompositeBasicSchedulingPolicy
    gang: CompositeGangSchedulingPolicy


class CompositeBasicSchedulingPolicy(TypedDict, total=False):
    pass


class CompositeGangSchedulingPolicy(TypedDict, total=False):
    minGroupCount: int


class CompositeDisruptionMode(TypedDict, total=False):
    single: SingleCompositeDisruptionMode
    all: AllCompositeDisruptionMode


class SingleCompositeDisruptionMode(TypedDict, total=False):
    pass


class AllCompositeDisruptionMode(TypedDict, total=False):
    pass


class CompositePodGroupSchedulingConstraints(TypedDict, total=False):
    topology: Sequence[TopologyConstraint]
