"""What a controller is: informers that put keys into a queue, and a ``sync`` that makes one key right."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from dray.api.release import Gates
from dray.client.client import Client
from dray.client.events import EventRecorder
from dray.client.informers import Informers
from dray.client.queues import WorkQueue

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kit:
    """What a controller works with. ``client`` has the controller's own identity; informers are shared by all."""

    client: Client
    informers: Informers
    recorder: EventRecorder
    gates: Gates
    clock: Callable[[], float] = time.time


class Controller(Generic[Key]):
    """A queue of keys and workers that sync them.

    A subclass registers informer handlers in ``__init__`` which call ``enqueue``, and implements ``sync``. ``sync``
    returns None, or the seconds after which it wants the key again; when it raises, the key comes back after a pause.
    """

    name: ClassVar[str]
    workers: ClassVar[int] = 5

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.queue: WorkQueue[Key] = WorkQueue()

    def enqueue(self, key: Key) -> None:
        self.queue.add(key)

    async def sync(self, key: Key) -> float | None:
        raise NotImplementedError

    async def run(self) -> None:
        """Work until cancelled; the informers are synced."""
        await self.queue.run(self.sync, workers=self.workers)
