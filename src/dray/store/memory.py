"""A store that lives and dies with the process: for tests, simulations and clusters that nobody will miss."""

from __future__ import annotations

import time
from collections.abc import Callable

from dray.store.embedded import EmbeddedStore, Write
from dray.store.fanout import LAG_LIMIT
from dray.store.interface import Event
from dray.store.state import State


class MemoryStore(EmbeddedStore):
    """Memory is as durable as this store gets, so a write is done when it is decided."""

    def __init__(self, *, clock: Callable[[], float] = time.time, lag_limit: int = LAG_LIMIT) -> None:
        super().__init__(State(), clock=clock, lag_limit=lag_limit)

    def _submit(self, write: Write) -> int:
        revision = self._state.revision + 1
        event = Event(revision, write.key, write.value, write.previous)
        self._publish([event], [write.expires])
        return revision
