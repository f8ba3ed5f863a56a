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
from dray.scheduler.events.reporter import Recorder, Reporter
from dray.scheduler.metrics import Metrics
from dray.scheduler.preemption import PreemptionExecutor

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
    *,
    binding_conditions: bool,
    nominate: NominatedNodePolicy,
    metrics: Metrics,
    classic: ClassicGeneration | None = None,
    observes_generation: bool = True,
    names_preemptor: bool = True,
    cancels_waiting_pods: bool = True,
    dates_all: bool = False,
    clock: Callable[[], float] = time.time,
) -> Writers:
    """The options are explained where they are used, in the class that is given them."""
    statuses = PodStatusWriter(client, observes_generation=observes_generation, clock=clock)
    reporter = Reporter(recorder, statuses, names_preemptor=names_preemptor)
    waiter = BindingConditionsWaiter(claim_cache, clock=clock)
    devices = DeviceClaimBinders(
        client,
        claim_cache,
        statuses,
        reporter,
        waiter,
        binding_conditions=binding_conditions,
        metrics=metrics,
        dates_all=dates_all,
        clock=clock,
    )
    return Writers(
        binder=Binder(client, reporter, nominate=nominate),
        claims=devices if classic is None else classic.binders(devices),
        reporter=reporter,
        preemption=PreemptionExecutor(
            client, statuses, reporter, waiter, cancels_waiting_pods=cancels_waiting_pods
        ),
        waiter=waiter,
    )
