"""The scheduler's writes to the API server, wired together."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dray.client.client import Client
from dray.placement.cache.claims import ClaimCache
from dray.scheduler.binding.binder import Binder, NominatedNodePolicy
from dray.scheduler.binding.binding_conditions import BindingConditionsWaiter
from dray.scheduler.binding.claim_binding import ClaimBinders
from dray.scheduler.binding.device_claims import DeviceClaimBinders
from dray.scheduler.events.pod_status import PodStatusWriter
from dray.scheduler.events.recorders import Recorder
from dray.scheduler.events.reporter import Reporter
from dray.scheduler.metrics import Metrics
from dray.scheduler.preemption import PreemptionExecutor
from dray.scheduler.quirks import SchedulerQuirks

if TYPE_CHECKING:
    from dray.scheduler.classic.generation import ClassicGeneration


@dataclass(frozen=True, slots=True)
class Writers:
    """Everything that writes."""

    binder: Binder
    claims: ClaimBinders
    reporter: Reporter
    preemption: PreemptionExecutor
    waiter: BindingConditionsWaiter


def build_writers(
    client: Client,
    claim_cache: ClaimCache,
    recorder: Recorder,
    quirks: SchedulerQuirks,
    *,
    nominates_before_every_bind: bool,
    metrics: Metrics,
    classic: ClassicGeneration | None = None,
    clock: Callable[[], float] = time.time,
) -> Writers:
    statuses = PodStatusWriter(client, quirks, clock=clock)
    reporter = Reporter(recorder, statuses, quirks)
    waiter = BindingConditionsWaiter(claim_cache, clock=clock)
    devices = DeviceClaimBinders(
        client, claim_cache, statuses, reporter, waiter, quirks, metrics=metrics, clock=clock
    )
    nominate = NominatedNodePolicy.NEVER
    if quirks.nominates_expected_node:
        nominate = (
            NominatedNodePolicy.ALWAYS if nominates_before_every_bind else NominatedNodePolicy.WHEN_WAITING
        )
    return Writers(
        binder=Binder(client, reporter, nominate=nominate),
        claims=devices if classic is None else classic.binders(devices),
        reporter=reporter,
        preemption=PreemptionExecutor(client, statuses, reporter, waiter, quirks),
        waiter=waiter,
    )
