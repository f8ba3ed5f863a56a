"""Waiting until the devices of a pod are ready for its node, which their driver says in conditions of the claims."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.pods import PodInfo
from dray.placement.plugins import dynamic_resources

Document = Mapping[str, Any]
#: how often a pod that waits for its devices looks again by itself
_POLL = 5.0


class BindingConditionsWaiter:
    """The pods that wait for their devices, each in the middle of its binding."""

    def __init__(self, claim_cache: ClaimCache, *, clock: Callable[[], float] = time.time) -> None:
        self._claim_cache = claim_cache
        self._clock = clock
        self._changed: dict[str, asyncio.Event] = {}  # by the pods that wait
        self._cancelled: set[str] = set()  # those of them that need not wait any more

    async def wait(
        self, pod: PodInfo, bound: Sequence[Document], *, limit: float
    ) -> dynamic_resources.Ready | dynamic_resources.Failed:
        """Until every device is ready, or it is no use to wait any longer."""
        changed = self._changed[pod.uid] = asyncio.Event()
        try:
            while True:
                changed.clear()
                if pod.uid in self._cancelled:
                    return dynamic_resources.Failed("preempted by DefaultPreemption")
                state = self._state(bound, limit)
                if not isinstance(state, dynamic_resources.Waiting):
                    return state
                try:
                    async with asyncio.timeout(_POLL):
                        await changed.wait()
                except TimeoutError:
                    continue
        finally:
            del self._changed[pod.uid]
            self._cancelled.discard(pod.uid)

    def _state(
        self, bound: Sequence[Document], limit: float
    ) -> dynamic_resources.Ready | dynamic_resources.Waiting | dynamic_resources.Failed:
        """Of all claims together: one that failed fails them all, one that waits makes the others wait."""
        together: dynamic_resources.Ready | dynamic_resources.Waiting = dynamic_resources.Ready()
        for claim in bound:
            metadata = claim["metadata"]
            current = self._claim_cache.claim(metadata["namespace"], metadata["name"])
            if current is None:
                who = f"{metadata['namespace']}/{metadata['name']}"
                return dynamic_resources.Failed(f'could not find ResourceClaim "{who}"')
            match dynamic_resources.binding_state(current):
                case dynamic_resources.Failed() as failed:
                    return failed
                case dynamic_resources.Waiting() as waiting:
                    if dynamic_resources.timed_out(current, limit, self._clock()):
                        return dynamic_resources.Failed(f"device binding timeout: claim={metadata['name']}")
                    together = waiting
        return together

    def claims_changed(self) -> None:
        """Some claim changed: whoever waits for devices looks again."""
        for changed in self._changed.values():
            changed.set()

    def cancel(self, pod: PodInfo) -> bool:
        """Stop waiting for the devices of a pod. False: it does not wait."""
        waiting = self._changed.get(pod.uid)
        if waiting is None:
            return False
        self._cancelled.add(pod.uid)
        waiting.set()
        return True
