"""The structs of admission/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/admission_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from dray.api.types.authentication import UserInfo
    from dray.api.types.meta import GroupVersionKind, GroupVersionResource, Status


class AdmissionReview(TypedDict, total=False):
    kind: str
    apiVersion: str
    request: AdmissionRequest
    response: AdmissionResponse


class AdmissionRequest(TypedDict, total=False):
    uid: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    subResource: str
    requestKind: GroupVersionKind
    requestResource: GroupVersionResource
    requestSubResource: str
    name: str
    namespace: str
    operation: str
    userInfo: UserInfo
    object: Any
    oldObject: Any
    dryRun: bool
    options: Any


class AdmissionResponse(TypedDict, total=False):
    uid: str
    allowed: bool
    status: Status
    patch: str
    patchType: str
    auditAnnotations: Mapping[str, str]
    warnings: Sequence[str]
