"""What one attempt to schedule a pod ends with, as a value that says what is to be written.

``Bind``: the pod gets a node. ``Unschedulable``: no node fits, and perhaps pods are preempted. ``Failure``: the attempt
itself went wrong and is repeated later. ``Gated``: the pod waits without being tried, and nothing is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from dray.allocation import Reasons
    from dray.placement.claims import PostFilterWrite, Reservation
    from dray.placement.nominator import DeviceNomination
    from dray.placement.preemption import Candidate


class Bind(msgspec.Struct, frozen=True):
    """The pod gets this node, and its claims what is reserved for them; None for a pod without claims."""

    node: str
    reservation: Reservation | None = None


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """No node fits. ``message`` is what the pod's condition and event say."""

    message: str
    plugins: frozenset[str]
    candidate: Candidate | None = None  # the node and the pods that preemption has chosen
    device_nomination: DeviceNomination | None = None  # the devices that this preemption frees
    keeps_nomination: bool = False  # an earlier nomination of the pod stays valid
    writes: tuple[PostFilterWrite, ...] = ()  # what is written about claims before the pod's status
    reasons: Mapping[str, Reasons] = field(default_factory=dict)  # what the allocator said about some nodes
    waiting: bool = False  # a driver's controller has to answer; the pod is retried at once when it does
    reason: str = "Unschedulable"  # of the pod's condition


@dataclass(frozen=True, slots=True)
class Failure:
    """The attempt could not be finished."""

    message: str


@dataclass(frozen=True, slots=True)
class Gated:
    """A claim of the pod is missing or not usable for it, so the pod is not tried."""

    reason: str


Outcome = Bind | Unschedulable | Failure | Gated
