"""The structs of storage/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/storage_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.core import PersistentVolumeSpec, TopologySelectorTerm
    from dray.api.types.meta import LabelSelector, ObjectMeta


class StorageClass(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    provisioner: str
    parameters: Mapping[str, str]
    reclaimPolicy: str
    mountOptions: Sequence[str]
    allowVolumeExpansion: bool
    volumeBindingMode: str
    allowedTopologies: Sequence[TopologySelectorTerm]


class VolumeAttachment(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: VolumeAttachmentSpec
    status: VolumeAttachmentStatus


class VolumeAttachmentSpec(TypedDict, total=False):
    attacher: str
    source: VolumeAttachmentSource
    nodeName: str


class VolumeAttachmentSource(TypedDict, total=False):
    persistentVolumeName: str
    inlineVolumeSpec: PersistentVolumeSpec


class VolumeAttachmentStatus(TypedDict, total=False):
    attached: bool
    attachmentMetadata: Mapping[str, str]
    attachError: VolumeError
    detachError: VolumeError


class VolumeError(TypedDict, total=False):
    time: str
    message: str
    errorCode: int


class CSIDriver(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: CSIDriverSpec


class CSIDriverSpec(TypedDict, total=False):
    attachRequired: bool
    podInfoOnMount: bool
    volumeLifecycleModes: Sequence[str]
    storageCapacity: bool
    fsGroupPolicy: str
    tokenRequests: Sequence[TokenRequest]
    requiresRepublish: bool
    seLinuxMount: bool
    nodeAllocatableUpdatePeriodSeconds: int
    serviceAccountTokenInSecrets: bool
    preventPodSchedulingIfMissing: bool


class TokenRequest(TypedDict, total=False):
    audience: Required[str]
    expirationSeconds: int


class CSINode(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: CSINodeSpec
    status: CSINodeStatus


class CSINodeSpec(TypedDict, total=False):
    drivers: Sequence[CSINodeDriver]


class CSINodeDriver(TypedDict, total=False):
    name: Required[str]
    nodeID: Required[str]
    topologyKeys: Sequence[str]
    allocatable: VolumeNodeResources


class VolumeNodeResources(TypedDict, total=False):
    count: int


class StorageHealthCondition(TypedDict, total=False):
    status: Required[str]
    reason: Required[str]
    message: str
    accessMode: str
    volumeMode: str
    lastTransitionTime: str


class StorageHealth(TypedDict, total=False):
    name: Required[str]
    healthConditions: Sequence[StorageHealthCondition]


class CSINodeStatus(TypedDict, total=False):
    storageHealth: Sequence[StorageHealth]


class CSIStorageCapacity(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    nodeTopology: LabelSelector
    storageClassName: str
    capacity: str
    maximumVolumeSize: str


class VolumeAttributesClass(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    driverName: str
    parameters: Mapping[str, str]
