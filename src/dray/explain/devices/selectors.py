"""What a selector reads, and which values devices have there.

A selector that is a conjunction is split into its conditions, so that the one that fails can be shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

from dray.allocation import Features
from dray.allocation.devices import Device
from dray.allocation.selectors import expression
from dray.cel import CompileError
from dray.cel.environment.devices import split_name
from dray.explain.devices.equivalence import DeviceGroups, EquivalentDevices, evaluate_selector
from dray.explain.devices.states import compiled, value_of

if TYPE_CHECKING:
    from dray.explain.model.documents import SelectorAttributeDocument, SelectorConditionDocument

Table = Literal["attributes", "capacity"]

_VALUES_SHOWN = 5
_LITERAL = re.compile(r"""(?<![\w\]])(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')(?!\s*\])""")


@dataclass(frozen=True, slots=True)
class SelectorAttribute:
    """One attribute or capacity that a selector reads, and the values that devices have."""

    name: str  # domain/name
    table: str  # attributes, capacity, or driver
    values: tuple[tuple[str, int], ...]  # what devices have, most frequent first
    others: int  # devices with values beyond those
    missing: int  # devices that do not have it
    suggestion: str = ""  # a name or value that may have been meant

    def as_document(self) -> SelectorAttributeDocument:
        return {
            "name": self.name,
            "table": self.table,
            "values": [{"value": value, "devices": count} for value, count in self.values],
            "otherDevices": self.others,
            "missing": self.missing,
            "suggestion": self.suggestion,
        }


@dataclass(frozen=True, slots=True)
class SelectorCondition:
    """One condition of a selector, and on how many devices it is true."""

    source: str
    true: int
    false: int
    error: str = ""  # what it fails with on some device
    failing: str = ""  # that device

    def as_document(self) -> SelectorConditionDocument:
        return {"source": self.source, "true": self.true, "false": self.false, "error": self.error}


def group_devices(source: str, devices: Iterable[Device], features: Features) -> list[EquivalentDevices]:
    """Devices grouped by all that a selector sees of them."""
    groups = DeviceGroups([expression(source, features)], features)
    for device in devices:
        groups.add(device)
    return groups.groups()


def selector_conditions(
    source: str, devices: Sequence[EquivalentDevices], features: Features
) -> tuple[SelectorCondition, ...]:
    """The parts of a conjunction; a selector that is none is its only part."""
    parts = split_conjunction(source)
    found = []
    for part in parts:
        asked = expression(part, features)
        true = false = 0
        error = failing = ""
        for device, count in devices:
            verdict = evaluate_selector(asked, device)
            if verdict is True:
                true += count
            elif verdict is False:
                false += count
            elif not error:
                error, failing = verdict, str(device.id)
        found.append(SelectorCondition(part, true, false, error, failing))
    return tuple(found)


def split_conjunction(source: str) -> list[str]:
    """The operands of a top-level ``&&``."""
    parts, depth, start, quote, position = [], 0, 0, "", 0
    while position < len(source):
        char = source[position]
        if quote:
            if char == "\\":
                position += 1
            elif char == quote:
                quote = ""
        elif char in "\"'":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif not depth and (source.startswith("||", position) or char == "?"):
            return [source.strip()]
        elif not depth and source.startswith("&&", position):
            parts.append(source[start:position].strip())
            start = position + 2
            position += 1
        position += 1
    parts.append(source[start:].strip())
    return [part for part in parts if part]


def selector_attributes(
    source: str,
    devices: Sequence[EquivalentDevices],
    features: Features,
    *,
    known: Callable[[], Iterable[Device]] = tuple,
) -> tuple[SelectorAttribute, ...]:
    """What a selector reads by name, in the order of the names. ``known`` devices help to guess what was meant."""
    try:
        reads = compiled(source, features).reads
    except CompileError:
        return ()
    if reads is None:
        return ()
    found = [
        _selector_attribute(source, "attributes", *name, devices, known) for name in sorted(reads.attributes)
    ]
    found += [
        _selector_attribute(source, "capacity", *name, devices, known) for name in sorted(reads.capacity)
    ]
    if reads.driver:
        drivers: Counter[str] = Counter()
        for device, count in devices:
            drivers[device.id.driver] += count
        found.insert(
            0, SelectorAttribute("device.driver", "driver", tuple(drivers.most_common(_VALUES_SHOWN)), 0, 0)
        )
    return tuple(found)


def _selector_attribute(
    source: str,
    table: Table,
    domain: str,
    name: str,
    devices: Sequence[EquivalentDevices],
    known: Callable[[], Iterable[Device]],
) -> SelectorAttribute:
    counts: Counter[str] = Counter()
    missing = 0
    for device, count in devices:
        value = _value(device, table, domain, name)
        if value is None:
            missing += count
        else:
            counts[value] += count
    top = counts.most_common(_VALUES_SHOWN)
    rest = sum(counts.values()) - sum(count for _, count in top)
    suggestion = ""
    if not counts:
        suggestion = _similar_name(table, domain, name, list(known()))
    elif table == "attributes":
        suggestion = _similar_value(source, counts)
    return SelectorAttribute(f"{domain}/{name}", table, tuple(top), rest, missing, suggestion)


def _value(device: Device, table: Table, domain: str, name: str) -> str | None:
    """The value of an attribute or of a capacity as text; None if the device does not have it."""
    full, own = f"{domain}/{name}", domain == device.id.driver
    if table == "capacity":
        capacities = device.document.get("capacity") or {}
        capacity = capacities.get(full)
        if capacity is None and own:
            capacity = capacities.get(name)
        return None if capacity is None else format_value(capacity.get("value"))
    attributes = device.document.get("attributes") or {}
    attribute = attributes.get(full)
    if attribute is None and own:
        attribute = attributes.get(name)
    return None if attribute is None else format_value(value_of(attribute))


def format_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def names_of(table: Table, devices: Iterable[Device]) -> Iterator[tuple[str, str]]:
    """Domain and name of everything the devices have, without repetition."""
    mixtures = {(device.id.driver, *(device.document.get(table) or ())): None for device in devices}
    seen = {split_name(name, driver): None for driver, *names in mixtures for name in names}
    yield from seen


def _similar_name(table: Table, domain: str, name: str, devices: Sequence[Device]) -> str:
    """A name that devices have and that looks like the one asked for."""
    there = list(names_of(table, devices))
    if same := [d for d, n in there if n == name]:
        return f"{same[0]}/{name}"
    lowered = {n.lower(): (d, n) for d, n in there}
    close = get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    if close:
        return "/".join(lowered[close[0]])
    other: Table = "capacity" if table == "attributes" else "attributes"
    if any(n == name for _, n in names_of(other, devices)):
        return f"{name} is there as {'a capacity' if other == 'capacity' else 'an attribute'}"
    return ""


def _similar_value(source: str, counts: Counter[str]) -> str:
    """A value that devices have and that looks like one the selector names."""
    lowered = {value.lower(): value for value in counts}
    for found in _LITERAL.finditer(source):
        literal = found[1] if found[1] is not None else found[2]
        if literal in counts or not literal:
            continue
        close = get_close_matches(literal.lower(), lowered, n=1, cutoff=0.6)
        if close:
            return f'"{lowered[close[0]]}" (the selector says "{literal}")'
    return ""
