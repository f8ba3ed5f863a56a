"""Events of the core group: what happened to an object. They are checked less strictly than events.k8s.io events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Object, Version
from dray.api.scheme.strategy import Context, Strategy, name_is_path_segment
from dray.api.validation import field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import Event

#: An event is forgotten after an hour.
LIFETIME: Final = 3600.0
_NAMESPACE_MISMATCH: Final = "does not match event.namespace"
#: Texts with the bytes they may have, and whether they must be there.
_TEXTS: Final = (("action", 128, True), ("reason", 128, True), ("message", 1024, False))


def check_event(event: Event, *, controller_field: str) -> list[FieldError]:
    """The checks that every event must pass, whichever group it comes through."""
    meta, about = event["metadata"], event.get("involvedObject") or {}
    namespace, its_namespace = meta.get("namespace", ""), about.get("namespace", "")
    timed = bool(event.get("eventTime"))
    if timed:
        mismatch = not its_namespace and namespace not in ("default", "kube-system")
    else:
        mismatch = (its_namespace or namespace not in ("", "default")) and namespace != its_namespace
    found: list[FieldError] = []
    if mismatch:
        found.append(field.invalid(Path("involvedObject.namespace"), its_namespace, _NAMESPACE_MISMATCH))
    if timed:
        _check_reporter(event, controller_field, found)
        for part, limit, needed in _TEXTS:
            _check_text(event, part, found, limit=limit, needed=needed)
    if problems := names.dns1123_subdomain(namespace):
        found += field.each_invalid(Path("namespace"), namespace, problems)
    return found


def _check_reporter(event: Event, controller_field: str, found: list[FieldError]) -> None:
    controller = event.get("reportingComponent", "")
    if not controller:
        found.append(field.required(Path(controller_field)))
    if problems := names.qualified_name(controller):
        found += field.each_invalid(Path(controller_field), controller, problems)
    _check_text(event, "reportingInstance", found, limit=128, needed=True)


def _check_text(
    event: Mapping[str, Any], part: str, found: list[FieldError], *, limit: int, needed: bool
) -> None:
    text = event.get(part, "")
    if needed and not text:
        found.append(field.required(Path(part)))
    elif names.size(text) > limit:
        found.append(field.invalid(Path(part), "", f"can have at most {limit} characters"))


class CoreEventStrategy(Strategy["Event"]):
    check_name = staticmethod(name_is_path_segment)
    create_on_update = True

    def validate(self, obj: Event, ctx: Context) -> Sequence[FieldError]:
        return check_event(obj, controller_field="reportingComponent")

    def validate_update(self, new: Event, old: Event, ctx: Context) -> Sequence[FieldError]:
        return self.validate(new, ctx)


def _source(event: Event) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent", "")
    host = source.get("host") or event.get("reportingInstance", "")
    return f"{component}, {host}" if host else component


def _cells(obj: Event, now: float) -> Sequence[object]:
    first = printers.since(obj.get("firstTimestamp") or obj.get("eventTime"), now)
    last = printers.since(obj["lastTimestamp"], now) if obj.get("lastTimestamp") else first
    count = obj.get("count") or 1
    if series := obj.get("series"):
        last, count = printers.since(series.get("lastObservedTime"), now), series.get("count", 0)
    about = obj.get("involvedObject") or {}
    target = about.get("kind", "").lower() + (f"/{about['name']}" if about.get("name") else "")
    return (
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        target,
        about.get("fieldPath", ""),
        _source(obj),
        obj.get("message", "").strip(),
        first,
        count,
        printers.name(obj),
    )


PRINTER: Final = printers.printer(
    (
        Column("Last Seen", description="When the event was last observed."),
        Column("Type", description="Normal or Warning."),
        Column("Reason", description="A short word for why it happened."),
        Column("Object", description="What the event is about."),
        Column("Subobject", priority=1, description="The part of the object it is about."),
        Column("Source", priority=1, description="Who reported it."),
        Column("Message", description="What happened, for people."),
        Column("First Seen", priority=1, description="When the event was first observed."),
        Column("Count", priority=1, description="How often it was observed."),
        printers.NAME._replace(priority=1),
    ),
    _cells,
)


def _about(part: str) -> Callable[[Object], str]:
    return lambda event: str((event.get("involvedObject") or {}).get(part, ""))


ABOUT_PARTS: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def fields(*, about: str, controller: str) -> Mapping[str, Callable[[Object], str]]:
    """The selectable fields under the names that a group gives them."""

    def value(part: str) -> Callable[[Object], str]:
        return lambda event: str(event.get(part, ""))

    return {
        **{f"{about}.{part}": _about(part) for part in ABOUT_PARTS},
        "reason": value("reason"),
        controller: value("reportingComponent"),
        "type": value("type"),
    }


def _source_component(event: Mapping[str, Any]) -> str:
    return str((event.get("source") or {}).get("component") or event.get("reportingComponent", ""))


KIND = Kind(
    group="",
    kind="Event",
    plural="events",
    short_names=("ev",),
    versions=(Version(name="v1", type="core/v1.Event"),),
    storage="v1",
    strategy=CoreEventStrategy(),
    printer=PRINTER,
    fields={
        **fields(about="involvedObject", controller="reportingComponent"),
        "source": _source_component,
    },
    ttl=LIFETIME,
)
