"""A partial allocation: the devices allocated so far, and the counters and capacity that they consume.

``allocate_device`` makes upstream's checks in upstream's order; ``deallocate_device`` takes the last device back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dray.allocation import consumable_capacity, counters, taints
from dray.allocation.attributes import Values
from dray.allocation.constraints import ConstraintState
from dray.allocation.devices import Device
from dray.allocation.errors import AllocationError
from dray.allocation.features import Features
from dray.allocation.pools import Pool
from dray.allocation.requests import Demand, Request, Selector
from dray.allocation.selectors import derived_attribute
from dray.allocation.usage import PoolUsage, Usage
from dray.cel import CompileError, EvaluationError

if TYPE_CHECKING:
    from dray.api.types.core import Node
    from dray.api.types.resource import ResourceClaim

_NOTHING: Mapping[str, int] = {}
OPTIONAL_NODE_OPERATIONS = "DRAOptionalNodeOperations"

#: What 1.37 adds to the error of a selector that reads an attribute that the device does not have.
_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
    "fields"
)


class DeviceInPool(msgspec.Struct, frozen=True, gc=False):
    """A device with its pool, and with the usage of that pool."""

    device: Device
    pool: Pool
    part: PoolUsage


class Claim(msgspec.Struct, frozen=True):
    """A claim to be allocated."""

    number: int
    name: str  # namespace/name, for messages
    document: ResourceClaim
    demand: Demand


class Choice:
    """One alternative of one request of one claim."""

    __slots__ = ("all_devices", "claim", "count", "request")

    def __init__(self, claim: Claim, request: Request) -> None:
        self.claim = claim
        self.request = request
        self.count = request.count
        #: the devices a request for all devices must have
        self.all_devices: list[DeviceInPool] | None = None

    def named(self, selector: Selector) -> str:
        """What errors call one of its selectors."""
        if selector.of_class:
            owner = f"class {self.request.class_document['metadata']['name']}"
        else:
            owner = f"claim {self.claim.name}"
        return f"{owner}: selector #{selector.position}"


class DeviceAllocation(msgspec.Struct, frozen=True):
    """One device given to one request, and what to go back to if it is taken back."""

    choice: Choice
    device_in_pool: DeviceInPool
    #: what is taken of a shared device; None: the device as a whole
    consumed_capacity: consumable_capacity.ConsumedCapacity | None
    consumed_counters: bool
    constraints: tuple[ConstraintState, ...]
    share: dict[str, int] | None
    groups: dict[str, counters.Groups] | None


class AllocationState:
    __slots__ = (
        "_groups", "_left", "constraints", "device_allocations", "features", "in_flight", "node", "results", "shares",
        "usage",
    )  # fmt: skip

    def __init__(self, node: Node, claims: Sequence[Claim], usage: Usage, features: Features) -> None:
        self.node = node
        self.features = features
        self.usage = usage
        self.device_allocations: list[DeviceAllocation] = []
        #: devices in use by this very allocation, and by which of its claims
        self.in_flight: dict[Device, tuple[int, ...]] = {}
        #: capacity in use by this very allocation
        self.shares: dict[Device, dict[str, int]] = {}
        self.results = [0] * len(claims)  # devices so far, claim by claim
        self.constraints: list[tuple[ConstraintState, ...]] = [
            (None,) * len(claim.demand.constraints) for claim in claims
        ]
        self._left: dict[Pool, dict[counters.Counter, int] | None] = {}
        self._groups: dict[Pool, dict[str, counters.Groups]] = {}

    # --- checks that do not depend on the devices allocated so far ---

    def selects(self, choice: Choice, device_in_pool: DeviceInPool) -> bool:
        """Whether class and request select a device for this node. Raises what upstream would fail with."""
        device = device_in_pool.device
        if device.binding_conditions and not self.features.binding_conditions:
            return False
        verdict = device.shape.verdict
        for selector in choice.request.selectors:
            try:
                answer = verdict(selector.expression)
            except CompileError as error:
                raise AllocationError(f"{choice.named(selector)}: CEL compile error: {error}") from error
            if answer is True:
                continue
            if answer is False:
                return False
            on = f" on device {device.id}" if self.features.names_device_in_selector_error else ""
            hint = (
                _HINT if self.features.names_device_in_selector_error and "no such key" in str(answer) else ""
            )
            raise AllocationError(f"{choice.named(selector)}{on}: CEL runtime error: {answer}{hint}")
        if device.selection is not None:
            metadata = self.node.get("metadata") or {}
            return device.selection.matches(metadata.get("name") or "", metadata.get("labels") or {})
        return True

    def consumed_capacity(
        self, choice: Choice, device_in_pool: DeviceInPool
    ) -> consumable_capacity.ConsumedCapacity | None:
        """What the request would take of the device's capacity; None if the device does not offer that."""
        if not self.features.consumable_capacity:
            return consumable_capacity.NOTHING
        request, device = choice.request, device_in_pool.device
        shape = device.shape
        if (
            not request.capacity
            and not shape.restricted
            and not device.shared
            and not device_in_pool.part.consumed
        ):
            # The request takes the device as a whole, and no other claim has any of it.
            return consumable_capacity.NOTHING
        try:
            return consumable_capacity.consumed_capacity(
                shape, request.capacity, request.capacity_key, self.features
            )
        except consumable_capacity.CapacityOutOfRange as error:
            where = f"claim {choice.claim.name}, request {request.name}: checking capacity for device"
            raise AllocationError(f"{where} {device.id}: {error}") from error

    def fits(
        self, consumed_capacity: consumable_capacity.ConsumedCapacity, device_in_pool: DeviceInPool
    ) -> bool:
        """Whether what is left of the device's capacity is enough."""
        device = device_in_pool.device
        return not consumed_capacity.amounts or consumed_capacity.fits(
            device_in_pool.part.consumed.get(device.name, _NOTHING), self.shares.get(device, _NOTHING)
        )

    def allowed(self, choice: Choice, device: Device) -> bool:
        """Whether the features that are on, and the taints, let the device be used."""
        features = self.features
        if device.consumes_counters and not features.partitionable_devices:
            return False
        if device.skips_node_operations and features.honours_skip_node_operations:
            declared = (self.node.get("status") or {}).get("declaredFeatures") or ()
            if not features.optional_node_operations or OPTIONAL_NODE_OPERATIONS not in declared:
                return False
        if device.taints and features.device_taints:
            return taints.untolerated_taint(device, choice.request.tolerations) is None
        return True

    def values(self, choice: Choice, device: Device, position: int) -> Values | None:
        """The values that a constraint compares."""
        constraint = choice.claim.demand.constraints[position]
        source = choice.request.derived.get(constraint.attribute)
        if source is None:
            return device.shape.values(constraint.attribute, lists=constraint.lists)
        try:
            return device.shape.derive(derived_attribute(source, self.features))
        except CompileError as error:
            message = f"compile derived attribute {constraint.attribute} failed: {error}"
            raise AllocationError(message) from error
        except EvaluationError as error:
            message = (
                f"evaluate derived attribute {constraint.attribute} on device {device.id} failed: {error}"
            )
            raise AllocationError(message) from error

    # --- checks and changes that do ---

    def in_use(self, choice: Choice, device_in_pool: DeviceInPool) -> bool:
        """Whether the device as a whole is taken, as far as this request is concerned."""
        users = self.in_flight.get(device_in_pool.device)
        if choice.request.admin:
            return users is not None and choice.claim.number in users
        return bool(users) or device_in_pool.device.name in device_in_pool.part.taken

    def consumes_counters(self, device_in_pool: DeviceInPool) -> bool:
        """Whether allocating the device consumes counters; further shares of a device in use consume none."""
        device = device_in_pool.device
        if not device.consumes_counters:
            return False
        if not (device.shared and self.features.consumable_capacity):
            return True
        if device in self.shares or device.name in device_in_pool.part.consumed:
            return False
        return not self.features.shares_hold_counters or device.name not in device_in_pool.part.shares

    def left(self, pool: Pool) -> dict[counters.Counter, int] | None:
        """What is left of a pool's counters; None if others have overdrawn them."""
        try:
            return self._left[pool]
        except KeyError:
            available = counters.available(pool, self.usage)
            found = self._left[pool] = None if available.overdrawn else dict(available.left)
            self._groups[pool] = dict(available.groups)
            return found

    def groups(self) -> Any:
        """The compatibility groups that counter sets are bound to so far."""
        if not self.features.compatibility_groups:
            return None
        return tuple((pool.id, tuple(sorted(groups.items()))) for pool, groups in self._groups.items())

    def counters_suffice(self, device_in_pool: DeviceInPool) -> bool:
        """Whether counters and compatibility groups leave room for the device."""
        left = self.left(device_in_pool.pool)
        if left is None or any(
            left[counter] < amount for counter, amount in counters.consumed_counters(device_in_pool.device)
        ):
            return False
        if not self.features.compatibility_groups:
            return True
        groups = self._groups[device_in_pool.pool]
        return all(
            counters.groups_compatible(groups.get(d.counter_set), d.groups)
            for d in device_in_pool.device.consumes_counters
        )

    def allocate_device(
        self,
        choice: Choice,
        device_in_pool: DeviceInPool,
        consumed_capacity: consumable_capacity.ConsumedCapacity,
        *,
        must: bool = False,
    ) -> bool:
        """Allocate a device that is selected and not in use, if everything else allows it.

        ``must``: the claim makes no sense without this device, so a constraint that forbids it is an error.
        """
        device, request = device_in_pool.device, choice.request
        consumed_counters = self.consumes_counters(device_in_pool)
        if consumed_counters and not self.counters_suffice(device_in_pool):
            return False
        claim = choice.claim
        before = self.constraints[claim.number]
        if request.constraints and not self._add_to_constraints(choice, device, before):
            if must:
                raise AllocationError(
                    f"claim {claim.name}, request {request.name}: cannot add device {device.id} "
                    "because a claim constraint would not be satisfied"
                )
            return False
        if not self.fits(consumed_capacity, device_in_pool):
            self._remove_from_constraints(choice, before)
            return False
        share = self.shares.get(device)
        groups = None
        shared = device.shared and self.features.consumable_capacity
        if shared:
            self.shares[device] = total = dict(share or _NOTHING)
            for name, amount, _ in consumed_capacity.amounts:
                total[name] = total.get(name, 0) + amount
        else:
            self.in_flight[device] = (*self.in_flight.get(device, ()), claim.number)
        if consumed_counters:
            groups = self._consume_counters(device_in_pool)
        self.results[claim.number] += 1
        self.device_allocations.append(
            DeviceAllocation(
                choice,
                device_in_pool,
                consumed_capacity if shared else None,
                consumed_counters,
                before,
                share,
                groups,
            )
        )
        return True

    def _add_to_constraints(
        self, choice: Choice, device: Device, before: tuple[ConstraintState, ...]
    ) -> bool:
        """Add the device to the constraints; if one objects, take it out of those that did not."""
        constraints, base = choice.claim.demand.constraints, choice.request.base
        after = list(before)
        for position in choice.request.constraints:
            values = self.values(choice, device, position)
            state = None if values is None else constraints[position].add(after[position], base, values)
            if state is None:
                self._remove_from_constraints(choice, before, upto=position)
                return False
            after[position] = state
        self.constraints[choice.claim.number] = tuple(after)
        return True

    def _remove_from_constraints(
        self, choice: Choice, before: tuple[ConstraintState, ...], upto: int | None = None
    ) -> None:
        constraints, base = choice.claim.demand.constraints, choice.request.base
        restored: list[Any] = list(before)
        for position in choice.request.constraints:
            if position == upto:
                break
            restored[position] = constraints[position].remove(before[position], base)
        self.constraints[choice.claim.number] = tuple(restored)

    def _consume_counters(self, device_in_pool: DeviceInPool) -> dict[str, counters.Groups] | None:
        left = self._left[device_in_pool.pool]
        assert left is not None
        for counter, amount in counters.consumed_counters(device_in_pool.device):
            left[counter] -= amount
        if not self.features.compatibility_groups:
            return None
        before = self._groups[device_in_pool.pool]
        self._groups[device_in_pool.pool] = after = dict(before)
        for consumption in device_in_pool.device.consumes_counters:
            after[consumption.counter_set] = counters.common_groups(
                after.get(consumption.counter_set), consumption.groups
            )
        return before

    def deallocate_device(self) -> None:
        """Take back the last device."""
        device_allocation = self.device_allocations.pop()
        choice, device_in_pool = device_allocation.choice, device_allocation.device_in_pool
        device, index = device_in_pool.device, choice.claim.number
        if device_allocation.consumed_counters:
            left = self._left[device_in_pool.pool]
            assert left is not None
            for counter, amount in counters.consumed_counters(device):
                left[counter] += amount
            if device_allocation.groups is not None:
                self._groups[device_in_pool.pool] = device_allocation.groups
        if device_allocation.consumed_capacity is None:
            users = self.in_flight.pop(device)
            if len(users) > 1:
                self.in_flight[device] = tuple(user for user in users if user != index)
        elif device_allocation.share is None:
            del self.shares[device]
        else:
            self.shares[device] = device_allocation.share
        self.results[index] -= 1
        if choice.request.constraints:
            self._remove_from_constraints(choice, device_allocation.constraints)
