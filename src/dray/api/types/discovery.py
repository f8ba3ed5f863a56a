"""The structs of discovery/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/discovery_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.core import ObjectReference
    from dray.api.types.meta import ObjectMeta


class EndpointSlice(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    addressType: str
    endpoints: Sequence[Endpoint]
    ports: Sequence[EndpointPort]


class Endpoint(TypedDict, total=False):
    addresses: Required[Sequence[str]]
    conditions: EndpointConditions
    hostname: str
    targetRef: ObjectReference
    deprecatedTopology: Mapping[str, str]
    nodeName: str
    zone: str
    hints: EndpointHints


class EndpointConditions(TypedDict, total=False):
    ready: bool
    serving: bool
    terminating: bool


class EndpointHints(TypedDict, total=False):
    forZones: Sequence[ForZone]
    forNodes: Sequence[ForNode]


class ForZone(TypedDict, total=False):
    name: Required[str]


class ForNode(TypedDict, total=False):
    name: Required[str]


class EndpointPort(TypedDict, total=False):
    name: str
    protocol: str
    port: int
    appProtocol: str
