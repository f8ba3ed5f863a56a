"""Making room for a pod: those that have to go are told why, then deleted, or called back if they are not there yet."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.errors import Conflict, NotFound
from dray.client.client import Client
from dray.client.resources import PODS
from dray.scheduler.pods import Pod
from dray.scheduler.preemption import Preempt
from dray.scheduler.readiness import Readiness
from dray.scheduler.statuses import PodStatuses
from dray.scheduler.telling import Telling


class Evictions:
    """``calls_back``: a pod that still waits for its devices need not go, it only loses its place."""

    def __init__(
        self,
        client: Client,
        statuses: PodStatuses,
        telling: Telling,
        readiness: Readiness,
        *,
        calls_back: bool = True,
    ) -> None:
        self._client = client
        self._statuses = statuses
        self._telling = telling
        self._readiness = readiness
        self._calls_back = calls_back

    async def preempt(
        self,
        pod: Pod,
        chosen: Preempt,
        *,
        scheduler: str,
        displaced: Sequence[Pod] = (),
        for_devices: bool = False,
    ) -> None:
        """Evict the victims: tell them why, then delete them.

        ``displaced``: less important pods that were promised room on the node, which they will not find there.
        ``for_devices``: what the victims' claims have is to come free, as it does when they are gone.
        """
        for other in displaced:
            await self._telling.withdraw(other)
        for victim in reversed(chosen.victims):
            if victim.terminating:
                continue
            text = f"Preempted by pod {pod.uid} on node {chosen.node}"
            if self._calls_back and not for_devices and self._readiness.call_back(victim):
                text += " (in kube-scheduler memory)."
            elif not await self._evict(victim, scheduler):
                continue
            self._telling.preempted(victim, text, by=pod)

    async def _evict(self, victim: Pod, scheduler: str) -> bool:
        """False: it has gone already."""
        condition = {
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": f"{scheduler}: preempting to accommodate a higher priority pod",
        }  # fmt: skip
        try:
            updated = self._statuses.condition(victim, condition)
            if updated is not None:
                await self._statuses.patch(victim, {"conditions": [updated]})
            await self._client.delete(PODS, victim.namespace, victim.name, uid=victim.uid)
        except (NotFound, Conflict):
            return False
        return True
