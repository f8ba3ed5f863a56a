"""The structs of resource/v1alpha1 as types of documents.

Written by ``make types`` from ``api/schema/types/resource_v1alpha1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.core import NodeSelector
    from dray.api.types.meta import ObjectMeta


class ResourceClaim(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: ResourceClaimSpec
    status: ResourceClaimStatus


class ResourceClaimSpec(TypedDict, total=False):
    resourceClassName: str
    parametersRef: ResourceClaimParametersReference
    allocationMode: str


class ResourceClaimStatus(TypedDict, total=False):
    driverName: str
    allocation: AllocationResult
    reservedFor: Sequence[ResourceClaimConsumerReference]
    deallocationRequested: bool


class AllocationResult(TypedDict, total=False):
    resourceHandle: str
    availableOnNodes: NodeSelector
    shareable: bool


class PodScheduling(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: PodSchedulingSpec
    status: PodSchedulingStatus


class PodSchedulingSpec(TypedDict, total=False):
    selectedNode: str
    potentialNodes: Sequence[str]


class PodSchedulingStatus(TypedDict, total=False):
    resourceClaims: Sequence[ResourceClaimSchedulingStatus]


class ResourceClaimSchedulingStatus(TypedDict, total=False):
    name: str
    unsuitableNodes: Sequence[str]


class ResourceClass(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    driverName: str
    parametersRef: ResourceClassParametersReference
    suitableNodes: NodeSelector


class ResourceClassParametersReference(TypedDict, total=False):
    apiGroup: str
    kind: str
    name: str
    namespace: str


class ResourceClaimParametersReference(TypedDict, total=False):
    apiGroup: str
    kind: str
    name: str


class ResourceClaimConsumerReference(TypedDict, total=False):
    apiGroup: str
    resource: Required[str]
    name: Required[str]
    uid: Required[str]


class ResourceClaimTemplate(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: ResourceClaimTemplateSpec


class ResourceClaimTemplateSpec(TypedDict, total=False):
    metadata: ObjectMeta
    spec: ResourceClaimSpec
