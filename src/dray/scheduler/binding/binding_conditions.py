"""Waiting until the devices of a pod are ready for its node, as their driver reports in the status of the claims."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.pods import PodInfo
from dray.placement.plugins.binding_conditions import Failed, Ready, Waiting, binding_state, timed_out

if TYPE_CHECKING:
    from dray.api.types.resource import ResourceClaim

#: how often the claims of a waiting pod are checked even if no claim has changed
_POLL = 5.0


class BindingConditionsWaiter:
    """The pods that wait for binding conditions, each in the middle of its binding cycle."""

    def __init__(self, claim_cache: ClaimCache, *, clock: Callable[[], float] = time.time) -> None:
        self._claim_cache = claim_cache
        self._clock = clock
        self._changed: dict[str, asyncio.Event] = {}  # by the uid of the waiting pod
        self._cancelled: set[str] = set()  # uids of waiting pods that preemption has cancelled

    async def wait(self, pod: PodInfo, bound: Sequence[ResourceClaim], *, limit: float) -> Ready | Failed:
        """Until every device is ready, or a claim has failed, timed out or been deleted, or the pod is cancelled."""
        changed = self._changed[pod.uid] = asyncio.Event()
        try:
            while True:
                changed.clear()
                if pod.uid in self._cancelled:
                    return Failed("preempted by DefaultPreemption")
                state = self._state(bound, limit)
                if not isinstance(state, Waiting):
                    return state
                try:
                    async with asyncio.timeout(_POLL):
                        await changed.wait()
                except TimeoutError:
                    continue
        finally:
            del self._changed[pod.uid]
            self._cancelled.discard(pod.uid)

    def _state(self, bound: Sequence[ResourceClaim], limit: float) -> Ready | Waiting | Failed:
        """Of all claims together: one failed claim fails them all, and one waiting claim makes the others wait."""
        together: Ready | Waiting = Ready()
        for claim in bound:
            metadata = claim["metadata"]
            current = self._claim_cache.claim(metadata["namespace"], metadata["name"])
            if current is None:
                who = f"{metadata['namespace']}/{metadata['name']}"
                return Failed(f'could not find ResourceClaim "{who}"')
            match binding_state(current):
                case Failed() as failed:
                    return failed
                case Waiting() as waiting:
                    if timed_out(current, limit, self._clock()):
                        return Failed(f"device binding timeout: claim={metadata['name']}")
                    together = waiting
        return together

    def claims_changed(self) -> None:
        """Some claim has changed: every waiting pod checks its claims."""
        for changed in self._changed.values():
            changed.set()

    def cancel(self, pod: PodInfo) -> bool:
        """Let the binding of a waiting pod fail. False: the pod does not wait."""
        waiting = self._changed.get(pod.uid)
        if waiting is None:
            return False
        self._cancelled.add(pod.uid)
        waiting.set()
        return True
