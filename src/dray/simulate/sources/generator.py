"""A generator of workloads: an arrival process, a mix of shapes, and durations.

.. code-block:: yaml

    pods: 10000
    arrivals: {process: poisson, rate: 0.5}        # pods for each second; or process: regular
    mix:
    - weight: 3
      cpu: "4"
      memory: 16Gi
      count: 1
      deviceClass: gpu
      capacity: {memory: 10Gi}
      selector: ""
      priority: 0
      duration: {distribution: exponential, mean: 3600}   # or fixed, uniform (low, high), lognormal (mean, sigma)
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from dray.simulate.model import Arrival, SimulationError
from dray.simulate.sources.shapes import PodShape


class Arrivals(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rate: float
    process: Literal["poisson", "regular"] = "poisson"

    def gap(self, draw: random.Random) -> float:
        return draw.expovariate(self.rate) if self.process == "poisson" else 1 / self.rate


class Duration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    distribution: Literal["fixed", "exponential", "uniform", "lognormal"] = "fixed"
    mean: float = 0.0
    low: float = 0.0
    high: float = 0.0
    sigma: float = 1.0

    def draw(self, draw: random.Random) -> float:
        match self.distribution:
            case "exponential":
                return draw.expovariate(1 / self.mean)
            case "uniform":
                return draw.uniform(self.low, self.high)
            case "lognormal":
                return draw.lognormvariate(math.log(self.mean) - self.sigma**2 / 2, self.sigma)
        return self.mean


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One shape of the mix."""

    weight: float = 1.0
    cpu: str = ""
    memory: str = ""
    count: int = 0
    device_class: str = ""
    capacity: dict[str, str] = {}
    selector: str = ""
    priority: int = 0
    duration: Duration | None = None

    def shape(self) -> PodShape:
        return PodShape(
            cpu=self.cpu, memory=self.memory, count=self.count, device_class=self.device_class,
            capacity=self.capacity, selector=self.selector, priority=self.priority,
        )  # fmt: skip


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pods: int
    arrivals: Arrivals
    mix: list[Part]


@dataclass(frozen=True)
class Generator:
    """A workload that is drawn: the same seed draws the same pods."""

    pods: int
    arrivals: Arrivals
    mix: Sequence[Part]

    @classmethod
    def parse(cls, document: Any, name: str = "generator") -> Generator:
        try:
            found = msgspec.convert(document, _File)
        except msgspec.ValidationError as problem:
            raise SimulationError(f"{name}: {problem}") from None
        if not found.mix or not all(0 < part.weight < math.inf for part in found.mix):
            raise SimulationError(f"{name}: the mix needs shapes, each with a positive weight")
        if not 0 < found.arrivals.rate < math.inf:
            raise SimulationError(f"{name}: the rate of arrivals must be positive")
        for part in found.mix:
            length = part.duration
            if length is not None and (
                not all(map(math.isfinite, (length.mean, length.low, length.high, length.sigma)))
                or length.low < 0
                or length.high < length.low
                or (length.mean <= 0 and length.distribution in ("exponential", "lognormal"))
                or length.mean < 0
            ):
                raise SimulationError(f"{name}: a duration makes no sense: {length}")
        return cls(found.pods, found.arrivals, found.mix)

    def events(self, seed: int) -> Iterator[Arrival]:
        draw = random.Random(seed)
        shapes = [part.shape() for part in self.mix]
        weights = [part.weight for part in self.mix]
        time = 0.0
        for number in range(self.pods):
            time += self.arrivals.gap(draw)
            chosen = draw.choices(range(len(shapes)), weights)[0]
            length = self.mix[chosen].duration
            duration = length.draw(draw) if length is not None else None
            yield Arrival(time, *shapes[chosen].make(f"pod-{number:06}"), duration)
