"""The structs of events/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/events_v1.types``; not to be edited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from dray.api.types.core import EventSource, ObjectReference
    from dray.api.types.meta import ObjectMeta


class Event(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    eventTime: str
    series: EventSeries
    reportingController: str
    reportingInstance: str
    action: str
    reason: str
    regarding: ObjectReference
    related: ObjectReference
    note: str
    type: str
    deprecatedSource: EventSource
    deprecatedFirstTimestamp: str
    deprecatedLastTimestamp: str
    deprecatedCount: int


class EventSeries(TypedDict, total=False):
    count: int
    lastObservedTime: str
