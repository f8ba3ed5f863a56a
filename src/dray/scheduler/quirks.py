"""How the scheduler's watches and writes differ from release to release.

The differences in its decisions are in ``dray.placement.quirks``. Nothing else in this package asks for a release or a
feature gate.
"""

from __future__ import annotations

from dataclasses import dataclass

from dray.allocation import Features
from dray.api.release import V1_30, V1_36, EffectiveVersion, Gates


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerQuirks:
    """One boolean for each difference; the defaults are the newest behaviour, with nothing emulated."""

    #: The Preempted event of a victim refers to the preemptor. Since 1.36 it is given an object that has no reference.
    refers_to_preemptor: bool = True
    #: Preemption cancels the binding of a pod that waits for binding conditions, and does not delete the pod.
    cancels_waiting_pods: bool = True
    #: allocationTimestamp is also set on allocations that somebody else made, which the API server refuses.
    dates_foreign_allocations: bool = False
    #: A pod whose claims are missing gets an event after two seconds.
    reports_gated_pods: bool = True
    #: Conditions have observedGeneration (gate PodObservedGenerationTracking).
    observes_generation: bool = True
    #: Any update of an unschedulable pod requeues it (gate SchedulerQueueingHints is off, or the release has none).
    requeues_on_any_pod_change: bool = True
    #: nominatedNodeName is set before a pod is bound (gate NominatedNodeNameForExpectation).
    nominates_expected_node: bool = True
    #: Bindings wait for the binding conditions of devices.
    waits_for_binding_conditions: bool = True
    #: Pods may have claims (gate DynamicResourceAllocation).
    serves_claims: bool = True
    #: Claims may ask for devices of device classes; otherwise all of them are classic.
    serves_devices: bool = True
    #: DeviceTaintRules add taints to devices.
    watches_taint_rules: bool = True

    @classmethod
    def of(cls, version: EffectiveVersion, gates: Gates) -> SchedulerQuirks:
        release, emulated = version.release, version.emulated
        return cls(
            refers_to_preemptor=not emulated or release < V1_36,
            cancels_waiting_pods=release >= V1_36,
            dates_foreign_allocations=emulated,
            reports_gated_pods=not emulated,
            observes_generation="PodObservedGenerationTracking" in gates,
            requeues_on_any_pod_change="SchedulerQueueingHints" not in gates,
            nominates_expected_node="NominatedNodeNameForExpectation" in gates,
            waits_for_binding_conditions=Features.of(release, gates).binding_conditions,
            serves_claims="DynamicResourceAllocation" in gates,
            serves_devices=release > V1_30,
            watches_taint_rules="DRADeviceTaintRules" in gates and "DRADeviceTaints" in gates,
        )
