"""What an allocation may use and how it behaves: feature gates, and the differences between releases by name.

``Features.of`` is the only place that looks at a release. Everything else asks for the behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dray.api.release import V1_37, Gates, Release

_BINDING = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")


@dataclass(frozen=True, kw_only=True, slots=True)
class Features:
    """Gates are off by default; the behaviours are those of the newest release."""

    admin_access: bool = False
    binding_conditions: bool = False
    compatibility_groups: bool = False
    consumable_capacity: bool = False
    derived_attributes: bool = False
    device_taints: bool = False
    fractional_capacity: bool = False
    list_attributes: bool = False
    optional_node_operations: bool = False
    partitionable_devices: bool = False
    prioritized_list: bool = False

    #: A capacity request is rounded up to the step of the request policy in exact arithmetic, in thousandths under
    #: DRAFractionalCapacityRange, and keeps the step's format; overflow is an error. Otherwise whole units are
    #: rounded, and the result has the binary format.
    exact_capacity_steps: bool = True
    #: A negative amount of consumed capacity is an error.
    refuses_negative_capacity: bool = True
    #: A slice with counter sets counts on every node whatever nodes it is for, and a pool with invalid counters is
    #: shown to every node. Otherwise a node's pool has the counters of the slices that other nodes see.
    counters_reach_every_node: bool = False
    #: A slice with compatibility groups is used as if it had none while DRADeviceCompatibilityGroups is off.
    #: Otherwise it is left out.
    ignores_compatibility_groups: bool = False
    #: Slices that use a disabled feature count when a pool is checked for completeness.
    counts_unsupported_slices: bool = False
    #: A device with skipNodeOperations needs the gate and a node that declares the feature, and its result carries
    #: the field. Otherwise the field is ignored.
    honours_skip_node_operations: bool = True
    #: distinctAttribute compares all devices. Otherwise it compares the last device of each request.
    compares_every_distinct_device: bool = True
    #: A configuration that is for every request of the claim does not list them.
    drops_complete_request_lists: bool = True
    #: The result has a claim's configuration once for every request that the configuration is for. Otherwise once.
    repeats_claim_config: bool = False
    #: allocationMode All wants devices whose capacity is used up too, and fails because of them. Otherwise they are
    #: left out.
    counts_full_devices_in_all: bool = True
    #: The run-time error of a selector names the device.
    names_device_in_selector_error: bool = True
    #: A device with any recorded share consumes no counters again. Otherwise only its consumed capacity tells.
    shares_hold_counters: bool = True

    #: All that the pools of an inventory depend on.
    pooling: tuple[bool, ...] = field(init=False, repr=False, compare=False)
    #: All that consumed capacity depends on, as bits.
    capacity_rules: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pooling = (
            self.partitionable_devices,
            self.compatibility_groups,
            self.counters_reach_every_node,
            self.ignores_compatibility_groups,
            self.counts_unsupported_slices,
        )
        rules = self.fractional_capacity + 2 * self.exact_capacity_steps + 4 * self.refuses_negative_capacity
        object.__setattr__(self, "pooling", pooling)
        object.__setattr__(self, "capacity_rules", rules)

    @classmethod
    def of(cls, release: Release, gates: Gates) -> Features:
        """The features of a component with these gates that behaves like this release."""
        return cls.named(release, gates.on)

    @classmethod
    def named(cls, release: Release, gates: Iterable[str]) -> Features:
        """From feature gates by name; the two gates of binding conditions may come joined by a plus."""
        on = {part for name in gates for part in name.split("+")}
        return cls.for_release(
            release,
            admin_access="DRAAdminAccess" in on,
            binding_conditions=on.issuperset(_BINDING),
            compatibility_groups="DRADeviceCompatibilityGroups" in on,
            consumable_capacity="DRAConsumableCapacity" in on,
            derived_attributes="DRADerivedAttributes" in on,
            device_taints="DRADeviceTaints" in on,
            fractional_capacity="DRAFractionalCapacityRange" in on,
            list_attributes="DRAListTypeAttributes" in on,
            optional_node_operations="DRAOptionalNodeOperations" in on,
            partitionable_devices="DRAPartitionableDevices" in on,
            prioritized_list="DRAPrioritizedList" in on,
        )

    @classmethod
    def for_release(cls, release: Release, **gates: bool) -> Features:
        """The behaviours of a release with these gates, each named as its field is."""
        if release >= V1_37:
            return cls(**gates)
        return cls(
            **gates,
            exact_capacity_steps=False,
            refuses_negative_capacity=False,
            counters_reach_every_node=True,
            ignores_compatibility_groups=True,
            counts_unsupported_slices=True,
            honours_skip_node_operations=False,
            compares_every_distinct_device=False,
            drops_complete_request_lists=False,
            repeats_claim_config=True,
            counts_full_devices_in_all=False,
            names_device_in_selector_error=False,
            shares_hold_counters=False,
        )
