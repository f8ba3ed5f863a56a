"""The structs of apiregistration/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/apiregistration_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta


class ServiceReference(TypedDict, total=False):
    namespace: str
    name: str
    port: int


class APIServiceSpec(TypedDict, total=False):
    service: ServiceReference
    group: str
    version: str
    insecureSkipTLSVerify: bool
    caBundle: str
    groupPriorityMinimum: int
    versionPriority: int


class APIServiceCondition(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastTransitionTime: str
    reason: str
    message: str


class APIServiceStatus(TypedDict, total=False):
    conditions: Sequence[APIServiceCondition]


class APIService(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: APIServiceSpec
    status: APIServiceStatus
