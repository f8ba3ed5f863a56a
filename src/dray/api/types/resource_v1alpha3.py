"""The structs of resource/v1alpha3 as types of documents.

Written by ``make types`` from ``api/schema/types/resource_v1alpha3.types``; not to be edited.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.core import NodeSelector
    from dray.api.types.meta import Condition, ObjectMeta


class DeviceSelector(TypedDict, total=False):
    cel: CELDeviceSelector


class CELDeviceSelector(TypedDict, total=False):
    expression: str


class DeviceTaint(TypedDict, total=False):
    key: str
    value: str
    effect: str
    timeAdded: str


class DeviceTaintRule(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: DeviceTaintRuleSpec
    status: DeviceTaintRuleStatus


class DeviceTaintRuleSpec(TypedDict, total=False):
    deviceSelector: DeviceTaintSelector
    taint: DeviceTaint


class DeviceTaintSelector(TypedDict, total=False):
    deviceClassName: str
    driver: str
    pool: str
    device: str
    selectors: Sequence[DeviceSelector]


class DeviceTaintRuleStatus(TypedDict, total=False):
    conditions: Sequence[Condition]


class ResourcePoolStatusRequest(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: ResourcePoolStatusRequestSpec
    status: ResourcePoolStatusRequestStatus


class ResourcePoolStatusRequestSpec(TypedDict, total=False):
    driver: str
    poolName: str
    limit: int
    defaultPartitionTypeAttribute: str


class ResourcePoolStatusRequestStatus(TypedDict, total=False):
    poolCount: int
    pools: Sequence[PoolStatus]
    conditions: Sequence[Condition]


class PoolStatus(TypedDict, total=False):
    driver: str
    poolName: str
    generation: Required[int]
    resourceSliceCount: int
    totalDevices: int
    allocatedDevices: int
    availableDevices: int
    unavailableDevices: int
    nodeName: str
    validationError: str
    partitionSummary: Sequence[PartitionTypeStatus]
    shareableSummary: ShareableSummaryStatus


class PartitionTypeStatus(TypedDict, total=False):
    attribute: str
    type: str
    total: int
    allocatable: int


class ShareableSummaryStatus(TypedDict, total=False):
    fullyAvailableDevices: int
    partiallyAvailableDevices: int
    capacity: Sequence[ShareableCapacityStatus]


class ShareableCapacityStatus(TypedDict, total=False):
    name: str
    total: str
    consumed: str
    available: str


class ResourceSlice(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: ResourceSliceSpec


class ResourceSliceSpec(TypedDict, total=False):
    driver: str
    pool: ResourcePool
    nodeName: str
    nodeSelector: NodeSelector
    allNodes: bool
    devices: Sequence[Device]


class ResourcePool(TypedDict, total=False):
    name: str
    generation: int
    resourceSliceCount: int


class Device(TypedDict, total=False):
    name: Required[str]
    basic: BasicDevice


class BasicDevice(TypedDict, total=False):
    attributes: Mapping[str, DeviceAttribute]
    capacity: Mapping[str, str]


class DeviceAttribute(TypedDict, total=False):
    int: builtins.int
    bool: builtins.bool
    string: builtins.str
    version: builtins.str


class ResourceClaim(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: ResourceClaimSpec
    status: ResourceClaimStatus


class ResourceClaimSpec(TypedDict, total=False):
    devices: DeviceClaim
    controller: str


class DeviceClaim(TypedDict, total=False):
    requests: Sequence[DeviceRequest]
    constraints: Sequence[DeviceConstraint]
    config: Sequence[DeviceClaimConfiguration]


class DeviceRequest(TypedDict, total=False):
    name: Required[str]
    deviceClassName: Required[str]
    selectors: Sequence[DeviceSelector]
    allocationMode: str
    count: int
    adminAccess: bool


class DeviceConstraint(TypedDict, total=False):
    requests: Sequence[str]
    matchAttribute: str


class DeviceClaimConfiguration(TypedDict, total=False):
    requests: Sequence[str]
    opaque: OpaqueDeviceConfiguration


class DeviceConfiguration(TypedDict, total=False):
    opaque: OpaqueDeviceConfiguration


class OpaqueDeviceConfiguration(TypedDict, total=False):
    driver: str
    parameters: Any


class ResourceClaimStatus(TypedDict, total=False):
    allocation: AllocationResult
    reservedFor: Sequence[ResourceClaimConsumerReference]
    deallocationRequested: bool
    devices: Sequence[AllocatedDeviceStatus]


class ResourceClaimConsumerReference(TypedDict, total=False):
    apiGroup: str
    resource: Required[str]
    name: Required[str]
    uid: Required[str]


class AllocationResult(TypedDict, total=False):
    devices: DeviceAllocationResult
    nodeSelector: NodeSelector
    controller: str


class DeviceAllocationResult(TypedDict, total=False):
    results: Sequence[DeviceRequestAllocationResult]
    config: Sequence[DeviceAllocationConfiguration]


class DeviceRequestAllocationResult(TypedDict, total=False):
    request: Required[str]
    driver: Required[str]
    pool: Required[str]
    device: Required[str]
    adminAccess: bool


class DeviceAllocationConfiguration(TypedDict, total=False):
    source: Required[str]
    requests: Sequence[str]
    opaque: OpaqueDeviceConfiguration


class DeviceClass(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: DeviceClassSpec


class DeviceClassSpec(TypedDict, total=False):
    selectors: Sequence[DeviceSelector]
    config: Sequence[DeviceClassConfiguration]
    suitableNodes: NodeSelector


class DeviceClassConfiguration(TypedDict, total=False):
    opaque: OpaqueDeviceConfiguration


class ResourceClaimTemplate(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: ResourceClaimTemplateSpec


class ResourceClaimTemplateSpec(TypedDict, total=False):
    metadata: ObjectMeta
    spec: ResourceClaimSpec


class AllocatedDeviceStatus(TypedDict, total=False):
    driver: Required[str]
    pool: Required[str]
    device: Required[str]
    conditions: Sequence[Condition]
    data: Any
    networkData: NetworkDeviceData


class NetworkDeviceData(TypedDict, total=False):
    interfaceName: str
    ips: Sequence[str]
    hardwareAddress: str


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
    name: Required[str]
    unsuitableNodes: Sequence[str]
