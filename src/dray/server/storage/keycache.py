"""All keys under a prefix as the store holds them, for records that are not API objects.

They may be older than the store's: whoever writes one says which revision it is based on, and learns the newer one if the
store refuses.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Final

from dray.store.interface import Event, KeyValue, Store, StoreError, Subscription

log = logging.getLogger(__name__)

_RELOAD_SECONDS: Final = 1.0


class KeyCache:
    def __init__(self, store: Store, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self._entries: dict[str, KeyValue] = {}
        self._subscription: Subscription | None = None
        self._reloading: asyncio.Task[None] | None = None

    async def load(self) -> None:
        page = await self._store.range(self._prefix)
        self._entries = {entry.key: entry for entry in page.entries}
        self._subscription = self._store.subscribe(
            self._prefix, self._deliver, after=page.revision, lost=self._lost
        )

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
        if self._reloading is not None:
            self._reloading.cancel()

    def _deliver(self, events: Sequence[Event]) -> None:
        for event in events:
            self.learn(event.key, event.entry)

    def _lost(self, error: StoreError) -> asyncio.Task[None] | None:
        log.warning("the records below %s lost their feed: %s", self._prefix, error)
        with contextlib.suppress(RuntimeError):
            self._reloading = asyncio.get_running_loop().create_task(self._reload())
        return self._reloading

    async def _reload(self) -> None:
        while True:
            try:
                return await self.load()
            except StoreError as e:
                log.warning("the records below %s cannot be read: %s", self._prefix, e)
                await asyncio.sleep(_RELOAD_SECONDS)

    def learn(self, key: str, entry: KeyValue | None) -> None:
        """Take over what a key holds."""
        if entry is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = entry

    def get(self, key: str) -> KeyValue | None:
        return self._entries.get(key)

    def revision(self, key: str) -> int:
        """What to expect of the key in a transaction."""
        entry = self._entries.get(key)
        return 0 if entry is None else entry.mod_revision

    def entries(self, prefix: str) -> Iterator[KeyValue]:
        return (entry for key, entry in sorted(self._entries.items()) if key.startswith(prefix))
