"""What the claims of one pod need in one binding cycle, as one protocol for every generation of claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.placement.cache.pods import PodInfo
    from dray.placement.claims import PostFilterWrite, Reservation


class BindingError(Exception):
    """The pod could not be bound, and what is reserved for it must be released.

    ``patched_pod``: the pod as it was written when its nominatedNodeName was set. ``may_pass``: the server did not
    answer, or had too much to do.
    """

    def __init__(self, message: str, *, patched_pod: Pod | None = None, may_pass: bool = False) -> None:
        super().__init__(message)
        self.patched_pod = patched_pod
        self.may_pass = may_pass


class PreFlight(Enum):
    """What the PreBind of the claims will do (upstream's PreBindPreFlight)."""

    SKIP = auto()  # nothing that a nominatedNodeName would be set for
    WRITES = auto()
    WAITS = auto()  # it waits for a driver


class ClaimBinding(Protocol):
    """The claims of one pod in one binding cycle."""

    @property
    def pod_on_node(self) -> PodInfo:
        """The pod as the cache counts it on its node, with what its claims take of the node's resources."""
        ...

    def pre_flight(self) -> PreFlight: ...

    def reserve(self) -> None:
        """Count the allocations in memory, so that no other pod gets the devices."""
        ...

    async def write(self) -> None:
        """PreBind: write allocations and reservations. Raises ``StatusError`` or ``BindingError``."""
        ...

    async def release(self, *, deallocate: bool = False) -> None:
        """Unreserve: forget the allocations, then take back what was written.

        ``deallocate``: also the allocations, which otherwise stay for the pod's next attempt.
        """
        ...

    async def done(self) -> None:
        """PostBind: the pod is bound."""
        ...


class ClaimBinders(Protocol):
    """Makes the binding of a reservation, and carries out what PostFilter wants written."""

    def of(
        self, pod: PodInfo, node: str, reservation: Reservation | None, *, binding_timeout: float
    ) -> ClaimBinding: ...

    async def post_filter(self, pod: PodInfo, writes: Sequence[PostFilterWrite]) -> None: ...


@dataclass(frozen=True, slots=True)
class NoClaims:
    """The binding of a pod without claims."""

    pod_on_node: PodInfo

    def pre_flight(self) -> PreFlight:
        return PreFlight.SKIP

    def reserve(self) -> None:
        pass

    async def write(self) -> None:
        pass

    async def release(self, *, deallocate: bool = False) -> None:
        pass

    async def done(self) -> None:
        pass
