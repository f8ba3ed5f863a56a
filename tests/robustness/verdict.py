"""All that is wrong with a history, by every checker there is."""

from __future__ import annotations

from . import linearizability, watch_promises
from .history import History, reference, with_known_outcomes


def violations(history: History) -> list[str]:
    events, contradictions = reference(history.watches)
    return [
        *contradictions,
        *linearizability.violations(with_known_outcomes(history.operations, events)),
        *watch_promises.violations(history.watches, events),
        *watch_promises.lost_writes(history.operations, events),
        *watch_promises.wrong_listings(history.listings, events),
        *watch_promises.stale_listings(history.listings),
    ]
