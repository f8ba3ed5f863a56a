"""Carrying out a preemption: victims are deleted, or their binding is cancelled if they are not bound yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.api.errors import Conflict, NotFound
from dray.client.client import Client
from dray.client.resources import PODS
from dray.placement.cache.pods import PodInfo
from dray.placement.preemption import Candidate
from dray.scheduler.binding.binding_conditions import BindingConditionsWaiter
from dray.scheduler.events.pod_status import PodStatusWriter
from dray.scheduler.events.reporter import Reporter
from dray.scheduler.quirks import SchedulerQuirks

if TYPE_CHECKING:
    from dray.api.types.core import PodCondition
    from dray.api.types.scheduling_v1beta1 import PodGroup


class PreemptionExecutor:
    """Evicts the victims of preemption."""

    def __init__(
        self,
        client: Client,
        statuses: PodStatusWriter,
        reporter: Reporter,
        waiter: BindingConditionsWaiter,
        quirks: SchedulerQuirks,
    ) -> None:
        self._client = client
        self._statuses = statuses
        self._reporter = reporter
        self._waiter = waiter
        self._quirks = quirks

    async def preempt(
        self,
        pod: PodInfo,
        chosen: Candidate,
        *,
        scheduler: str,
        lower_nominated: Sequence[PodInfo] = (),
        for_devices: bool = False,
    ) -> None:
        """Report to the victims why they are preempted, then delete them.

        ``lower_nominated``: pods of lower priority that were nominated to the node. ``for_devices``: the claims of the
        victims are to come free, so the victims have to be deleted.
        """
        for other in lower_nominated:
            await self._reporter.clear_nominated_node_name(other)
        for victim in reversed(chosen.victims):
            if victim.terminating:
                continue
            text = f"Preempted by pod {pod.uid} on node {chosen.node}"
            if self._quirks.cancels_waiting_pods and not for_devices and self._waiter.cancel(victim):
                text += " (in kube-scheduler memory)."
            elif not await self._evict(victim, scheduler):
                continue
            self._reporter.preempted(victim, text, by=pod)

    async def preempt_for_group(self, group: PodGroup, chosen: Candidate, *, scheduler: str) -> None:
        """The same for a group of pods, which preempts in the whole cluster."""
        text = f"Preempted by podgroup {group['metadata']['uid']} on node {chosen.node}"
        for victim in reversed(chosen.victims):
            if not victim.terminating and await self._evict(victim, scheduler, "podgroup"):
                self._reporter.preempted_by_group(victim, text, by=group)

    async def _evict(self, victim: PodInfo, scheduler: str, preemptor: str = "pod") -> bool:
        """False: the victim is deleted already."""
        condition: PodCondition = {
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": f"{scheduler}: preempting to accommodate a higher priority {preemptor}",
        }  # fmt: skip
        try:
            updated = self._statuses.condition(victim, condition)
            if updated is not None:
                await self._statuses.patch(victim, {"conditions": [updated]})
            await self._client.delete(PODS, victim.namespace, victim.name, uid=victim.uid)
        except (NotFound, Conflict):
            return False
        return True
