"""The structs of coordination/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/coordination_v1.types``; not to be edited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta


class Lease(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: LeaseSpec


class LeaseSpec(TypedDict, total=False):
    holderIdentity: str
    leaseDurationSeconds: int
    acquireTime: str
    renewTime: str
    leaseTransitions: int
    strategy: str
    preferredHolder: str
