"""Which optional parts of allocation are on, and which release's rules apply where releases differ."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dray.api.release import Gates

_BINDING = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")


@dataclass(frozen=True, kw_only=True, slots=True)
class Features:
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
    #: Minor release whose rules hold where upstream changed its mind: 37 compares every device under
    #: distinctAttribute, lists each configuration once, and names the device in a selector's run-time error.
    release: int = 36

    @classmethod
    def named(cls, names: Iterable[str], *, release: int = 36) -> Features:
        """From feature gates by name; the two gates of binding conditions may come joined by a plus."""
        on = {part for name in names for part in name.split("+")}
        return cls(
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
            release=release,
        )

    @classmethod
    def of(cls, gates: Gates, *, release: int | None = None) -> Features:
        """From the gates in force, with the rules of their release unless another is named."""
        return cls.named(gates.on, release=gates.release[1] if release is None else release)

    @property
    def pooling(self) -> tuple[bool, bool, bool]:
        """What the look of a pool depends on."""
        return self.partitionable_devices, self.compatibility_groups, self.release >= 37
