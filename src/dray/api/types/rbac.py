"""The structs of rbac/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/rbac_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import LabelSelector, ObjectMeta


class PolicyRule(TypedDict, total=False):
    verbs: Required[Sequence[str]]
    apiGroups: Sequence[str]
    resources: Sequence[str]
    resourceNames: Sequence[str]
    nonResourceURLs: Sequence[str]


class Subject(TypedDict, total=False):
    kind: Required[str]
    apiGroup: str
    name: Required[str]
    namespace: str


class RoleRef(TypedDict, total=False):
    apiGroup: str
    kind: str
    name: str


class Role(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    rules: Sequence[PolicyRule]


class RoleBinding(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    subjects: Sequence[Subject]
    roleRef: RoleRef


class ClusterRole(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    rules: Sequence[PolicyRule]
    aggregationRule: AggregationRule


class AggregationRule(TypedDict, total=False):
    clusterRoleSelectors: Sequence[LabelSelector]


class ClusterRoleBinding(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    subjects: Sequence[Subject]
    roleRef: RoleRef
