"""The structs of storagemigration/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/storagemigration_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import Condition, GroupResource, ObjectMeta


class StorageVersionMigration(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: StorageVersionMigrationSpec
    status: StorageVersionMigrationStatus


class StorageVersionMigrationSpec(TypedDict, total=False):
    resource: GroupResource


class StorageVersionMigrationStatus(TypedDict, total=False):
    conditions: Sequence[Condition]
    resourceVersion: str
