"""The structs of certificates/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/certificates_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import Condition, ObjectMeta


class CertificateSigningRequest(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: CertificateSigningRequestSpec
    status: CertificateSigningRequestStatus


class CertificateSigningRequestSpec(TypedDict, total=False):
    request: str
    signerName: str
    expirationSeconds: int
    usages: Sequence[str]
    username: str
    uid: str
    groups: Sequence[str]
    extra: Mapping[str, Sequence[str]]


class CertificateSigningRequestStatus(TypedDict, total=False):
    conditions: Sequence[CertificateSigningRequestCondition]
    certificate: str


class CertificateSigningRequestCondition(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    reason: str
    message: str
    lastUpdateTime: str
    lastTransitionTime: str


class ClusterTrustBundle(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: ClusterTrustBundleSpec


class ClusterTrustBundleSpec(TypedDict, total=False):
    signerName: str
    trustBundle: str


class PodCertificateRequest(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: PodCertificateRequestSpec
    status: PodCertificateRequestStatus


class PodCertificateRequestSpec(TypedDict, total=False):
    signerName: str
    podName: str
    podUID: str
    serviceAccountName: str
    serviceAccountUID: str
    nodeName: str
    nodeUID: str
    maxExpirationSeconds: int
    stubPKCS10Request: str
    unverifiedUserAnnotations: Mapping[str, str]


class PodCertificateRequestStatus(TypedDict, total=False):
    conditions: Sequence[Condition]
    certificateChain: str
    notBefore: str
    beginRefreshAt: str
    notAfter: str
