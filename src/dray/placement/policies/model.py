"""What a device policy sees, and what it says: a pod's request and a node with its devices in, scores and an order out.

A policy is a pure function. It gets small frozen values, so its scores can be kept for as long as a node stays as it
is, and the scheduler and the simulator use it alike. A device's free part is counted in thousandths of the device: a
device that is not shared has 1000 or 0.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from dray.allocation import DEFAULT, AllocationError, Policy

if TYPE_CHECKING:
    from dray.allocation.devices import Shape
    from dray.api.types.resource import DeviceClaim

WHOLE = 1000  # thousandths of a device
MAX_SCORE = 100.0
#: the share of a device of which only the allocator can say what a request takes, or what is wrong with it
UNCLEAR = -1

#: What the devices of a node are, one by one. Devices of one shape look the same to every selector. Nodes with the same
#: devices have the very same tuple.
Kinds = tuple["Shape", ...]


class PolicyError(AllocationError):
    """A device policy is unknown, raised an exception, or gave an answer that makes no sense."""


class Held(NamedTuple):
    """What one claim has on a node: so many devices, each whole or a share of it."""

    devices: int
    whole: bool


class NodeState:
    """A node as policies see it. Nodes in the same state share one object, so states are compared by identity."""

    __slots__ = (
        "allocatable_cpu",
        "allocatable_memory",
        "ascending",
        "cpu",
        "free",
        "held",
        "in_use",
        "is_open",
        "kinds",
        "memory",
        "total_free",
    )

    def __init__(
        self,
        *,
        cpu: int,
        memory: int,
        free: tuple[int, ...] = (),
        kinds: Kinds = (),
        in_use: int = 0,
        is_open: bool = True,
        held: frozenset[Held] = frozenset(),
        allocatable_cpu: int = 0,
        allocatable_memory: int = 0,
    ) -> None:
        self.cpu = cpu  # free, in thousandths of a core
        self.memory = memory  # free, in bytes
        self.allocatable_cpu = allocatable_cpu
        self.allocatable_memory = allocatable_memory
        self.free = free  # of each device, in thousandths of it
        self.kinds = kinds  # of each device
        self.ascending = sorted(free)  # the free parts, least first
        self.total_free = sum(free)
        self.in_use = in_use  # how many devices are in any kind of use
        self.is_open = is_open  # it takes pods, as far as taints, cordons and their number are concerned
        self.held = held  # what claims have here; filled in for policies that ask for it

    def __repr__(self) -> str:
        return f"NodeState(cpu={self.cpu}, memory={self.memory}, free={self.free})"


class Request:
    """What a pod asks for: cpu, memory, and ``count`` devices of which it wants a share each.

    Where a pod has several requests for devices, ``count`` is the number of all, and the share is the largest.
    """

    __slots__ = ("_shares", "_shares_of", "_uniform", "certain", "count", "cpu", "key", "memory")

    def __init__(
        self,
        *,
        cpu: int,
        memory: int = 0,
        count: int = 0,
        share_of: Callable[[Shape], int | None] = lambda kind: WHOLE,
        key: Hashable = None,
        certain: bool = True,
    ) -> None:
        """``share_of``: what the request takes of a device of this kind, None if it cannot have such a device.

        ``certain``: a node with too few such devices cannot have the pod.
        """
        self.certain = certain
        self.cpu = cpu
        self.memory = memory
        self.count = count
        self.key = key  # equal for requests that differ in memory alone
        self._shares_of = share_of
        # Answers are kept by the identity of the tuple, and the tuple with them, so that no other one gets its identity.
        self._shares: dict[int, tuple[Kinds, tuple[int | None, ...]]] = {}
        self._uniform: dict[int, int | None] = {}  # the share, where it is the same of each of the devices

    def shares(self, kinds: Kinds) -> tuple[int | None, ...]:
        """Device by device, the thousandths that the request takes; None: the device is not for this request."""
        known = self._shares.get(id(kinds))
        return known[1] if known is not None else self._read_shares(kinds)

    def _read_shares(self, kinds: Kinds) -> tuple[int | None, ...]:
        if len(self._shares) > 4096:
            self._shares.clear()
            self._uniform.clear()
        shares = tuple(map(self._shares_of, kinds))
        self._shares[id(kinds)] = (kinds, shares)
        same = len(set(shares)) == 1 and shares[0] is not None and shares[0] >= 0
        self._uniform[id(kinds)] = shares[0] if same else None
        return shares

    def share(self, kinds: Kinds) -> int:
        """The largest share that the request takes of one of these devices; 0: it wants none of them."""
        return max((share for share in self.shares(kinds) if share), default=0) if self.count else 0

    def total(self, kinds: Kinds) -> int:
        """The thousandths that all devices of the request come to."""
        return self.count * self.share(kinds)

    def fits(self, node: NodeState) -> bool:
        """Whether enough devices have enough left. That is necessary; the allocator knows what else is."""
        missing = self.count
        if not missing or not self.certain:
            return True
        uniform = self._uniform.get(id(node.kinds))
        if uniform is not None:
            return missing <= len(node.ascending) and node.ascending[-missing] >= uniform
        shares = self.shares(node.kinds)
        if UNCLEAR in shares:
            return True
        for free, share in zip(node.free, shares, strict=True):
            if share is not None and free >= share:
                missing -= 1
                if not missing:
                    return True
        return False


class TypicalShape(NamedTuple):
    """A frequent kind of pod, as somebody declares it: thousandths of cores, and the devices of a claim."""

    cpu: int
    devices: DeviceClaim | None
    weight: float


class TypicalRequest(NamedTuple):
    """A request that is frequent in the workload, and the part of all pods that have it."""

    request: Request
    frequency: float


class Workload(Protocol):
    """What is known about the pods that come and go."""

    @property
    def version(self) -> int:
        """Changes whenever ``typical`` does."""
        ...

    @property
    def typical(self) -> Sequence[TypicalRequest]: ...


class Setting(NamedTuple):
    """What a policy is given when it is made."""

    workload: Workload
    seed: int = 0


class DevicePolicy:
    """Scores nodes and orders their devices. Subclass it; the defaults leave the choice of devices to the allocator.

    The same request, node and workload must always get the same answer: the scheduler keeps scores.
    """

    name: ClassVar[str] = ""
    #: The score is added to the scores of cpu and memory, for pods that need devices. Otherwise it stands alone, and
    #: pods without devices have it too.
    adds_to_resource_scores: ClassVar[bool] = False
    #: The score depends on the typical requests of the workload.
    uses_workload: ClassVar[bool] = False
    #: The score depends on ``NodeState.held``.
    sees_claims: ClassVar[bool] = False
    #: Any node that fits is as good as another: one is drawn for each pod, and ``score`` is not called.
    draws_node: ClassVar[bool] = False
    #: Of the devices that fit any is as good as another: ``order`` is not called.
    draws_devices: ClassVar[bool] = False
    #: How the allocator orders devices by itself, where ``order`` says nothing.
    arrangement: ClassVar[Policy] = DEFAULT
    #: Which of several nodes with the best score is taken: always the first in an order that the seed decides, or
    #: one that is drawn anew whenever a node gets or loses a pod.
    keeps_order_of_nodes: ClassVar[bool] = True

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        #: nodes are as good as each other, as far as the policy is concerned
        self.has_no_score = type(self).score is DevicePolicy.score and self.adds_to_resource_scores

    def score(self, request: Request, node: NodeState) -> float:
        """How well the node suits, from 0 to 100. Nodes that lack something are not asked for."""
        return 0.0

    def order(self, request: Request, node: NodeState) -> Sequence[int] | None:
        """The positions of the node's devices, the one to take first in front; None: as ``arrangement`` has them."""
        return None
