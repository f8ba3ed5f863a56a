"""The structs of scheduling/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/scheduling_v1.types``; not to be edited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta


class PriorityClass(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    value: int
    globalDefault: bool
    description: str
    preemptionPolicy: str
