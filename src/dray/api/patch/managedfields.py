"""Who owns which field: the upkeep of ``metadata.managedFields`` for writes other than apply.

``track`` answers with the entries an object must carry after a write. It is on the way of every write, so it looks
only at what differs and hands back untouched entries as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from dray.api.patch.fieldsets import (
    EMPTY,
    SELF,
    FieldSet,
    difference,
    intersection,
    of_paths,
    union,
    valid,
    without,
)
from dray.api.patch.ownership import FREE, LEAF, Changes, Node, children, compare
from dray.api.schema import Struct, zero
from dray.api.textcache import cache_texts
from dray.api.validation.cache import content_key
from dray.api.validation.objectmeta import FIELD_MANAGER_LIMIT
from dray.limiteddict import LimitedDict

Entry = dict[str, Any]
Object = dict[str, Any]

#: An object of the request's version in another version, with its type; None if that version is not known.
Convert = Callable[[str, Object], "tuple[Struct, Object] | None"]

MOST_UPDATERS: Final = 10
_ANCIENT: Final = "ancient-changes"

#: Fields that the server itself sets; nobody owns them.
STRIPPED: Final = of_paths(
    ("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace"),
    ("metadata", "creationTimestamp"), ("metadata", "selfLink"), ("metadata", "uid"), ("metadata", "clusterName"),
    ("metadata", "generation"), ("metadata", "managedFields"), ("metadata", "resourceVersion"),
)  # fmt: skip


_METADATA: Final = "f:metadata"
_TYPED: Final = frozenset({"kind", "apiVersion", "metadata"})
_SET_BY_SERVER: Final = frozenset(STRIPPED[_METADATA])
_MISSING: Final = object()


class Manager(NamedTuple):
    """What tells one entry from another. All applies of one manager share an entry, whatever their version."""

    name: str
    operation: str  # "Apply" or "Update"
    api_version: str  # "" for applies
    subresource: str

    def __str__(self) -> str:
        """As conflicts name it."""
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


class Owned(NamedTuple):
    """The fields of one manager, in the version it wrote them in."""

    fields: FieldSet
    api_version: str
    time: str | None
    entry: Entry | None = None  # as it is stored, while nothing of it has changed


Managers = dict[Manager, Owned]


def manager_name(field_manager: str, user_agent: str) -> str:
    """The name a writer goes by: what it says itself, or the beginning of its user agent."""
    return field_manager or _agent_name(user_agent)


@cache_texts(256)
def _agent_name(user_agent: str) -> str:
    name = ""
    size = 0
    for c in user_agent.partition("/")[0]:
        if not c.isprintable():
            continue
        size += len(c.encode())
        if size > FIELD_MANAGER_LIMIT:
            break
        name += c
    return name or "unknown"


def read_entries(entries: Sequence[Entry] | None, *, stored: bool = False) -> Managers | None:
    """The managers behind a list of entries; None if an entry makes no sense."""
    managers: Managers = {}
    for entry in entries or ():
        operation, api_version = entry.get("operation"), entry.get("apiVersion")
        if operation not in ("Apply", "Update") or not api_version or entry.get("fieldsType") != "FieldsV1":
            return None
        fields = entry.get("fieldsV1") or {}
        if not isinstance(fields, dict):
            return None
        version = "" if operation == "Apply" else api_version
        manager = Manager(entry.get("manager", ""), operation, version, entry.get("subresource", ""))
        managers[manager] = Owned(fields, api_version, entry.get("time"), entry if stored else None)
    return managers


def write_entries(managers: Managers) -> list[Entry]:
    """The list of entries in upstream's order: applies first, then by time and name."""
    ordered = list(managers.items())
    if len(ordered) > 1:
        ordered.sort(
            key=lambda m: (m[0].operation, m[1].time or "", m[0].name, m[1].api_version, m[0].subresource)
        )
    return [
        _entry(name, operation, api_version, time, fields, subresource) if entry is None else entry
        for (name, operation, _, subresource), (fields, api_version, time, entry) in ordered
    ]


#: Upstream writes the fields of a struct or map first, then items by key, by value and by index.
_KINDS_OF_ELEMENTS: Final = {"f": 0, "k": 1, "v": 2, "i": 3}
_encode: Final = msgspec.json.Encoder().encode
_in_order: LimitedDict[bytes | tuple[str, ...], FieldSet] = LimitedDict(1024)
_LONGEST_REMEMBERED: Final = 8192
_MOST_HELD: Final = 256
#: Owners and consumers are told apart by their uid: no other object has the same set.
_UID_KEY: Final = 'k:{"uid":'
_KEYED_BY_UID: Final = _encode(_UID_KEY)[:-1]


def _sorted(fields: FieldSet) -> FieldSet:
    """The same set in upstream's order. Many objects have equal sets, or equal parts beside an item that is their own:
    most are found and not sorted, and are held once."""
    if not fields:
        return EMPTY
    if not any(fields.values()):  # nothing lies deeper: the names alone tell the set
        names = tuple(fields)
        if names[-1].startswith(_UID_KEY):
            return fields if len(names) <= 2 and names[0] == SELF else _in_element_order(fields)
        return _in_order.get(names) or _remembered(names, sum(map(len, names)), fields)
    encoded = _encode(fields)
    found = _in_order.get(encoded)
    if found is None:
        if _KEYED_BY_UID in encoded:
            return _sorted_by_part(fields)
        found = _remembered(encoded, len(encoded), fields)
    return found


def _sorted_by_part(fields: FieldSet) -> FieldSet:
    return {element: _sorted(below) if (below := fields[element]) else EMPTY for element in _order(fields)}


def _remembered(key: bytes | tuple[str, ...], size: int, fields: FieldSet) -> FieldSet:
    found = _in_element_order(fields)
    if size <= _LONGEST_REMEMBERED:
        _in_order[key] = found
    return found


def _in_element_order(fields: FieldSet) -> FieldSet:
    if not fields:
        return EMPTY
    return {element: _in_element_order(fields[element]) for element in _order(fields)}


def _order(fields: FieldSet) -> list[str]:
    order = sorted(fields)
    if order[-1] > "j" and any(
        element[0] == "i" for element in order
    ):  # the one kind that the alphabet misplaces
        order.sort(key=_rank)
    return order


def _rank(element: str) -> tuple[int, str]:
    return (-1, "") if element == "." else (_KINDS_OF_ELEMENTS.get(element[:1], 4), element)


def _entry(
    name: str, operation: str, api_version: str, time: str | None, fields: FieldSet, subresource: str
) -> Entry:
    encoded = _encode(fields)
    if _KEYED_BY_UID in encoded:  # no other object has the same
        return _ordered_entry(name, operation, api_version, time, _sorted_by_part(fields), subresource)
    ordered = _in_order.get(encoded)
    if ordered is None:
        ordered = _remembered(encoded, len(encoded), fields)
    return _shared_entry(name, operation, api_version, time, ordered, subresource)


def _ordered_entry(
    name: str, operation: str, api_version: str, time: str | None, fields: FieldSet, subresource: str
) -> Entry:
    entry: Entry = {"manager": name} if name else {}
    entry["operation"] = operation
    entry["apiVersion"] = api_version
    if time:
        entry["time"] = time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = fields
    if subresource:
        entry["subresource"] = subresource
    return entry


#: Entries by what is in them; the fields are told by their identity, as they are shared themselves.
_shared_entries: LimitedDict[tuple[str, str, str, str | None, int, str], Entry] = LimitedDict(256)


def _shared_entry(
    name: str, operation: str, api_version: str, time: str | None, fields: FieldSet, subresource: str
) -> Entry:
    """The entry that others may have too: objects of one template that are written within a second have the same."""
    key = (name, operation, api_version, time, id(fields), subresource)
    entry = _shared_entries.get(key)
    if entry is None:
        entry = _ordered_entry(name, operation, api_version, time, fields, subresource)
        _shared_entries[key] = entry
    return entry


def track(
    type_: Struct,
    old: Object | None,
    new: Object,
    *,
    manager: str,
    api_version: str,
    now: str,
    subresource: str = "",
    reset: FieldSet | None = None,
    convert: Convert | None = None,
) -> list[Entry]:
    """The managedFields of ``new`` after a create (``old`` is None), an update or a patch.

    Both objects are in the request's version. ``reset`` are the fields this resource never changes (``status`` for the
    main resource). Objects whose ownership nobody tracks, because it was reset, stay untracked.
    """
    try:
        if old is None and not _entries(new):
            mine = _fields_of_new(type_, new, reset)
            if not mine:
                return []
            if "ownerReferences" in new["metadata"]:
                return [_ordered_entry(manager, "Update", api_version, now, mine, subresource)]
            return [_shared_entry(manager, "Update", api_version, now, mine, subresource)]
        me = Manager(manager, "Update", api_version, subresource)
        managers = _starting_point(old, new, subresource)
        if not managers and old is not None:
            return []
        before = _empty(type_) if old is None else old
        changes = changed_fields(type_, before, new, reset)
        _take_away(managers, changes, before, new, api_version=api_version, reset=reset, convert=convert)
        if mine := difference(union(changes.modified, changes.added), STRIPPED):
            before_me = managers.get(me)
            fields = union(mine, before_me.fields) if before_me is not None else mine
            managers[me] = Owned(fields, api_version, now)
        _cap(managers)
        return write_entries(managers)
    except RecursionError:
        return []  # as upstream: what cannot be tracked is not, and the write goes on


def _starting_point(old: Object | None, new: Object, subresource: str) -> Managers:
    """The entries to go on from: the writer's own if it sent any that make sense, else those of the live object."""
    live = _entries(old)
    if not subresource:
        given = _entries(new)
        if given == [{}]:  # the way to say: forget who owns what
            return {}
        if given and given is not live and given != live and all(valid(e.get("fieldsV1", {})) for e in given):
            managers = read_entries(given)
            if managers:
                return managers
    return read_entries(live, stored=True) or {}


def _entries(obj: Object | None) -> list[Entry] | None:
    return obj["metadata"].get("managedFields") if obj is not None else None


def changed_fields(type_: Struct, old: Object, new: Object, reset: FieldSet | None) -> Changes:
    """The fields that a write changes; it cannot change those in ``reset``."""
    changes = compare(type_, old, new)
    if not reset:
        return changes
    added, modified, removed = changes
    return Changes(without(added, reset), without(modified, reset), without(removed, reset))


def _fields_of_new(type_: Struct, new: Object, reset: FieldSet | None) -> FieldSet:
    """What the writer of a new object owns, in order: what an empty one has not. Objects of one template share it, unless
    they have owners, which are told apart by their uid."""
    blank = _blank(type_)
    mine: FieldSet = {}
    metadata = new["metadata"]
    named: FieldSet = {}
    for name, key, node in blank.owned_metadata(tuple(metadata)):
        named[key] = EMPTY if node is LEAF else _sorted(node.made(metadata[name]))
    shared = "ownerReferences" not in metadata
    if named:
        mine[_METADATA] = _held_once(named) if shared else named
    for name, part in new.items():
        if (slot := blank.rest.get(name)) is None:
            if type_.open_ended and name not in _TYPED:
                mine[f"f:{name}"] = _in_element_order(FREE.made(part))
        elif slot.empty != part:
            if slot.node is LEAF:
                mine[slot.key] = EMPTY
            elif (below := _gained(slot, part)) is not None:
                mine[slot.key] = below
    if reset:
        mine = without(mine, reset)
    mine = {key: mine[key] for key in sorted(mine)}
    return _held_once(mine) if shared else mine


#: By keys and the identity of what is below them, which each set holds, so that nothing else gets that identity.
_held: LimitedDict[tuple[tuple[str, ...], tuple[int, ...]], FieldSet] = LimitedDict(_MOST_HELD)


def _held_once(fields: FieldSet) -> FieldSet:
    """The set itself, or an equal one that was here before."""
    key = (tuple(fields), tuple(map(id, fields.values())))
    known = _held.get(key)
    if known is None:
        _held[key] = known = fields
    return known


def _gained(slot: _Slot, part: Any) -> FieldSet | None:
    """The fields, in order, that a part has and an empty one has not. Many objects differ in nothing but metadata."""
    key = (slot, content_key(part))
    if (known := _known_gains.get(key)) is not None:
        return known
    if slot.empty is _MISSING:
        found: FieldSet | None = slot.node.made(part)
    else:
        added, modified, _ = slot.node.compare(slot.empty, part)
        found = modified if added is None else added if modified is None else union(added, modified)
    if found is not None:
        found = _sorted(found)
    if found is not None and key[1]:
        if len(_known_gains) >= _MOST_GAINS:
            del _known_gains[next(iter(_known_gains))]
        _known_gains[key] = found
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Slot:
    """A part of an object: how it is owned, and what it is while nobody has set it."""

    key: str
    node: Node
    empty: Any


class _Blank(NamedTuple):
    """An object of which nothing is set but what the server sets itself."""

    metadata: Mapping[str, tuple[str, Node]]
    rest: Mapping[str, _Slot]
    known: dict[tuple[str, ...], Sequence[tuple[str, str, Node]]]

    def owned_metadata(self, names: tuple[str, ...]) -> Sequence[tuple[str, str, Node]]:
        """The fields of metadata that a writer can own, of these, in order."""
        found = self.known.get(names)
        if found is None:
            if len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            child = self.metadata
            found = self.known[names] = [(name, *child[name]) for name in sorted(names) if name in child]
        return found


_MOST_KNOWN: Final = 512
#: Their contents, of up to 8 KiB, are held with them.
_MOST_GAINS: Final = 128
_known_gains: dict[tuple[_Slot, bytes], FieldSet] = {}


@lru_cache(maxsize=_MOST_KNOWN)
def _blank(type_: Struct) -> _Blank:
    known, empty = children(type_), _empty(type_)
    meta = type_.by_name["metadata"].type
    assert isinstance(meta, Struct)
    return _Blank(
        {name: child for name, child in children(meta).items() if child[0] not in _SET_BY_SERVER},
        {n: _Slot(*child, empty.get(n, _MISSING)) for n, child in known.items() if n not in _TYPED},
        {},
    )


@lru_cache(maxsize=_MOST_KNOWN)
def _empty(type_: Struct) -> Object:
    """The object that a new one is compared with."""
    found: Object = zero(type_)
    return found


def _take_away(
    managers: Managers,
    changes: Changes,
    old: Object,
    new: Object,
    *,
    api_version: str,
    reset: FieldSet | None,
    convert: Convert | None,
) -> None:
    """Take from every entry the fields that now belong to the writer or are gone; drop entries left empty."""
    by_version = {api_version: changes}
    for manager, owned in list(managers.items()):
        version = owned.api_version
        if version not in by_version:
            other = changes_in(version, old, new, reset=reset, convert=convert)
            if other is None:
                del managers[manager]
                continue
            by_version[version] = other
        there = by_version[version]
        taken = union(there.modified, there.added)
        fields = difference(owned.fields, intersection(owned.fields, taken)) if taken else owned.fields
        fields = difference(fields, there.removed)
        if not fields:
            del managers[manager]
        elif fields is not owned.fields:
            managers[manager] = Owned(fields, version, owned.time)


def changes_in(
    version: str, old: Object, new: Object, *, reset: FieldSet | None, convert: Convert | None
) -> Changes | None:
    """The same change seen in another version."""
    if convert is None:
        return None
    before, after = convert(version, old), convert(version, new)
    if before is None or after is None:
        return None
    return changed_fields(before[0], before[1], after[1], reset)


def _cap(managers: Managers) -> None:
    """Merge the oldest entries of updates, a bucket for each version, until there are not too many."""
    if len(managers) <= MOST_UPDATERS:
        return
    updaters = [m for m in managers if m.operation == "Update"]
    excess = len(updaters) - MOST_UPDATERS
    if excess <= 0:
        return
    updaters.sort(key=lambda m: (managers[m].time or "", m))
    first: dict[str, Manager] = {}
    for manager in updaters:
        if excess <= 0:
            return
        owned = managers[manager]
        version = owned.api_version
        if version not in first:
            first[version] = manager
            continue
        bucket = Manager(_ANCIENT, "Update", version, "")
        if bucket not in managers:
            managers[bucket] = managers.pop(first[version])
        fields = union(owned.fields, managers[bucket].fields)
        managers[bucket] = Owned(fields, version, owned.time)
        if manager != bucket:
            del managers[manager]
        excess -= 1


def same_but_for_times(new: Sequence[Entry] | None, old: Sequence[Entry] | None) -> bool:
    """Whether two lists of entries differ in nothing but their times: such a write is no change."""
    return len(new or ()) == len(old or ()) and _timeless(new) == _timeless(old)


def _timeless(entries: Iterable[Entry] | None) -> list[Entry]:
    return [{k: v for k, v in entry.items() if k != "time"} for entry in entries or ()]
