"""Nodes and pods as device policies see them, read from the caches and kept for as long as they stay as they are."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from dray.allocation import counters
from dray.allocation.consumable_capacity import CapacityOutOfRange, consumed_capacity
from dray.allocation.pools import Pool
from dray.allocation.usage import UNUSED, PoolUsage, Usage
from dray.api.quantity import Quantity
from dray.cel import CompileError
from dray.limiteddict import LimitedDict
from dray.placement.policies.model import UNCLEAR, WHOLE, Held, Kinds, NodeState, Request

if TYPE_CHECKING:
    from dray.allocation import Features, Inventory
    from dray.allocation.devices import Device, Shape
    from dray.allocation.requests import Request as DeviceRequest
    from dray.api.types.resource import ResourceClaim
    from dray.placement.cache.nodes import NodeInfo
    from dray.placement.cache.pods import PodInfo
    from dray.placement.policies.model import TypicalShape

_KEPT = 100_000
#: Devices of pools whose columns are remembered, twice: some 400 bytes each where the pools are nobody else's any more.
_KEPT_DEVICES = 50_000
#: States of nodes that are remembered whether or not a node is in them: nodes come back to the states they had.
_REMEMBERED = 4096
_NOBODY: frozenset[Held] = frozenset()
_encode = msgspec.json.Encoder(order="deterministic").encode


class NodeStates:
    """The states of nodes. A state is read again when the node has changed: it got or lost a pod, or devices."""

    def __init__(self, inventory: Inventory, usage: Usage, features: Features, *, sees_claims: bool) -> None:
        self._inventory = inventory
        self._usage = usage
        self._features = features
        self._sees_claims = sees_claims
        self._of_nodes: dict[str, tuple[int, NodeState]] = {}  # with the node's generation
        self._states: dict[Hashable, NodeState] = {}
        self._room = _REMEMBERED
        self._kinds: dict[Kinds, Kinds] = {}
        # Pools that nobody has any more are held by this alone. What was not asked for while so many devices were added
        # is forgotten: first it is former, then gone.
        self._columns: dict[tuple[Pool, ...], _Columns] = {}
        self._former_columns: dict[tuple[Pool, ...], _Columns] = {}
        self._devices = 0  # in ``_columns``

    def of(self, node: NodeInfo) -> NodeState:
        """The state of the node since it last changed. Nodes with one state are alike to every filter and score."""
        known = self._of_nodes.get(node.name)
        if known is not None and known[0] == node.generation:
            return known[1]
        state = self.with_usage(node, self._usage)
        self._of_nodes[node.name] = (node.generation, state)
        return state

    @property
    def all_kinds(self) -> Collection[Kinds]:
        """What nodes have been found to have."""
        return self._kinds

    def clear(self) -> None:
        self._of_nodes.clear()

    def with_usage(self, node: NodeInfo, usage: Usage) -> NodeState:
        """The state of the node if this were in use."""
        assert node.document is not None
        pools = self._inventory.pools(node.document, self._features)
        return self._read(node, pools, [usage.of(pool.id) for pool in pools], usage)

    def _read(
        self, node: NodeInfo, pools: tuple[Pool, ...], parts: list[PoolUsage], usage: Usage
    ) -> NodeState:
        columns = self._columns.get(pools) or self._columns_of(pools)
        free, in_use = columns.free(parts, usage)
        held = _held(columns, parts) if self._sees_claims and in_use else _NOBODY
        offered, taken = node.allocatable, node.requested
        key = (
            taken.cpu, taken.memory, free, node.score_cpu, node.score_memory, in_use, held, id(columns.kinds),
            offered.cpu, offered.memory, taken.ephemeral, offered.ephemeral, len(node.pods) < node.max_pods,
            node.unschedulable,
            *((str(node.taints), str(offered.scalars), str(taken.scalars), str(node.ports))
              if node.taints or offered.scalars or taken.scalars or node.ports else ()),
        )  # fmt: skip
        state = self._states.get(key)
        if state is None:
            if len(self._states) >= self._room:
                self._forget_former()
            state = self._states[key] = NodeState(
                cpu=offered.cpu - taken.cpu,
                memory=offered.memory - taken.memory,
                free=free,
                kinds=columns.kinds,
                in_use=in_use,
                is_open=not node.taints and not node.unschedulable and len(node.pods) < node.max_pods,
                held=held,
                allocatable_cpu=offered.cpu,
                allocatable_memory=offered.memory,
            )
        return state

    def _columns_of(self, pools: tuple[Pool, ...]) -> _Columns:
        columns = self._former_columns.pop(pools, None) or _Columns(pools, self._kinds)
        if self._devices >= _KEPT_DEVICES:
            self._former_columns, self._columns, self._devices = self._columns, {}, 0
        self._columns[pools] = columns
        self._devices += 1 + len(columns.kinds)
        return columns

    def _forget_former(self) -> None:
        """Forget the states that no node is in. There may be as many as a node has sets of devices."""
        current = {state for _, state in self._of_nodes.values()}
        self._states = {key: state for key, state in self._states.items() if state in current}
        self._room = 2 * len(self._states) + _REMEMBERED


class _Columns:
    """The devices of some pools, in the allocator's order."""

    __slots__ = ("_idle", "_names", "_pools", "kinds")

    def __init__(self, pools: tuple[Pool, ...], known: dict[Kinds, Kinds]) -> None:
        shapes: Kinds = tuple(device.shape for pool in pools for device in pool.devices)
        self.kinds = known.setdefault(shapes, shapes)
        self._pools = pools
        self._idle = (WHOLE,) * len(shapes)
        #: the devices by name, where no pool has counters
        self._names = [
            [device.name for device in pool.devices]
            for pool in pools
            if not any(device.consumes_counters for device in pool.devices)
        ]

    def free(self, parts: list[PoolUsage], usage: Usage) -> tuple[tuple[int, ...], int]:
        """The free part of each device, and how many devices are in use."""
        idle, plain = True, len(self._names) == len(parts)
        for part in parts:
            if part is not UNUSED:
                idle = False
                if part.consumed or part.shares:
                    plain = False
        if idle:
            return self._idle, 0
        free: list[int] = []
        in_use = 0
        if plain:
            for names, part in zip(self._names, parts, strict=True):
                taken = part.taken
                free += [0 if name in taken else WHOLE for name in names]
            return tuple(free), free.count(0)
        for pool, part in zip(self._pools, parts, strict=True):
            taken, consumed = part.taken, part.consumed
            for device in pool.devices:
                name = device.name
                if name in taken:
                    free.append(0)
                    in_use += 1
                elif name in consumed:
                    free.append(_left(device.shape, consumed[name]))
                    in_use += 1
                else:
                    in_use += name in part.shares
                    free.append(
                        WHOLE if not device.consumes_counters or _counters_suffice(pool, device, usage) else 0
                    )
        return tuple(free), in_use

    @property
    def pools(self) -> tuple[Pool, ...]:
        return self._pools


def _left(shape: Shape, consumed: Mapping[str, int]) -> int:
    """The thousandths that are left of the capacity of which least is left."""
    left = WHOLE
    for name, limit in _limits(shape):
        amount = consumed.get(name)
        if amount:
            left = min(left, max(limit - amount, 0) * WHOLE // limit)
    return left


def _limits(shape: Shape) -> Sequence[tuple[str, int]]:
    known = shape.limits
    if known is None:
        known = shape.limits = tuple(
            (name, nano)
            for name, capacity in shape.capacity.items()
            if (nano := Quantity.from_json(capacity["value"]).nano) > 0
        )
    return known


def _counters_suffice(pool: Pool, device: Device, usage: Usage) -> bool:
    left = counters.available(pool, usage).left
    return all(left.get(counter, 0) >= amount for counter, amount in counters.consumed_counters(device))


def _held(columns: _Columns, parts: list[PoolUsage]) -> frozenset[Held]:
    """What claims have: how many devices, and whether a single one is theirs as a whole."""
    owners: dict[str, list[bool]] = {}
    for pool, part in zip(columns.pools, parts, strict=True):
        for owner in part.taken.values():
            owners.setdefault(owner, []).append(True)
        for device in pool.devices:
            holders = part.shares.get(device.name)
            if holders:
                alone = len(holders) == 1 and not _left(device.shape, part.consumed.get(device.name, {}))
                for owner in holders.values():
                    owners.setdefault(owner, []).append(alone)
    return frozenset(Held(len(wholes), all(wholes)) for wholes in owners.values())


def shape_of(claims: Sequence[ResourceClaim]) -> bytes:
    """Equal for claims that ask for the same; that of an attempt whose claims are all to be allocated."""
    return _encode([claim["spec"] for claim in claims])


class Requests:
    """The requests of pods. Pods of one shape share theirs."""

    def __init__(self, inventory: Inventory, features: Features) -> None:
        self._inventory = inventory
        self._features = features
        self._known: LimitedDict[Hashable, Request] = LimitedDict(_KEPT)

    def of(self, pod: PodInfo, claims: Sequence[ResourceClaim], shape: bytes | None) -> Request:
        """``claims``: those that are to be allocated; ``shape``: equal for pods whose claims ask for the same."""
        key = (pod.requests.cpu, pod.requests.memory, shape)
        known = self._known.get(key) if shape is not None or not claims else None
        if known is None:
            known = self._known[key] = self._read(pod.requests.cpu, pod.requests.memory, claims)
        return known

    def of_shape(self, shape: TypicalShape) -> Request:
        """What a pod of a declared shape asks for."""
        return self._read(shape.cpu, 0, [{"spec": {"devices": shape.devices}}] if shape.devices else ())

    def clear(self) -> None:
        """Device classes have changed, and what requests ask for with them."""
        self._known.clear()

    def _read(self, cpu: int, memory: int, claims: Sequence[ResourceClaim]) -> Request:
        demands = [self._inventory.demand(claim, self._features) for claim in claims]
        # Of several alternatives the first is the one that is wanted most. What administrators look at is not taken.
        wanted = [
            alternatives[0]
            for demand in demands
            for alternatives in demand.requests
            if alternatives and not alternatives[0].admin and not alternatives[0].problem
        ]
        certain = all(not one.all for one in wanted) and all(
            len(alternatives) == 1 for demand in demands for alternatives in demand.requests
        )
        count = sum(one.count for one in wanted)
        features = self._features

        def share_of(kind: Shape) -> int | None:
            shares = [share for one in wanted if (share := _share(one, kind, features)) is not None]
            return max(shares, default=None)

        # What an API server fills in makes no difference.
        key = (cpu, count, tuple(map(_meaning, wanted)))
        return Request(
            cpu=cpu, memory=memory, count=count, share_of=share_of, key=key,
            certain=certain and len(wanted) <= 1,
        )  # fmt: skip


def _meaning(request: DeviceRequest) -> tuple[object, ...]:
    """Equal for requests that ask for the same devices."""
    return (
        request.count,
        request.all,
        request.capacity_key,
        request.document.get("deviceClassName"),
        tuple(selector.expression.source for selector in request.selectors if not selector.of_class),
    )


def _share(request: DeviceRequest, kind: Shape, features: Features) -> int | None:
    """The thousandths of such a device that a request takes; None if it cannot have one."""
    for selector in request.selectors:
        try:
            verdict = kind.verdict(selector.expression)
        except CompileError:
            return UNCLEAR
        if verdict is not True:
            return None if verdict is False else UNCLEAR
    if not (features.consumable_capacity and kind.document.get("allowMultipleAllocations")):
        return WHOLE
    try:
        consumed = consumed_capacity(kind, request.capacity, request.capacity_key, features)
    except CapacityOutOfRange:
        return UNCLEAR
    if consumed is None:
        return None
    return max((amount * WHOLE // limit for _, amount, limit in consumed.amounts if limit > 0), default=0)
