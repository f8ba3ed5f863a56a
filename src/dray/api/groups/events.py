"""events.k8s.io: the same events as in the core group, under younger names and with stricter checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.groups.core import event
from dray.api.groups.core.event import check_event
from dray.api.scheme.kinds import Kind, Object, Version
from dray.api.scheme.strategy import Context, Strategy, immutable, name_is_dns_subdomain
from dray.api.validation import field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import Event, EventSeries

#: This group's names and what the core group calls the same.
_RENAMED: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_BACK: Final = {core: own for own, core in _RENAMED.items()}
_TYPES: Final = {
    "involvedObject": "core/v1.ObjectReference",
    "related": "core/v1.ObjectReference",
    "source": "core/v1.EventSource",
}
_FROZEN: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type", "eventTime",
    "action", "related", "reportingController", "reportingInstance",
)  # fmt: skip


def _to_core(obj: Event) -> Object:
    event: Object = {
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }
    for key, value in obj.items():
        event[_RENAMED.get(key, key)] = value
    return event


def _from_core(obj: Event) -> Object:
    event: Object = {
        "regarding": {},
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
        "eventTime": None,
    }
    for key, value in obj.items():
        event[_BACK.get(key, key)] = value
    for part in ("reportingController", "reportingInstance"):
        if not event.get(part):
            event.pop(part, None)
    return event


def _check_series(series: EventSeries) -> list[FieldError]:
    found = []
    if series.get("count", 0) < 2:
        found.append(field.invalid(Path("series.count"), "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        found.append(field.required(Path("series.lastObservedTime")))
    return found


class EventStrategy(Strategy["Event"]):
    check_name = staticmethod(name_is_dns_subdomain)
    create_on_update = True

    def validate(self, obj: Event, ctx: Context) -> Sequence[FieldError]:
        found = check_event(obj, controller_field="reportingController")
        if obj.get("series") is not None:
            found += _check_series(obj["series"])
        if not obj.get("eventTime"):
            found.append(field.required(Path("eventTime")))
        if obj.get("type") not in ("Normal", "Warning"):
            found.append(field.invalid(Path("type"), "", f"has invalid value: {obj.get('type', '')}"))
        for part in ("firstTimestamp", "lastTimestamp", "count", "source"):
            if obj.get(part):
                found.append(field.invalid(Path(part), "", "needs to be unset"))
        return found

    def validate_update(self, new: Event, old: Event, ctx: Context) -> Sequence[FieldError]:
        found = check_event(new, controller_field="reportingController")
        if new.get("series") is not None and new["series"] != old.get("series"):
            found += _check_series(new["series"])
        for part in _FROZEN:
            core = _RENAMED.get(part, part)
            found += immutable(new.get(core), old.get(core), Path(part), type_name=_TYPES.get(part, ""))
        return found


KIND = Kind(
    group="events.k8s.io",
    kind="Event",
    plural="events",
    short_names=("ev",),
    versions=(Version(name="v1", type="events/v1.Event", to_hub=_to_core, from_hub=_from_core),),
    storage="v1",
    strategy=EventStrategy(),
    printer=event.PRINTER,
    fields=event.fields(about="regarding", controller="reportingController"),
    ttl=event.LIFETIME,
    prefix="events",
    stored_as=event.KIND,
)
KINDS = (KIND,)
