"""What ``dray up`` starts and sets differently from release to release."""

from __future__ import annotations

from dataclasses import dataclass

from dray.api.release import V1_31, V1_33, V1_34, EffectiveVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    serves_device_classes: bool
    """From 1.31 on there are DeviceClasses, and drivers whose devices are asked for through them."""
    serves_resource_classes: bool
    """Before 1.31 there are ResourceClasses, and drivers whose controllers allocate claims."""
    dynamic_resource_allocation_is_opt_in: bool
    """Before 1.34 the gate had to be switched on; where such a release is emulated it is on unless it is switched off."""
    withdraws_slices_of_gone_drivers: bool
    """From 1.33 on a node withdraws the slices of a driver that has gone; before, they stayed."""
    namespace_deletion_waits: bool
    """An emulated release still shows a namespace, and what is in it, right after it was deleted."""
    claims_are_created_with_finalizer: bool
    """Unless a release is emulated, the claim controller saves the scheduler the write that adds the finalizer."""
    scheduler_nominates_before_every_bind: bool
    """The scheduler of an emulated release sets nominatedNodeName even if the pod is bound right afterwards."""

    @classmethod
    def of(cls, version: EffectiveVersion) -> Quirks:
        return cls(
            serves_device_classes=version.release >= V1_31,
            serves_resource_classes=version.serves_classic,
            dynamic_resource_allocation_is_opt_in=version.release < V1_34,
            withdraws_slices_of_gone_drivers=version.release >= V1_33,
            namespace_deletion_waits=version.emulated,
            claims_are_created_with_finalizer=not version.emulated,
            scheduler_nominates_before_every_bind=version.emulated,
        )
