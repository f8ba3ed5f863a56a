"""The rows of a live cluster: which there are, which have changed, and who is told.

Nothing is worked out while nobody looks. With a viewer, changes are gathered for a moment, and only the rows of what
they touched are made anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from dray.allocation import PoolID
from dray.allocation.devices import Device
from dray.api import pods
from dray.api.identity import ObjectKey
from dray.explain.devices.states import SHOWN, DeviceState, in_class
from dray.ui import rows
from dray.ui.cluster import LiveCluster, Touched
from dray.ui.history import Happening, Happenings, History
from dray.ui.transitions import claim_since, pod_since

if TYPE_CHECKING:
    from dray.ui.reasons import Reasons

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Changes come in bunches: how long they are gathered.
GATHER_SECONDS: Final = 0.15
_SAMPLE_SECONDS: Final = 5.0
#: How often viewers are told of changes that no row shows, such as the heartbeats of thousands of nodes.
_QUIET_SECONDS: Final = 1.0
_MODELS: Final = 40

encode: Final = msgspec.json.Encoder().encode
COLLECTIONS: Final = ("nodes", "pools", "classes", "claims", "pods", "slices")


@dataclass(slots=True)
class Update:
    """What has changed: of each collection the new rows and the keys of those that are gone."""

    rows: dict[str, dict[str, bytes | None]] = field(default_factory=dict)
    happenings: list[Happening] = field(default_factory=list)
    sample: tuple[float, ...] | None = None
    overview: bytes = b""
    revision: int = 0  # of the cluster, if it has changed at all; not every change is seen in a row

    def __bool__(self) -> bool:
        return bool(self.rows or self.happenings or self.sample or self.overview or self.revision)


class Totals:
    """Devices of the whole cluster by driver, class and model, kept up to date pool by pool."""

    def __init__(self) -> None:
        self.pools: dict[PoolID, rows.PoolCounts] = {}
        self.states: Counter[DeviceState] = Counter()
        self.drivers: dict[str, Counter[DeviceState]] = {}
        self.models: dict[str, Counter[DeviceState]] = {}
        self.classes: dict[str, Counter[DeviceState]] = {}

    def replace(self, id: PoolID, new: rows.PoolCounts | None) -> None:
        old = self.pools.pop(id, None)
        if old is not None:
            self._add(old, -1)
        if new is not None:
            self.pools[id] = new
            self._add(new, 1)

    def _add(self, counts: rows.PoolCounts, sign: int) -> None:
        for state, number in counts.states.items():
            self.states[state] += sign * number
            _change(self.drivers, counts.driver, state, sign * number)
        for (model, state), number in counts.models.items():
            _change(self.models, model, state, sign * number)
        for name, states in counts.classes.items():
            for state, number in states.items():
                _change(self.classes, name, state, sign * number)


def _change(table: dict[str, Counter[DeviceState]], key: str, state: DeviceState, change: int) -> None:
    counter = table.setdefault(key, Counter())
    counter[state] += change
    if not counter[state]:
        del counter[state]
        if not counter:
            del table[key]


class Board:
    """Every row of the cluster as it was last worked out."""

    def __init__(self, cluster: LiveCluster, *, clock: Callable[[], float] = time.time) -> None:
        self.cluster = cluster
        self.rows: dict[str, dict[str, bytes]] = {name: {} for name in COLLECTIONS}
        self.totals = Totals()
        self.happenings = Happenings()
        self.history = History(_SAMPLE_SECONDS)
        self.reasons: Reasons | None = None
        self.overview = encode(self._overview())
        self._selects: dict[str, Callable[[Device], bool]] = {}
        self._clock = clock
        self._begun = False
        self.revision = 0  # of the cluster, when viewers were last told that it has changed
        self._told = 0.0
        self._states: dict[tuple[str, str], str] = {}

    def refresh(self) -> Update:
        """Work out anew what was touched since the last time."""
        cluster, update = self.cluster, Update()
        touched = cluster.take_touched()
        if touched.classes:
            self._classes_changed(touched)
        _each(touched.pools, partial(self._pool, update))
        _each(touched.nodes, partial(self._simple, update, "nodes", cluster.nodes, rows.node_row))
        _each(touched.slices, partial(self._simple, update, "slices", cluster.slices, rows.slice_row))
        _each(touched.claims, partial(self._claim, update))
        _each(touched.pods, partial(self._pod, update))
        if touched.pools or touched.classes:
            names = cluster.classes.keys() | touched.classes if touched.pools else touched.classes
            _each(names, partial(self._class, update))
            overview = encode(self._overview())
            if overview != self.overview:
                self.overview = update.overview = overview
        if not self._begun:
            self._begun = True
            self.happenings.begin()
        update.happenings = self.happenings.take_fresh()
        update.sample = self.history.sample(self._clock(), self.totals.states)
        quiet = abs(self._clock() - self._told) < _QUIET_SECONDS
        if cluster.revision != self.revision and (update.rows or not quiet):
            self.revision = update.revision = cluster.revision
            self._told = self._clock()
        return update

    def _set(self, update: Update, collection: str, key: str, row: msgspec.Struct | None) -> None:
        known = self.rows[collection]
        if row is None:
            if known.pop(key, None) is not None:
                update.rows.setdefault(collection, {})[key] = None
            return
        data = encode(row)
        if known.get(key) != data:
            known[key] = data
            update.rows.setdefault(collection, {})[key] = data

    def _simple(
        self,
        update: Update,
        collection: str,
        documents: Mapping[str, Any],
        make: Callable[[str, Any], msgspec.Struct],
        name: str,
    ) -> None:
        document = documents.get(name)
        self._set(update, collection, name, None if document is None else make(name, document))

    # --- pools ---

    def _classes_changed(self, touched: Touched) -> None:
        _each(touched.classes, self._select)
        touched.pools.update(self.cluster.pools)

    def _select(self, name: str) -> None:
        self._selects.pop(name, None)
        if name in self.cluster.classes:
            self._selects[name] = in_class(self.cluster, name)

    def _class(self, update: Update, name: str) -> None:
        modern, classic = self.cluster.classes.get(name), self.cluster.resource_classes.get(name)
        row = None
        if modern is not None:
            row = rows.class_row(name, modern, self.totals.classes.get(name, {}))
        elif classic is not None:
            row = rows.resource_class_row(name, classic)
        self._set(update, "classes", name, row)

    def _pool(self, update: Update, id: PoolID) -> None:
        pool, name = self.cluster.pools.get(id), str(id)
        if pool is None:
            self.totals.replace(id, None)
            self._set(update, "pools", name, None)
            self._news("pool", name, "gone", f"pool {name} is gone", leaves=True)
            return
        views = list(self.cluster.devices(pool))
        counts = rows.count_pool(self.cluster, id, views, self._selects)
        self.totals.replace(id, counts)
        self._set(update, "pools", name, rows.pool_row(self.cluster, id, views))
        devices = f"{len(views)} device{'s' * (len(views) != 1)}"
        texts = {"": f"pool {name} offers {devices}"}
        state = counts.problem
        self._news("pool", name, state, texts.get(state, f"pool {name} is {state}: its devices are withheld"))
        for view in views:
            if view.state in (DeviceState.TAINTED, DeviceState.UNHEALTHY):
                state, text = (
                    f"{view.state.value}: {view.note}",
                    f"{view.id} is {view.state.value}: {view.note}",
                )
                self._news("device", str(view.id), state, text)
            elif ("device", str(view.id)) in self._states:
                self._news("device", str(view.id), "", f"{view.id} is {view.state.value} again", leaves=True)

    # --- claims and pods ---

    def _claim(self, update: Update, key: ObjectKey) -> None:
        claim, id = self.cluster.claims.get(key), str(key)
        if claim is None:
            self._set(update, "claims", id, None)
            self._news("claim", id, "gone", f"claim {id} is gone", leaves=True)
            return
        row = rows.claim_row(self.cluster, key, claim)
        self._set(update, "claims", id, row)
        text = f"claim {id} is {row.state}"
        if row.devices:
            text += f": {', '.join(row.devices[:3])}" + (
                f" and {len(row.devices) - 3} more" if len(row.devices) > 3 else ""
            )
        self._news("claim", id, row.state, text, since=claim_since(claim))

    def _pod(self, update: Update, key: ObjectKey) -> None:
        pod, id = self.cluster.pods.get(key), str(key)
        if pod is None or not rows.is_shown(pod):
            self._set(update, "pods", id, None)
            if pod is None:
                self._news("pod", id, "gone", f"pod {id} is gone", leaves=True)
            return
        explained = self.reasons.known(key) if self.reasons is not None else ""
        row = rows.pod_row(self.cluster, key, pod, explained)
        self._set(update, "pods", id, row)
        state = f"{row.phase} on {row.node}" if row.node else row.phase
        self._news("pod", id, state, f"pod {id} is {state}", since=pod_since(pod))

    def pending(self) -> Iterator[ObjectKey]:
        """The pods that wait for a node."""
        for key, pod in self.cluster.pods.items():
            if not pods.node_name(pod) and pods.is_active(pod):
                yield key

    def _news(
        self, kind: str, id: str, state: str, text: str, *, leaves: bool = False, since: float | None = None
    ) -> None:
        """``since``: when it came into this state by its own account, for what is there at the start."""
        if self._states.get((kind, id)) == state and not leaves:
            return
        known = self._states.pop((kind, id), None)
        if not leaves:
            self._states[kind, id] = state
        if leaves and known is None:
            return
        now = self._clock()
        if self._begun:
            self.happenings.note(kind, id, state, now, text=text)
        elif since is None:
            self.happenings.note(kind, id, state, now, before=True)
        else:
            self.happenings.note(kind, id, state, since, text=text)

    def _overview(self) -> dict[str, Any]:
        def table(counts: dict[str, Counter[DeviceState]], most: int = 1000) -> list[tuple[str, list[int]]]:
            largest = sorted(counts.items(), key=lambda one: (-one[1].total(), one[0]))[:most]
            return [(name, [states.get(state, 0) for state in SHOWN]) for name, states in largest]

        return {
            "states": [self.totals.states.get(state, 0) for state in SHOWN],
            "drivers": table(self.totals.drivers),
            "models": table(self.totals.models, _MODELS),
            "classes": table(
                {name: self.totals.classes.get(name, Counter()) for name in self.cluster.classes}
            ),
        }


def _each(keys: Iterable[T], work: Callable[[T], None]) -> None:
    """An object nobody has thought of keeps its last row, and the rows of all others are made."""
    for key in keys:
        try:
            work(key)
        except Exception:
            log.exception("the row of %s could not be worked out", key)


class Viewers:
    """Tells those who look of changes, and refreshes the board only while somebody does."""

    def __init__(self, board: Board, *, gather: float = GATHER_SECONDS) -> None:
        self.board = board
        self._gather = gather
        self._told: set[Callable[[Update], None]] = set()
        self.last_seen = time.monotonic()

    def __len__(self) -> int:
        return len(self._told)

    def join(self, tell: Callable[[Update], None]) -> None:
        self._told.add(tell)
        self.last_seen = time.monotonic()

    def leave(self, tell: Callable[[Update], None]) -> None:
        self._told.discard(tell)
        self.last_seen = time.monotonic()

    def publish(self) -> None:
        """Refresh, and tell everybody."""
        try:
            update = self.board.refresh()
        except Exception:  # a pool that cannot be built must not end the page for all others
            log.exception("rows could not be worked out")
            return
        if update:
            for tell in list(self._told):
                tell(update)

    async def run(self) -> None:
        """Publish while there are viewers; without any, once in a while for the history."""
        explained, sampled = -1, float("-inf")
        cluster = self.board.cluster
        while True:
            now = time.monotonic()
            due = now - sampled >= _SAMPLE_SECONDS
            changed = cluster.touched or cluster.revision != self.board.revision
            if (self._told and changed) or due:
                sampled = now if due else sampled
                self.publish()
            if self.board.reasons is not None and self._told and cluster.revision != explained:
                explained = cluster.revision
                self.board.reasons.want(self.board.pending())
            await asyncio.sleep(self._gather)
