"""The structs of node/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/node_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from dray.api.types.core import Toleration
    from dray.api.types.meta import ObjectMeta


class RuntimeClass(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    handler: str
    overhead: Overhead
    scheduling: Scheduling


class Overhead(TypedDict, total=False):
    podFixed: Mapping[str, str]


class Scheduling(TypedDict, total=False):
    nodeSelector: Mapping[str, str]
    tolerations: Sequence[Toleration]
