"""The structs of resource/v1alpha2 as types of documents.

Written by ``make types`` from ``api/schema/types/resource_v1alpha2.types``; not to be edited.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Required, TypedDict

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
    resourceHandles: Sequence[ResourceHandle]
    availableOnNodes: NodeSelector
    shareable: bool


class ResourceHandle(TypedDict, total=False):
    driverName: str
    data: str
    structuredData: StructuredResourceHandle


class StructuredResourceHandle(TypedDict, total=False):
    vendorClassParameters: Any
    vendorClaimParameters: Any
    nodeName: str
    results: Sequence[DriverAllocationResult]


class DriverAllocationResult(TypedDict, total=False):
    vendorRequestParameters: Any
    namedResources: NamedResourcesAllocationResult


class AllocationResultModel(TypedDict, total=False):
    namedResources: NamedResourcesAllocationResult


class PodSchedulingContext(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: PodSchedulingContextSpec
    status: PodSchedulingContextStatus


class PodSchedulingContextSpec(TypedDict, total=False):
    selectedNode: str
    potentialNodes: Sequence[str]


class PodSchedulingContextStatus(TypedDict, total=False):
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
    structuredParameters: bool


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


class ResourceSlice(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    nodeName: str
    driverName: str
    namedResources: NamedResourcesResources


class ResourceModel(TypedDict, total=False):
    namedResources: NamedResourcesResources


class ResourceClaimParameters(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    generatedFrom: ResourceClaimParametersReference
    shareable: bool
    driverRequests: Sequence[DriverRequests]


class DriverRequests(TypedDict, total=False):
    driverName: str
    vendorParameters: Any
    requests: Sequence[ResourceRequest]


class ResourceRequest(TypedDict, total=False):
    vendorParameters: Any
    namedResources: NamedResourcesRequest


class ResourceRequestModel(TypedDict, total=False):
    namedResources: NamedResourcesRequest


class ResourceClassParameters(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    generatedFrom: ResourceClassParametersReference
    vendorParameters: Sequence[VendorParameters]
    filters: Sequence[ResourceFilter]


class ResourceFilter(TypedDict, total=False):
    driverName: str
    namedResources: NamedResourcesFilter


class ResourceFilterModel(TypedDict, total=False):
    namedResources: NamedResourcesFilter


class VendorParameters(TypedDict, total=False):
    driverName: str
    parameters: Any


class NamedResourcesResources(TypedDict, total=False):
    instances: Sequence[NamedResourcesInstance]


class NamedResourcesInstance(TypedDict, total=False):
    name: Required[str]
    attributes: Sequence[NamedResourcesAttribute]


class NamedResourcesAttribute(TypedDict, total=False):
    name: Required[builtins.str]
    quantity: builtins.str
    bool: builtins.bool
    int: builtins.int
    intSlice: NamedResourcesIntSlice
    string: builtins.str
    stringSlice: NamedResourcesStringSlice
    version: builtins.str


class NamedResourcesAttributeValue(TypedDict, total=False):
    quantity: builtins.str
    bool: builtins.bool
    int: builtins.int
    intSlice: NamedResourcesIntSlice
    string: builtins.str
    stringSlice: NamedResourcesStringSlice
    version: builtins.str


class NamedResourcesIntSlice(TypedDict, total=False):
    ints: Sequence[int]


class NamedResourcesStringSlice(TypedDict, total=False):
    strings: Sequence[str]


class NamedResourcesRequest(TypedDict, total=False):
    selector: str


class NamedResourcesFilter(TypedDict, total=False):
    selector: str


class NamedResourcesAllocationResult(TypedDict, total=False):
    name: str
