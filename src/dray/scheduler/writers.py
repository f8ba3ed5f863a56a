"""The scheduler's writes to the API server, wired together: who binds, undoes, tells and evicts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from dray.client.client import Client
from dray.placement.cache.claims import ClaimCache
from dray.scheduler.binding.binder import Binder, NominatedNodePolicy
from dray.scheduler.binding.binding_conditions import BindingConditionsWaiter
from dray.scheduler.binding.unreserve import Unreserver
from dray.scheduler.events.pod_status import PodStatusWriter
from dray.scheduler.events.reporter import Recorder, Reporter
from dray.scheduler.metrics import Metrics
from dray.scheduler.preemption import PreemptionExecutor


@dataclass(frozen=True, slots=True)
class Writers:
    """Everything that writes, each with a duty of its own."""

    binder: Binder
    unreserver: Unreserver
    reporter: Reporter
    evictions: PreemptionExecutor
    readiness: BindingConditionsWaiter


def build_writers(
    client: Client,
    claim_cache: ClaimCache,
    recorder: Recorder,
    *,
    binding_conditions: bool,
    nominate: NominatedNodePolicy,
    metrics: Metrics,
    observes_generation: bool = True,
    names_preemptor: bool = True,
    cancels_waiting_pods: bool = True,
    dates_all: bool = False,
    clock: Callable[[], float] = time.time,
) -> Writers:
    """The options are explained where they are used, in the class that is given them."""
    statuses = PodStatusWriter(client, observes_generation=observes_generation, clock=clock)
    reporter = Reporter(recorder, statuses, names_preemptor=names_preemptor)
    readiness = BindingConditionsWaiter(claim_cache, clock=clock)
    return Writers(
        binder=Binder(
            client,
            claim_cache,
            statuses,
            reporter,
            readiness,
            binding_conditions=binding_conditions,
            nominate=nominate,
            metrics=metrics,
            dates_all=dates_all,
            clock=clock,
        ),
        unreserver=Unreserver(client, claim_cache, statuses),
        reporter=reporter,
        evictions=PreemptionExecutor(
            client, statuses, reporter, readiness, cancels_waiting_pods=cancels_waiting_pods
        ),
        readiness=readiness,
    )
