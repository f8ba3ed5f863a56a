"""A store that ends with the process: for tests, simulations and clusters that need not last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from dray.store.embedded import Decided, EmbeddedOptions, EmbeddedStore
from dray.store.interface import Event, KeyValue
from dray.store.state import State


class MemoryStore(EmbeddedStore):
    """Memory is as durable as this store gets, so a write is done when it is decided."""

    def __init__(self, **options: Unpack[EmbeddedOptions]) -> None:
        super().__init__(State(), **options)

    def _submit(self, key: str, value: bytes | None, previous: KeyValue | None, expires: float | None) -> int:
        revision = self._state.revision + 1
        self._publish([Event(revision, key, value, previous)], [expires])
        return revision

    def _submit_all(self, writes: Sequence[Decided]) -> int:
        first = self._state.revision + 1
        events = [Event(revision, *write) for revision, write in enumerate(writes, first)]
        self._publish(events, [None] * len(events))
        return self._state.revision
