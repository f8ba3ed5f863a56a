"""The structs of meta/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/meta_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Required, TypedDict


class TypeMeta(TypedDict, total=False):
    kind: str
    apiVersion: str


ListMeta = TypedDict(
    "ListMeta",
    {
        "selfLink": "str",
        "resourceVersion": "str",
        "continue": "str",
        "remainingItemCount": "int",
        "shardInfo": "ShardInfo",
    },
    total=False,
)


class ShardInfo(TypedDict, total=False):
    selector: str


class ObjectMeta(TypedDict, total=False):
    name: str
    generateName: str
    namespace: str
    selfLink: str
    uid: str
    resourceVersion: str
    generation: int
    creationTimestamp: str
    deletionTimestamp: str
    deletionGracePeriodSeconds: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    ownerReferences: Sequence[OwnerReference]
    finalizers: Sequence[str]
    managedFields: Sequence[ManagedFieldsEntry]


class OwnerReference(TypedDict, total=False):
    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool
    blockOwnerDeletion: bool


ListOptions = TypedDict(
    "ListOptions",
    {
        "kind": "str",
        "apiVersion": "str",
        "labelSelector": "str",
        "fieldSelector": "str",
        "watch": "bool",
        "allowWatchBookmarks": "bool",
        "resourceVersion": "str",
        "resourceVersionMatch": "str",
        "timeoutSeconds": "int",
        "limit": "int",
        "continue": "str",
        "sendInitialEvents": "bool",
        "shardSelector": "str",
    },
    total=False,
)


class GetOptions(TypedDict, total=False):
    kind: str
    apiVersion: str
    resourceVersion: str


class DeleteOptions(TypedDict, total=False):
    kind: str
    apiVersion: str
    gracePeriodSeconds: int
    preconditions: Preconditions
    orphanDependents: bool
    propagationPolicy: str
    dryRun: Sequence[str]
    ignoreStoreReadErrorWithClusterBreakingPotential: bool


class CreateOptions(TypedDict, total=False):
    kind: str
    apiVersion: str
    dryRun: Sequence[str]
    fieldManager: str
    fieldValidation: str


class PatchOptions(TypedDict, total=False):
    kind: str
    apiVersion: str
    dryRun: Sequence[str]
    force: bool
    fieldManager: str
    fieldValidation: str


class UpdateOptions(TypedDict, total=False):
    kind: str
    apiVersion: str
    dryRun: Sequence[str]
    fieldManager: str
    fieldValidation: str


class Preconditions(TypedDict, total=False):
    uid: str
    resourceVersion: str


class Status(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ListMeta
    status: str
    message: str
    reason: str
    details: StatusDetails
    code: int


class StatusDetails(TypedDict, total=False):
    name: str
    group: str
    kind: str
    uid: str
    causes: Sequence[StatusCause]
    retryAfterSeconds: int


class StatusCause(TypedDict, total=False):
    reason: str
    message: str
    field: str


class APIVersions(TypedDict, total=False):
    kind: str
    apiVersion: str
    versions: Sequence[str]
    serverAddressByClientCIDRs: Sequence[ServerAddressByClientCIDR]


class APIGroupList(TypedDict, total=False):
    kind: str
    apiVersion: str
    groups: Sequence[APIGroup]


class APIGroup(TypedDict, total=False):
    kind: str
    apiVersion: str
    name: Required[str]
    versions: Required[Sequence[GroupVersionForDiscovery]]
    preferredVersion: GroupVersionForDiscovery
    serverAddressByClientCIDRs: Sequence[ServerAddressByClientCIDR]


class ServerAddressByClientCIDR(TypedDict, total=False):
    clientCIDR: Required[str]
    serverAddress: Required[str]


class GroupVersionForDiscovery(TypedDict, total=False):
    groupVersion: str
    version: str


class APIResource(TypedDict, total=False):
    name: Required[str]
    singularName: Required[str]
    namespaced: Required[bool]
    group: str
    version: str
    kind: Required[str]
    verbs: Required[Sequence[str]]
    shortNames: Sequence[str]
    categories: Sequence[str]
    storageVersionHash: str


class APIResourceList(TypedDict, total=False):
    kind: str
    apiVersion: str
    groupVersion: str
    resources: Sequence[APIResource]


class LabelSelector(TypedDict, total=False):
    matchLabels: Mapping[str, str]
    matchExpressions: Sequence[LabelSelectorRequirement]


class LabelSelectorRequirement(TypedDict, total=False):
    key: Required[str]
    operator: Required[str]
    values: Sequence[str]


class FieldSelectorRequirement(TypedDict, total=False):
    key: Required[str]
    operator: Required[str]
    values: Sequence[str]


class ManagedFieldsEntry(TypedDict, total=False):
    manager: str
    operation: str
    apiVersion: str
    time: str
    fieldsType: str
    fieldsV1: Any
    subresource: str


class Table(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ListMeta
    columnDefinitions: Sequence[TableColumnDefinition]
    rows: Sequence[TableRow]


class TableColumnDefinition(TypedDict, total=False):
    name: Required[str]
    type: Required[str]
    format: Required[str]
    description: Required[str]
    priority: Required[int]


class TableRow(TypedDict, total=False):
    cells: Required[Sequence[Any]]
    conditions: Sequence[TableRowCondition]
    object: Any


class PartialObjectMetadata(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta


class PartialObjectMetadataList(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ListMeta
    items: Sequence[PartialObjectMetadata]


class Condition(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    observedGeneration: int
    lastTransitionTime: Required[str]
    reason: Required[str]
    message: Required[str]


class TableRowCondition(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    reason: str
    message: str


class GroupVersionKind(TypedDict, total=False):
    group: str
    version: str
    kind: str


class GroupVersionResource(TypedDict, total=False):
    group: str
    version: str
    resource: str


class GroupResource(TypedDict, total=False):
    group: str
    resource: str


class WatchEvent(TypedDict, total=False):
    type: str
    object: Any
