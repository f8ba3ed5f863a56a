"""The page of one object as a document: a heading, and sections of facts, tables and texts that the browser lays out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from dray.api.identity import ObjectKey, object_key
from dray.ui.details.claims import claim_page
from dray.ui.details.classes import class_page
from dray.ui.details.devices import device_page, pool_page, slice_page
from dray.ui.details.elements import Cell, Page, Table, Text, Time
from dray.ui.details.nodes import node_page
from dray.ui.details.parts import split_key, timeline
from dray.ui.details.pods import pod_page

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Event
    from dray.ui.board import Board


def page(board: Board, kind: str, id: str) -> Page | None:
    """The page of an object; None if there is none of that name and never was."""
    make = _PAGES.get(kind)
    if make is None:
        return None
    found = make(board, id)
    if found is not None:
        return found
    moments = board.happenings.timeline(kind, id)
    if not moments:
        return None
    return Page(kind, id, id, "gone", f"This {kind} is gone.", sections=[timeline(board, kind, id, None)])


def with_events(found: Page, events: Sequence[Event] | None) -> Page:
    """``events``: None where they may not be read."""
    if not found.uid:
        return found
    columns = ("Last", "Type", "Reason", "Message", "From")
    if events is None:
        section = Table("Events", columns, [], "You may not read events here.")
    else:
        newest = sorted(events, key=_moment, reverse=True)
        lines: list[Sequence[Cell]] = [
            (
                Time(_moment(one)),
                one.get("type") or "",
                one.get("reason") or "",
                _counted(one),
                (one.get("source") or {}).get("component") or one.get("reportingComponent") or "",
            )
            for one in newest
        ]
        section = Table("Events", columns, lines, "None.")
    place = next((i for i, one in enumerate(found.sections) if isinstance(one, Text)), len(found.sections))
    return msgspec.structs.replace(
        found, sections=[*found.sections[:place], section, *found.sections[place:]]
    )


def _counted(event: Event) -> str:
    count = event.get("count") or 1
    return f"{event.get('message', '')}{f' (×{count})' if count > 1 else ''}"


def _moment(event: Event) -> str:
    return str(
        event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )


def involved(board: Board, kind: str, id: str) -> tuple[str, str]:
    """Namespace and uid of the object, by which its events are found."""
    name = {"pod": "pods", "claim": "claims", "class": "classes", "slice": "slices", "node": "nodes"}.get(
        kind, ""
    )
    key = split_key(id) if kind in ("pod", "claim") else ObjectKey("", id)
    document: Object | None = board.cluster.objects.get(name, {}).get(key)
    if document is None and kind == "slice":
        document = board.cluster.slices.get(id)
    if document is None and kind == "claim":
        document = board.cluster.claims.get(key)
    if document is None and kind == "class":
        document = board.cluster.resource_classes.get(id)
    if document is None:
        return "", ""
    return object_key(document).namespace, (document.get("metadata") or {}).get("uid") or ""


_PAGES: Final[Mapping[str, Callable[[Board, str], Page | None]]] = {
    "device": device_page,
    "pool": pool_page,
    "slice": slice_page,
    "claim": claim_page,
    "pod": pod_page,
    "class": class_page,
    "node": node_page,
}
KINDS: Final = tuple(_PAGES)
