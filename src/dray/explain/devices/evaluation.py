"""An expression evaluated on every device of a cluster: which devices match, which fail and how, and what it costs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dray.allocation import DeviceID, Features
from dray.allocation.devices import Device
from dray.allocation.selectors import cel_device, expression
from dray.cel.environment.devices import MAX_COST, Outcome
from dray.explain.devices.selectors import SelectorAttribute, group_devices, selector_attributes
from dray.explain.devices.states import compiled

if TYPE_CHECKING:
    from dray.explain.model.documents import EvaluationDocument


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of evaluating an expression on devices."""

    source: str
    matching: tuple[DeviceID, ...]
    others: int
    errors: tuple[tuple[str, int, DeviceID], ...]  # message, how many devices, one of them
    estimate: int
    cost: int  # the most it cost on any device
    seconds: float
    asked: tuple[SelectorAttribute, ...]

    def as_document(self) -> EvaluationDocument:
        return {
            "expression": self.source,
            "matching": [str(one) for one in self.matching],
            "notMatching": self.others,
            "errors": [
                {"message": message, "devices": count, "example": str(example)}
                for message, count, example in self.errors
            ],
            "cost": {"estimate": self.estimate, "actual": self.cost, "limit": MAX_COST},
            "seconds": self.seconds,
            "asked": [one.as_document() for one in self.asked],
        }


def evaluate(
    source: str,
    devices: Iterable[Device],
    features: Features,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Evaluation:
    """Raises CompileError."""
    started = clock()
    selector = compiled(source, features)
    found: list[DeviceID] = []
    errors: Counter[str] = Counter()
    examples: dict[str, DeviceID] = {}
    others = most = 0
    fingerprint = expression(source, features).fingerprint
    known: dict[Hashable, Outcome] = {}
    everything = list(devices)
    for device in everything:
        key = fingerprint(device.id.driver, device.document) or device.shape
        outcome = known.get(key)
        if outcome is None:
            outcome = known[key] = selector.outcome(cel_device(device.id.driver, device.document))
        most = max(most, outcome.cost)
        if outcome.error is not None:
            errors[outcome.error.message] += 1
            examples.setdefault(outcome.error.message, device.id)
        elif outcome.match:
            found.append(device.id)
        else:
            others += 1
    return Evaluation(
        source,
        tuple(found),
        others,
        tuple((message, count, examples[message]) for message, count in errors.most_common()),
        selector.max_cost,
        most,
        clock() - started,
        selector_attributes(
            source, group_devices(source, everything, features), features, known=lambda: everything
        ),
    )
