"""The structs of authentication/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/authentication_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta


class TokenReview(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: TokenReviewSpec
    status: TokenReviewStatus


class TokenReviewSpec(TypedDict, total=False):
    token: str
    audiences: Sequence[str]


class TokenReviewStatus(TypedDict, total=False):
    authenticated: bool
    user: UserInfo
    audiences: Sequence[str]
    error: str


class UserInfo(TypedDict, total=False):
    username: str
    uid: str
    groups: Sequence[str]
    extra: Mapping[str, Sequence[str]]


class TokenRequest(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: TokenRequestSpec
    status: TokenRequestStatus


class TokenRequestSpec(TypedDict, total=False):
    audiences: Sequence[str]
    expirationSeconds: int
    boundObjectRef: BoundObjectReference
    attestations: Mapping[str, Sequence[str]]


class TokenRequestStatus(TypedDict, total=False):
    token: str
    expirationTimestamp: str


class BoundObjectReference(TypedDict, total=False):
    kind: str
    apiVersion: str
    name: str
    uid: str


class SelfSubjectReview(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    status: SelfSubjectReviewStatus


class SelfSubjectReviewStatus(TypedDict, total=False):
    userInfo: UserInfo
