"""The structs of apidiscovery/v2 as types of documents.

Written by ``make types`` from ``api/schema/types/apidiscovery_v2.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import GroupVersionKind, ObjectMeta


class APIGroupDiscovery(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    versions: Sequence[APIVersionDiscovery]


class APIVersionDiscovery(TypedDict, total=False):
    version: Required[str]
    resources: Sequence[APIResourceDiscovery]
    freshness: str


class APIResourceDiscovery(TypedDict, total=False):
    resource: Required[str]
    responseKind: GroupVersionKind
    scope: Required[str]
    singularResource: Required[str]
    verbs: Required[Sequence[str]]
    shortNames: Sequence[str]
    categories: Sequence[str]
    subresources: Sequence[APISubresourceDiscovery]


class APISubresourceDiscovery(TypedDict, total=False):
    subresource: Required[str]
    responseKind: GroupVersionKind
    acceptedTypes: Sequence[GroupVersionKind]
    verbs: Required[Sequence[str]]
