"""Every device of a cluster and the state it is in: free, taken by whom, shared, tainted, unhealthy, blocked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, cast

from dray.allocation import DeviceID, Features, counters
from dray.allocation.devices import Device
from dray.allocation.pools import Pool
from dray.allocation.selectors import Expression, expression
from dray.allocation.usage import PoolUsage
from dray.api.identity import ObjectKey
from dray.api.quantity import Quantity
from dray.cel import CompileError
from dray.cel.environment.devices import Selector, compile
from dray.explain.devices.health import unhealthy
from dray.explain.model.cluster import Cluster

if TYPE_CHECKING:
    from dray.api.types import resource
    from dray.explain.model.documents import DeviceDocument, StateCounts, SummaryDocument

_LARGE = re.compile(r"(?<![\w.])\d{7,}(?![\w.])")


class DeviceState(Enum):
    """The state of a device in one word; where several apply, the first one counts."""

    UNHEALTHY = "unhealthy"
    ALLOCATED = "allocated"
    SHARED = "shared"
    TAINTED = "tainted"
    BLOCKED = "blocked"
    WITHHELD = "withheld"
    FREE = "free"

    @property
    def colour(self) -> str:
        """The colour of the state, wherever states are shown."""
        return _COLOURS[self]


#: Also the order in which states are shown.
_COLOURS = {
    DeviceState.FREE: "green",
    DeviceState.ALLOCATED: "blue",
    DeviceState.SHARED: "cyan",
    DeviceState.TAINTED: "yellow",
    DeviceState.UNHEALTHY: "red",
    DeviceState.BLOCKED: "magenta",
    DeviceState.WITHHELD: "red",
}
SHOWN: tuple[DeviceState, ...] = tuple(_COLOURS)


@dataclass(frozen=True, slots=True)
class Holder:
    """A claim that has a device, and the pods it is reserved for."""

    claim: ObjectKey
    pods: tuple[ObjectKey, ...]

    def __str__(self) -> str:
        return f"{self.claim} ({', '.join(map(str, self.pods))})" if self.pods else str(self.claim)


@dataclass(frozen=True, slots=True)
class DeviceView:
    id: DeviceID
    node: str  # its name, "all nodes", or "selected nodes"
    state: DeviceState
    holders: tuple[Holder, ...]
    note: str  # the taint, what is left, why it is blocked …
    document: resource.Device = field(repr=False)

    @property
    def attributes(self) -> dict[str, object]:
        return {name: value_of(value) for name, value in (self.document.get("attributes") or {}).items()}

    @property
    def capacity(self) -> dict[str, str]:
        return {name: str(one.get("value")) for name, one in (self.document.get("capacity") or {}).items()}

    @property
    def taints(self) -> list[str]:
        return list(map(taint_text, self.document.get("taints") or ()))

    def as_document(self) -> DeviceDocument:
        return {
            "driver": self.id.driver,
            "pool": self.id.pool,
            "device": self.id.device,
            "node": self.node,
            "state": self.state.value,
            "claims": [
                {"claim": str(holder.claim), "pods": [str(pod) for pod in holder.pods]}
                for holder in self.holders
            ],
            "note": self.note,
            "attributes": self.attributes,
            "capacity": self.capacity,
            "taints": self.taints,
        }


Wanted = Callable[[Device], bool]


def list_devices(cluster: Cluster, *, wanted: Iterable[Wanted] = ()) -> Iterator[DeviceView]:
    """The devices of all pools that pass every test, pool by pool."""
    tests = tuple(wanted)
    health = unhealthy(cluster)
    for id in sorted(cluster.pools):
        yield from devices_of_pool(cluster, cluster.pools[id], health, wanted=tests)


def devices_of_pool(
    cluster: Cluster, pool: Pool, health: Mapping[DeviceID, str], *, wanted: Iterable[Wanted] = ()
) -> Iterator[DeviceView]:
    """The devices of a pool that pass every test; ``health`` says what is wrong with those that are unhealthy."""
    tests = tuple(wanted)
    part = cluster.usage.of(pool.id)
    for device in pool.devices or pool.withheld:
        if all(test(device) for test in tests):
            yield _device_view(cluster, pool, part, device, health.get(device.id, ""))


def selected_by(source: str, features: Features) -> Wanted:
    """Whether a device matches an expression; one on which it fails does not. Raises CompileError."""
    compiled(source, features)
    return _test(expression(source, features))


def compiled(source: str, features: Features) -> Selector:
    """A selector as a stored object may have it. Raises CompileError."""
    return compile(
        source,
        list_attributes=features.list_attributes,
        consumable_capacity=features.consumable_capacity,
        stored=True,
    )


def in_class(cluster: Cluster, name: str) -> Wanted:
    """Whether a class selects a device."""
    spec = (cluster.classes[name].get("spec") or {}) if name in cluster.classes else {}
    sources = [(one.get("cel") or {}).get("expression") or "" for one in spec.get("selectors") or ()]
    tests = [_test(expression(source, cluster.features)) for source in sources]
    if len(tests) == 1:
        return tests[0]
    return lambda device: all(test(device) for test in tests)


def selected(cluster: Cluster, request: resource.ExactDeviceRequest) -> Wanted:
    """Whether class and selectors of a request select a device."""
    sources = [(one.get("cel") or {}).get("expression") or "" for one in request.get("selectors") or ()]
    tests = [_test(expression(source, cluster.features)) for source in sources]
    of_class = in_class(cluster, request.get("deviceClassName") or "")
    return lambda device: of_class(device) and all(test(device) for test in tests)


def _test(selector: Expression) -> Wanted:
    """Whether an expression is true on a device, evaluated once for devices that look the same to it."""
    known: dict[Hashable, bool] = {}

    def selects(device: Device) -> bool:
        fingerprint = selector.fingerprint(device.id.driver, device.document)
        verdict = known.get(fingerprint) if fingerprint is not None else None
        if verdict is None:
            try:
                verdict = device.shape.verdict(selector) is True
            except CompileError:
                verdict = False
            if fingerprint is not None:
                known[fingerprint] = verdict
        return verdict

    return selects


@dataclass(frozen=True, slots=True)
class Summary:
    """How many devices there are under one heading, by state."""

    name: str
    total: int
    states: Mapping[DeviceState, int]

    def as_document(self) -> SummaryDocument:
        counts = cast("StateCounts", {state.value: count for state, count in self.states.items()})
        return {"name": self.name, "total": self.total, **counts}


def summaries(groups: Iterable[tuple[str, DeviceState]]) -> list[Summary]:
    counts: dict[str, Counter[DeviceState]] = {}
    for name, state in groups:
        counts.setdefault(name, Counter())[state] += 1
    return [Summary(name, found.total(), found) for name, found in sorted(counts.items())]


def by_class(cluster: Cluster, views: Iterable[DeviceView]) -> list[Summary]:
    """A device may be in several classes, or in none."""
    states = {view.id: view.state for view in views}
    found: list[tuple[str, DeviceState]] = []
    for name in cluster.classes:
        selects = in_class(cluster, name)
        found += [
            (name, states[device.id])
            for pool in cluster.pools.values()
            for device in pool.devices or pool.withheld
            if device.id in states and selects(device)
        ]
    return summaries(found)


def location(device: Device) -> str:
    selection = device.available_on
    if selection.name:
        return selection.name
    return "all nodes" if selection.every else "selected nodes"


def value_of(attribute: resource.DeviceAttribute) -> object:
    """The value of an attribute, whatever its type."""
    return next(iter(attribute.values()), None)


def taint_text(taint: resource.DeviceTaint) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"


def amount(nano: int) -> str:
    return readable(str(Quantity(nano, -9).reduced()))


def readable(text: str) -> str:
    """Text in which large round numbers, mostly of bytes, are as people write them."""
    return _LARGE.sub(lambda found: _binary(int(found[0])), text)


def _binary(number: int) -> str:
    for unit, size in (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20)):
        if number % size == 0:
            return f"{number // size}{unit}"
    return str(number)


def _device_view(cluster: Cluster, pool: Pool, part: PoolUsage, device: Device, health: str) -> DeviceView:
    holders: tuple[Holder, ...] = ()
    if part.touches(device.name):
        holders = tuple(Holder(claim, cluster.users_of(claim)) for claim in cluster.owners(device.id))
    state, note = _state(cluster, pool, part, device, health)
    return DeviceView(device.id, location(device), state, holders, note, device.document)


def _state(
    cluster: Cluster, pool: Pool, part: PoolUsage, device: Device, health: str
) -> tuple[DeviceState, str]:
    if health:
        return DeviceState.UNHEALTHY, health
    if device.name in part.taken:
        return DeviceState.ALLOCATED, ""
    if part.touches(device.name):
        return DeviceState.SHARED, _left(device, part)
    if pool.incomplete:
        return DeviceState.WITHHELD, "pool incomplete: slices are missing"
    if pool.invalid:
        return DeviceState.WITHHELD, f"pool invalid: {pool.invalid}"
    if device.taints and cluster.features.device_taints:
        return DeviceState.TAINTED, ", ".join(map(taint_text, device.taints))
    if device.consumes_counters and (short := shortage(cluster, pool, device)):
        return DeviceState.BLOCKED, short
    return DeviceState.FREE, ""


def _left(device: Device, part: PoolUsage) -> str:
    consumed = part.consumed.get(device.name) or {}
    parts = []
    for name, capacity in (device.document.get("capacity") or {}).items():
        total = Quantity.from_json(capacity["value"]).nano
        parts.append(f"{name}: {amount(total - consumed.get(name, 0))} of {amount(total)} left")
    return ", ".join(parts)


def shortage(cluster: Cluster, pool: Pool, device: Device) -> str:
    """Which counter has too little left for a device; empty if none."""
    left = counters.available(pool, cluster.usage).left
    for counter, needed in counters.consumed_counters(device):
        if left.get(counter, 0) < needed:
            return (
                f"counter {'/'.join(counter)}: {amount(needed)} needed, {amount(left.get(counter, 0))} left"
            )
    return ""
