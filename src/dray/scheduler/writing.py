"""The scheduler's writes to the API server, wired together: who binds, undoes, tells and evicts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from dray.client.client import Client
from dray.scheduler.binding import Binder, Nominate
from dray.scheduler.evicting import Evictions
from dray.scheduler.ledger import Ledger
from dray.scheduler.metrics import Metrics
from dray.scheduler.readiness import Readiness
from dray.scheduler.statuses import PodStatuses
from dray.scheduler.telling import Recorder, Telling
from dray.scheduler.undoing import Undoing


@dataclass(frozen=True, slots=True)
class Writing:
    """Everything that writes, each with a duty of its own."""

    binder: Binder
    undoing: Undoing
    telling: Telling
    evictions: Evictions
    readiness: Readiness


def writing_to(
    client: Client,
    ledger: Ledger,
    recorder: Recorder,
    *,
    binding_conditions: bool,
    nominate: Nominate,
    metrics: Metrics,
    observes_generation: bool = True,
    names_preemptor: bool = True,
    calls_back: bool = True,
    dates_all: bool = False,
    clock: Callable[[], float] = time.time,
) -> Writing:
    """The options are explained where they are used, in the class that is given them."""
    statuses = PodStatuses(client, observes_generation=observes_generation, clock=clock)
    telling = Telling(recorder, statuses, names_preemptor=names_preemptor)
    readiness = Readiness(ledger, clock=clock)
    return Writing(
        binder=Binder(
            client,
            ledger,
            statuses,
            telling,
            readiness,
            binding_conditions=binding_conditions,
            nominate=nominate,
            metrics=metrics,
            dates_all=dates_all,
            clock=clock,
        ),
        undoing=Undoing(client, ledger, statuses),
        telling=telling,
        evictions=Evictions(client, statuses, telling, readiness, calls_back=calls_back),
        readiness=readiness,
    )
