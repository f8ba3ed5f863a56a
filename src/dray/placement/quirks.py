"""How scheduling differs from release to release. Nothing else in this package asks for a release or a feature gate.

The differences in how claims of the classic generation are dealt with are in ``classic.quirks``.
"""

from __future__ import annotations

from dataclasses import dataclass

from dray.api.release import V1_32, V1_33, V1_34, V1_35, V1_36, V1_37, EffectiveVersion, Gates


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacementQuirks:
    """One boolean for each difference; the defaults are the newest behaviour, with nothing emulated."""

    #: The reason of the TaintToleration filter names the taint.
    names_untolerated_taint: bool = False
    #: Preemption does not consider a node whose allocatable resources are below the request of the pod.
    small_nodes_are_unresolvable: bool = True
    #: The message counts the nodes that the pod's metadata.name affinity does not name.
    counts_nodes_not_named: bool = True
    #: NodeResourcesBalancedAllocation also scores pods that request neither cpu nor memory.
    scores_balance_without_requests: bool = False
    #: NodeResourcesBalancedAllocation scores how much the pod improves the balance, not the balance itself.
    scores_balance_by_improvement: bool = True
    #: VolumeBinding says "had volume node affinity conflict".
    names_volume_conflict: bool = False
    #: The message of an unschedulable pod ends with what would help it.
    adds_reason_summary: bool = True
    #: When the PreFilter of another plugin rejects a pod, the PostFilter of DynamicResources fails with "not found",
    #: and preemption is not tried.
    postfilter_needs_cycle_state: bool = False
    #: Below 100 nodes every node is filtered for devices before one is chosen, so the error of a selector on any of
    #: them is an error of the attempt.
    filters_devices_on_every_node: bool = False
    #: Claims are allocated (gate DynamicResourceAllocation). Otherwise the DynamicResources plugin is disabled in every
    #: profile: pods with claims are bound like others, and the kubelet holds them back.
    allocates_claims: bool = True
    #: A pod is tried although its claim has as many users as it may have; the API server then refuses the reservation.
    tries_full_claims: bool = False
    #: Device classes serve extended resources (gate DRAExtendedResource).
    serves_extended_resources: bool = True
    #: Devices may stand for cpu or memory of their node (gate DRANodeAllocatableResources).
    maps_node_allocatable: bool = True
    #: The search for devices on a node has a time limit (gate DRASchedulerFilterTimeout).
    limits_filter_time: bool = True
    #: The message of an unschedulable pod says "still not schedulable", or of one without claims "no new claims to
    #: deallocate".
    says_still_not_schedulable: bool = False
    #: The pods of a PodGroup are scheduled together (gate GenericWorkload).
    schedules_groups: bool = True
    #: PodGroups may be part of a CompositePodGroup (gate CompositePodGroup).
    schedules_composite_groups: bool = True
    #: The pods of a group may be kept together by a label of nodes (gate TopologyAwareWorkloadScheduling).
    places_groups_by_topology: bool = True
    #: Then a group that asks for no label is reported as if it did.
    wraps_every_group: bool = False
    #: A group has a preemption policy of its own (gate PodGroupPreemptionPolicy).
    groups_have_preemption_policy: bool = True
    #: Where one member after the other does not fit, nodes and devices are searched for all members at once.
    searches_jointly: bool = True
    #: Groups are served by priority and age, and the first that does not fit is not overtaken by others that take what it
    #: could use.
    gangs_stand_in_line: bool = True
    #: A group that does not fit is told that claims were deallocated, whether there are any or not.
    says_claims_deallocated: bool = False
    #: A gang waits while one of its members may not be tried. Otherwise only as long as it has too few members.
    gang_waits_for_gated_members: bool = False
    #: Members that have succeeded count as scheduled.
    counts_finished_members: bool = True
    #: Preemption by a group may free devices.
    groups_preempt_devices: bool = True
    #: The members of a gang are bound when the claims of all of them are written, and a gang of which some members have a
    #: node is completed before anything else is tried.
    completes_gangs_first: bool = True

    @classmethod
    def of(cls, version: EffectiveVersion, gates: Gates) -> PlacementQuirks:
        release, emulated = version.release, version.emulated
        return cls(
            names_untolerated_taint=release < V1_35,
            small_nodes_are_unresolvable=release >= V1_34,
            counts_nodes_not_named=release >= V1_32,
            scores_balance_without_requests=release < V1_33,
            scores_balance_by_improvement=release >= V1_36,
            names_volume_conflict=release < V1_33,
            adds_reason_summary=not emulated,
            postfilter_needs_cycle_state=emulated,
            filters_devices_on_every_node=emulated,
            allocates_claims="DynamicResourceAllocation" in gates,
            tries_full_claims=emulated,
            serves_extended_resources="DRAExtendedResource" in gates,
            maps_node_allocatable="DRANodeAllocatableResources" in gates,
            limits_filter_time="DRASchedulerFilterTimeout" in gates,
            says_still_not_schedulable=release < V1_37,
            schedules_groups="GenericWorkload" in gates and release >= V1_37,
            schedules_composite_groups="CompositePodGroup" in gates,
            places_groups_by_topology="TopologyAwareWorkloadScheduling" in gates,
            wraps_every_group=emulated and "TopologyAwareWorkloadScheduling" in gates,
            groups_have_preemption_policy="PodGroupPreemptionPolicy" in gates,
            searches_jointly=not emulated,
            gangs_stand_in_line=not emulated,
            says_claims_deallocated=emulated,
            gang_waits_for_gated_members=emulated,
            counts_finished_members=not emulated,
            groups_preempt_devices=not emulated,
            completes_gangs_first=not emulated,
        )
