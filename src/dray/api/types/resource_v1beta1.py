"""The structs of resource/v1beta1 as types of documents.

Written by ``make types`` from ``api/schema/types/resource_v1beta1.types``; not to be edited.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.core import NodeSelector
    from dray.api.types.meta import Condition, ObjectMeta


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
    perDeviceNodeSelection: bool
    sharedCounters: Sequence[CounterSet]
    partitionTypeAttribute: str
    skipNodeOperations: Sequence[str]


class CounterSet(TypedDict, total=False):
    name: Required[str]
    counters: Mapping[str, Counter]


class Counter(TypedDict, total=False):
    value: Required[str]


class ResourcePool(TypedDict, total=False):
    name: str
    generation: int
    resourceSliceCount: int


class Device(TypedDict, total=False):
    name: Required[str]
    basic: BasicDevice


class BasicDevice(TypedDict, total=False):
    attributes: Mapping[str, DeviceAttribute]
    capacity: Mapping[str, DeviceCapacity]
    consumesCounters: Sequence[DeviceCounterConsumption]
    nodeName: str
    nodeSelector: NodeSelector
    allNodes: bool
    taints: Sequence[DeviceTaint]
    bindsToNode: bool
    bindingConditions: Sequence[str]
    bindingFailureConditions: Sequence[str]
    allowMultipleAllocations: bool
    nodeAllocatableResourceMappings: Mapping[str, NodeAllocatableResourceMapping]
    nodeAllocatableResources: Mapping[str, NodeAllocatableResource]


class NodeAllocatableResource(TypedDict, total=False):
    mapping: NodeAllocatableMapping
    overhead: NodeAllocatableOverhead


class NodeAllocatableMapping(TypedDict, total=False):
    capacityKey: str
    capacityMultiplier: str
    deviceMultiplier: str


class NodeAllocatableOverhead(TypedDict, total=False):
    perPod: str
    perContainer: str


class DeviceCounterConsumption(TypedDict, total=False):
    counterSet: Required[str]
    counters: Mapping[str, Counter]
    compatibilityGroups: Sequence[str]


class DeviceCapacity(TypedDict, total=False):
    value: Required[str]
    requestPolicy: CapacityRequestPolicy


class CapacityRequestPolicy(TypedDict, total=False):
    default: str
    validValues: Sequence[str]
    validRange: CapacityRequestPolicyRange


class CapacityRequestPolicyRange(TypedDict, total=False):
    min: str
    max: str
    step: str


class DeviceAttribute(TypedDict, total=False):
    int: builtins.int
    bool: builtins.bool
    string: builtins.str
    version: builtins.str
    ints: Sequence[builtins.int]
    bools: Sequence[builtins.bool]
    strings: Sequence[builtins.str]
    versions: Sequence[builtins.str]


class DeviceTaint(TypedDict, total=False):
    key: Required[str]
    value: str
    effect: Required[str]
    timeAdded: str


class ResourceClaim(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: ResourceClaimSpec
    status: ResourceClaimStatus


class ResourceClaimSpec(TypedDict, total=False):
    devices: DeviceClaim


class DeviceClaim(TypedDict, total=False):
    requests: Sequence[DeviceRequest]
    constraints: Sequence[DeviceConstraint]
    config: Sequence[DeviceClaimConfiguration]


class DeviceRequest(TypedDict, total=False):
    name: Required[str]
    deviceClassName: str
    selectors: Sequence[DeviceSelector]
    allocationMode: str
    count: int
    adminAccess: bool
    firstAvailable: Sequence[DeviceSubRequest]
    tolerations: Sequence[DeviceToleration]
    capacity: CapacityRequirements
    derivedAttributes: Sequence[DeviceDerivedAttribute]


class DeviceSubRequest(TypedDict, total=False):
    name: Required[str]
    deviceClassName: Required[str]
    selectors: Sequence[DeviceSelector]
    allocationMode: str
    count: int
    tolerations: Sequence[DeviceToleration]
    capacity: CapacityRequirements
    derivedAttributes: Sequence[DeviceDerivedAttribute]


class CapacityRequirements(TypedDict, total=False):
    requests: Mapping[str, str]


class DeviceDerivedAttribute(TypedDict, total=False):
    name: Required[str]
    expression: Required[str]


class DeviceSelector(TypedDict, total=False):
    cel: CELDeviceSelector


class CELDeviceSelector(TypedDict, total=False):
    expression: str


class DeviceConstraint(TypedDict, total=False):
    requests: Sequence[str]
    matchAttribute: str
    distinctAttribute: str


class DeviceClaimConfiguration(TypedDict, total=False):
    requests: Sequence[str]
    opaque: OpaqueDeviceConfiguration


class DeviceConfiguration(TypedDict, total=False):
    opaque: OpaqueDeviceConfiguration


class OpaqueDeviceConfiguration(TypedDict, total=False):
    driver: str
    parameters: Any


class DeviceToleration(TypedDict, total=False):
    key: str
    operator: str
    value: str
    effect: str
    tolerationSeconds: int


class ResourceClaimStatus(TypedDict, total=False):
    allocation: AllocationResult
    reservedFor: Sequence[ResourceClaimConsumerReference]
    devices: Sequence[AllocatedDeviceStatus]


class ResourceClaimConsumerReference(TypedDict, total=False):
    apiGroup: str
    resource: Required[str]
    name: Required[str]
    uid: Required[str]


class AllocationResult(TypedDict, total=False):
    devices: DeviceAllocationResult
    nodeSelector: NodeSelector
    allocationTimestamp: str


class DeviceAllocationResult(TypedDict, total=False):
    results: Sequence[DeviceRequestAllocationResult]
    config: Sequence[DeviceAllocationConfiguration]


class DeviceRequestAllocationResult(TypedDict, total=False):
    request: Required[str]
    driver: Required[str]
    pool: Required[str]
    device: Required[str]
    adminAccess: bool
    tolerations: Sequence[DeviceToleration]
    bindingConditions: Sequence[str]
    bindingFailureConditions: Sequence[str]
    shareID: str
    consumedCapacity: Mapping[str, str]
    skipNodeOperations: Sequence[str]


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
    extendedResourceName: str


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
    shareID: str
    conditions: Sequence[Condition]
    data: Any
    networkData: NetworkDeviceData


class NetworkDeviceData(TypedDict, total=False):
    interfaceName: str
    ips: Sequence[str]
    hardwareAddress: str


class NodeAllocatableResourceMapping(TypedDict, total=False):
    capacityKey: str
    allocationMultiplier: str
