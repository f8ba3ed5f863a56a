"""The cluster's devices, claims and pods as metrics for Prometheus.

Labels that can have many values, such as nodes, are bounded: what is beyond the bound is summed up under ``(others)``.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from dray.api import claims as resource_claims
from dray.api import pods
from dray.api.groups.resource.printers import claim_state
from dray.api.times import to_epoch
from dray.explain.devices.states import SHOWN
from dray.metrics.registry import Labels, Reading, Registry
from dray.ui import rows
from dray.ui.board import Board

if TYPE_CHECKING:
    pass

OTHERS: Final = "(others)"
#: Nodes, drivers, classes and capacities with series of their own.
_NODES: Final = 1000
_NAMES: Final = 100
_CLAIMS: Final = 50
_NANO: Final = 1e9


class Metrics:
    """Reads the board when it is asked; the board is refreshed first."""

    def __init__(self, board: Board, *, clock: Callable[[], float] = time.time) -> None:
        self._board = board
        self._clock = clock
        registry = self.registry = Registry()
        registry.gauge("dray_devices", "Devices, by driver and state.", "driver", "state", read=self._drivers)
        registry.gauge(
            "dray_class_devices",
            "Devices that a DeviceClass selects, by state; a device may be in several classes.",
            "class", "state", read=self._classes,
        )  # fmt: skip
        registry.gauge(
            "dray_node_devices",
            "Devices of a node, by driver and state.",
            "node",
            "driver",
            "state",
            read=self._nodes,
        )
        registry.gauge(
            "dray_capacity_available", "Capacity of all devices, in the unit of the driver.",
            "driver", "capacity", read=lambda: self._amounts(lambda one: one.capacity),
        )  # fmt: skip
        registry.gauge(
            "dray_capacity_used", "Capacity that claims have, of shared devices or with a device as a whole.",
            "driver", "capacity", read=lambda: self._amounts(lambda one: one.consumed),
        )  # fmt: skip
        registry.gauge(
            "dray_shared_counters_available", "Shared counters of all pools, in the unit of the driver.",
            "driver", "name", read=lambda: self._amounts(lambda one: one.counters),
        )  # fmt: skip
        registry.gauge(
            "dray_shared_counters_used", "Shared counters that allocated devices consume.",
            "driver", "name", read=lambda: self._amounts(lambda one: one.counters_used),
        )  # fmt: skip
        registry.gauge("dray_claims", "ResourceClaims, by state.", "state", read=self._claims)
        registry.gauge(
            "dray_claim_pending_seconds",
            "Time since a claim was created that is not allocated, for the 50 oldest.",
            "namespace", "claim", read=self._pending_claims,
        )  # fmt: skip
        registry.gauge(
            "dray_pods_pending", "Pods that do not run yet and have claims or no node, by cause.",
            "cause", read=self._pending_pods,
        )  # fmt: skip
        registry.gauge("dray_slices", "ResourceSlices, by driver.", "driver", read=self._slices)
        registry.gauge(
            "dray_pools", "Pools of devices, by driver and whether all their slices are there.",
            "driver", "state", read=self._pools,
        )  # fmt: skip
        registry.gauge(
            "dray_unreadable_kinds", "Kinds that may not be read, or in one namespace only: 1 for each.",
            "kind", read=lambda: [((kind,), 1) for kind in board.cluster.snapshot.unread],
        )  # fmt: skip

    def text(self) -> str:
        self._board.refresh()
        return self.registry.text()

    def _drivers(self) -> Reading:
        found = {(driver,): states for driver, states in self._board.totals.drivers.items()}
        for (driver,), states in _bounded(found, _NAMES, (OTHERS,)):
            for state in SHOWN:
                yield (driver, state.value), states.get(state, 0)

    def _classes(self) -> Reading:
        classes = self._board.totals.classes
        found = {(name,): classes.get(name, Counter()) for name in self._board.cluster.classes}
        for (name,), states in _bounded(found, _NAMES, (OTHERS,)):
            for state in SHOWN:
                yield (name, state.value), states.get(state, 0)

    def _nodes(self) -> Reading:
        found: dict[tuple[str, str], Counter[object]] = {}
        for counts in self._board.totals.pools.values():
            for (node, state), number in counts.nodes.items():
                found.setdefault((node, counts.driver), Counter())[state] += number
        for (node, driver), states in _bounded(found, _NODES, (OTHERS, OTHERS)):
            for state in SHOWN:
                if states.get(state):
                    yield (node, driver, state.value), states[state]

    def _amounts(self, part: Callable[[rows.PoolCounts], Counter[str]]) -> Reading:
        found: dict[tuple[str, str], Counter[str]] = {}
        for counts in self._board.totals.pools.values():
            for name, amount in part(counts).items():
                found.setdefault((counts.driver, name), Counter())[""] += amount
        for key, amounts in _bounded(found, _NAMES, (OTHERS, OTHERS)):
            yield key, amounts[""] / _NANO

    def _claims(self) -> Reading:
        found = Counter(_state(claim_state(claim)) for claim in self._board.cluster.claims.values())
        for state in ("pending", "allocated", "reserved", "deleting"):
            yield (state,), found[state]

    def _pending_claims(self) -> Reading:
        now = self._clock()
        waiting = (
            (created, key)
            for key, claim in self._board.cluster.claims.items()
            if resource_claims.allocation(claim) is None
            and (created := claim["metadata"].get("creationTimestamp"))
            and not claim["metadata"].get("deletionTimestamp")
        )
        for created, key in heapq.nsmallest(_CLAIMS, waiting):
            yield (key.namespace, key.name), max(0.0, round(now - to_epoch(created), 3))

    def _pending_pods(self) -> Reading:
        cluster = self._board.cluster
        causes: Counter[str] = Counter()
        for key, pod in cluster.pods.items():
            if pods.phase(pod) == "Pending" and rows.is_shown(pod):
                causes[rows.pending_cause(cluster, key, pod)[0]] += 1
        for cause in rows.CAUSES:
            yield (cause,), causes[cause]

    def _slices(self) -> Reading:
        found: dict[tuple[str], Counter[str]] = {}
        for document in self._board.cluster.slices.values():
            found.setdefault((document["spec"]["driver"],), Counter())[""] += 1
        for key, counts in _bounded(found, _NAMES, (OTHERS,)):
            yield key, counts[""]

    def _pools(self) -> Reading:
        found: dict[tuple[str], Counter[str]] = {}
        for counts in self._board.totals.pools.values():
            found.setdefault((counts.driver,), Counter())[counts.problem or "complete"] += 1
        for (driver,), states in _bounded(found, _NAMES, (OTHERS,)):
            for state in ("complete", "incomplete", "invalid"):
                yield (driver, state), states.get(state, 0)


def _state(words: str) -> str:
    """One word for kubectl's several."""
    first, _, rest = words.partition(",")
    return "deleting" if first == "deleted" else rest or first


def _bounded(found: dict, most: int, others: Labels) -> Iterator[tuple[Labels, Counter]]:  # type: ignore[type-arg]
    """The series with the most in them; all others as one."""
    if len(found) <= most:
        yield from sorted(found.items())
        return
    ranked = sorted(found.items(), key=lambda one: (-one[1].total(), one[0]))
    yield from sorted(ranked[:most])
    yield others, _sum(states for _, states in ranked[most:])


def _sum(several: Iterable[Counter]) -> Counter:  # type: ignore[type-arg]
    total: Counter = Counter()  # type: ignore[type-arg]
    for one in several:
        total.update(one)
    return total
