"""Waiting until the devices of a pod are ready for its node, which their driver says in conditions of the claims."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dray.scheduler import devices
from dray.scheduler.ledger import Ledger
from dray.scheduler.pods import Pod

Document = Mapping[str, Any]
#: how often a pod that waits for its devices looks again by itself
_POLL = 5.0


class Readiness:
    """The pods that wait for their devices, each in the middle of its binding."""

    def __init__(self, ledger: Ledger, *, clock: Callable[[], float] = time.time) -> None:
        self._ledger = ledger
        self._clock = clock
        self._changed: dict[str, asyncio.Event] = {}  # by the pods that wait
        self._called_back: set[str] = set()  # those of them that need not wait any more

    async def wait(
        self, pod: Pod, bound: Sequence[Document], *, limit: float
    ) -> devices.Ready | devices.Failed:
        """Until every device is ready, or it is no use to wait any longer."""
        changed = self._changed[pod.uid] = asyncio.Event()
        try:
            while True:
                changed.clear()
                if pod.uid in self._called_back:
                    return devices.Failed("preempted by DefaultPreemption")
                state = self._state(bound, limit)
                if not isinstance(state, devices.Waiting):
                    return state
                try:
                    async with asyncio.timeout(_POLL):
                        await changed.wait()
                except TimeoutError:
                    continue
        finally:
            del self._changed[pod.uid]
            self._called_back.discard(pod.uid)

    def _state(
        self, bound: Sequence[Document], limit: float
    ) -> devices.Ready | devices.Waiting | devices.Failed:
        """Of all claims together: one that failed fails them all, one that waits makes the others wait."""
        together: devices.Ready | devices.Waiting = devices.Ready()
        for claim in bound:
            metadata = claim["metadata"]
            current = self._ledger.claim(metadata["namespace"], metadata["name"])
            if current is None:
                who = f"{metadata['namespace']}/{metadata['name']}"
                return devices.Failed(f'could not find ResourceClaim "{who}"')
            match devices.binding_state(current):
                case devices.Failed() as failed:
                    return failed
                case devices.Waiting() as waiting:
                    if devices.timed_out(current, limit, self._clock()):
                        return devices.Failed(f"device binding timeout: claim={metadata['name']}")
                    together = waiting
        return together

    def claims_changed(self) -> None:
        """Some claim changed: whoever waits for devices looks again."""
        for changed in self._changed.values():
            changed.set()

    def call_back(self, pod: Pod) -> bool:
        """Stop waiting for the devices of a pod. False: it does not wait."""
        waiting = self._changed.get(pod.uid)
        if waiting is None:
            return False
        self._called_back.add(pod.uid)
        waiting.set()
        return True
