"""What happened last: changes of claims, pods and pools, and how the use of devices has developed."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Final

import msgspec

from dray.explain.devices.states import SHOWN, DeviceState

_HAPPENINGS: Final = 200
_TIMELINES: Final = 5000
_SAMPLES: Final = 720


class Happening(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that happened."""

    at: float  # seconds since the epoch
    kind: str  # claim, pod, pool
    id: str
    text: str


class Moment(msgspec.Struct, frozen=True):
    """When an object came into a state; ``before``: no later than then, as it was in it when the dashboard started."""

    at: float
    state: str
    before: bool = False


class Happenings:
    """The newest of them, and the states that each claim and pod went through while this was looking."""

    def __init__(self) -> None:
        self.newest: deque[Happening] = deque(maxlen=_HAPPENINGS)
        self.fresh: list[Happening] = []  # not sent to anybody yet
        self._timelines: OrderedDict[tuple[str, str], list[Moment]] = OrderedDict()

    def note(
        self, kind: str, id: str, state: str, at: float, *, text: str = "", before: bool = False
    ) -> None:
        """An object is in a state. Without a text that is remembered, but no news."""
        line = self._timelines.setdefault((kind, id), [])
        if line and line[-1].state == state:
            return
        line.append(Moment(at, state, before))
        self._timelines.move_to_end((kind, id))
        while len(self._timelines) > _TIMELINES:
            self._timelines.popitem(last=False)
        if text:
            self.say(kind, id, text, at)

    def say(self, kind: str, id: str, text: str, at: float) -> None:
        happening = Happening(at, kind, id, text)
        self.newest.append(happening)
        self.fresh.append(happening)

    def begin(self) -> None:
        """What was noted so far was there at the start, and was found in no order: the newest of it is old news."""
        self.newest.clear()
        self.newest.extend(sorted(self.take_fresh(), key=lambda one: one.at))

    def take_fresh(self) -> list[Happening]:
        fresh, self.fresh = self.fresh, []
        return fresh

    def timeline(self, kind: str, id: str) -> list[Moment]:
        return list(self._timelines.get((kind, id), ()))


class History:
    """Devices by state over time, since the start. When there are too many samples, every other one goes."""

    def __init__(self, interval: float) -> None:
        self.samples: list[tuple[float, ...]] = []  # time, then a number for each state
        self._interval = interval

    def sample(self, at: float, counts: Mapping[DeviceState, int]) -> tuple[float, ...] | None:
        """Add a sample if it is time for one."""
        if self.samples and at - self.samples[-1][0] < self._interval:
            return None
        if len(self.samples) >= _SAMPLES:
            self.samples = self.samples[::2]
            self._interval *= 2
        taken = (at, *(counts.get(state, 0) for state in SHOWN))
        self.samples.append(taken)
        return taken
