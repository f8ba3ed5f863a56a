"""How long to wait before the next attempt. Every layer may use this module; it knows nothing of Kubernetes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

_MAX_EXPONENT: Final = 64  # a larger one may not fit into a float, and no maximum is ever that large


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Growing pauses: ``initial`` seconds, times ``factor`` each, at most ``maximum``, stretched at random by ``jitter``."""

    initial: float
    factor: float = 2.0
    maximum: float = float("inf")
    jitter: float = 0.0

    def pauses(self, *, randomness: Callable[[], float] = random.random) -> Iterator[float]:
        pause = min(self.initial, self.maximum)
        while True:
            yield pause * (1 + self.jitter * randomness())
            pause = min(pause * self.factor, self.maximum)

    def after(self, failures: int) -> float:
        """The pause, without jitter, once this many attempts had failed before the last one."""
        return min(self.initial * self.factor ** min(failures, _MAX_EXPONENT), self.maximum)
