"""What the pages of several kinds have in common: links, metadata, timeline, conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dray.api.identity import DeviceID, ObjectKey
from dray.api.objects import controller_of
from dray.api.times import to_epoch
from dray.ui.details.elements import NONE, Atom, Cell, Code, Link, Table, Text, Time, Timeline

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import NodeCondition, PodCondition
    from dray.api.types.meta import Condition
    from dray.ui.board import Board


def claim_link(key: ObjectKey | str) -> Link:
    return Link(str(key), "claim", str(key))


def pod_link(key: ObjectKey | str) -> Link:
    return Link(str(key), "pod", str(key))


def device_link(id: DeviceID | str) -> Link:
    return Link(str(id), "device", str(id))


def node_cell(board: Board, name: str) -> Atom:
    return Link(name, "node", name) if name in board.cluster.nodes else name or NONE


def class_link(board: Board, name: str) -> Atom:
    return Link(name, "class", name) if name in board.cluster.classes else name


def yaml_text(document: Any) -> Text:
    import yaml

    return Text("YAML", yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120))


def metadata_facts(obj: Object) -> list[tuple[str, Cell]]:
    metadata = obj.get("metadata") or {}
    facts: list[tuple[str, Cell]] = [("Created", Time(metadata.get("creationTimestamp") or ""))]
    if metadata.get("deletionTimestamp"):
        facts.append(("Deleted", Time(metadata["deletionTimestamp"])))
    owner = controller_of(obj) or next(iter(metadata.get("ownerReferences") or ()), None)
    if owner is not None:
        id = f"{metadata.get('namespace')}/{owner['name']}"
        kinds: Mapping[str, Atom] = {
            "Pod": Link(f"Pod {owner['name']}", "pod", id),
            "Node": Link(f"Node {owner['name']}", "node", owner["name"]),
        }
        facts.append(("Owner", kinds.get(owner["kind"], f"{owner['kind']} {owner['name']}")))
    for name in ("labels", "annotations"):
        entries: Mapping[str, str] = metadata.get(name) or {}
        kept = {k: v for k, v in entries.items() if k != "kubectl.kubernetes.io/last-applied-configuration"}
        if kept:
            facts.append((name.capitalize(), [Code(f"{k}={v}") for k, v in kept.items()]))
    if metadata.get("finalizers"):
        facts.append(("Finalizers", [Code(one) for one in metadata["finalizers"]]))
    return facts


def timeline(board: Board, kind: str, id: str, obj: Object | None) -> Timeline:
    """The states an object went through, and when it was created unless its first state tells that."""
    seen = [(one.at, one.state, one.before) for one in board.happenings.timeline(kind, id)]
    created = ((obj.get("metadata") or {}) if obj is not None else {}).get("creationTimestamp")
    if created and (not seen or seen[0][0] > to_epoch(created) + 1 or seen[0][1].lower() != "pending"):
        seen.insert(0, (to_epoch(created), "created", False))
    return Timeline("What happened to it", seen)


def conditions(title: str, found: Iterable[Condition | NodeCondition | PodCondition]) -> Iterator[Table]:
    lines: list[Sequence[Cell]] = [
        (
            one["type"],
            one["status"],
            one.get("reason") or "",
            one.get("message") or "",
            Time(one.get("lastTransitionTime") or ""),
        )
        for one in found
    ]
    if lines:
        yield Table(title, ("Condition", "Status", "Reason", "Message", "Since"), lines)


def split_key(id: str) -> ObjectKey:
    namespace, _, name = id.partition("/")
    return ObjectKey(namespace, name)
