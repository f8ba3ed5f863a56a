"""The structs of authorization/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/authorization_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import FieldSelectorRequirement, LabelSelectorRequirement, ObjectMeta


class SubjectAccessReview(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: SubjectAccessReviewSpec
    status: SubjectAccessReviewStatus


class SelfSubjectAccessReview(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: SelfSubjectAccessReviewSpec
    status: SubjectAccessReviewStatus


class LocalSubjectAccessReview(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: SubjectAccessReviewSpec
    status: SubjectAccessReviewStatus


class ResourceAttributes(TypedDict, total=False):
    namespace: str
    verb: str
    group: str
    version: str
    resource: str
    subresource: str
    name: str
    fieldSelector: FieldSelectorAttributes
    labelSelector: LabelSelectorAttributes


class LabelSelectorAttributes(TypedDict, total=False):
    rawSelector: str
    requirements: Sequence[LabelSelectorRequirement]


class FieldSelectorAttributes(TypedDict, total=False):
    rawSelector: str
    requirements: Sequence[FieldSelectorRequirement]


class NonResourceAttributes(TypedDict, total=False):
    path: str
    verb: str


class SubjectAccessReviewSpec(TypedDict, total=False):
    resourceAttributes: ResourceAttributes
    nonResourceAttributes: NonResourceAttributes
    user: str
    groups: Sequence[str]
    extra: Mapping[str, Sequence[str]]
    uid: str


class SelfSubjectAccessReviewSpec(TypedDict, total=False):
    resourceAttributes: ResourceAttributes
    nonResourceAttributes: NonResourceAttributes


class SubjectAccessReviewStatus(TypedDict, total=False):
    allowed: bool
    denied: bool
    reason: str
    evaluationError: str


class SelfSubjectRulesReview(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: SelfSubjectRulesReviewSpec
    status: SubjectRulesReviewStatus


class SelfSubjectRulesReviewSpec(TypedDict, total=False):
    namespace: str


class SubjectRulesReviewStatus(TypedDict, total=False):
    resourceRules: Sequence[ResourceRule]
    nonResourceRules: Sequence[NonResourceRule]
    incomplete: bool
    evaluationError: str


class ResourceRule(TypedDict, total=False):
    verbs: Required[Sequence[str]]
    apiGroups: Sequence[str]
    resources: Sequence[str]
    resourceNames: Sequence[str]


class NonResourceRule(TypedDict, total=False):
    verbs: Required[Sequence[str]]
    nonResourceURLs: Sequence[str]
