"""How scheduling differs from release to release. Nothing else in this package asks for a release or a feature gate.

The differences in how claims of the classic generation are dealt with are in ``classic.quirks``.
"""

from __future__ import annotations

from dataclasses import dataclass

from dray.api.release import V1_32, V1_33, V1_34, V1_35, V1_36, EffectiveVersion, Gates


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
    adds_advice: bool = True
    #: When the PreFilter of another plugin rejects a pod, the PostFilter of DynamicResources fails with "not found",
    #: and preemption is not tried.
    postfilter_needs_cycle_state: bool = False
    #: Below 100 nodes every node is filtered for devices before one is chosen, so the error of a selector on any of
    #: them is an error of the attempt.
    filters_devices_on_every_node: bool = False
    #: Claims are allocated (gate DynamicResourceAllocation). Otherwise the DynamicResources plugin is disabled in every
    #: profile: pods with claims are bound like others, and the kubelet holds them back.
    allocates_claims: bool = True
    #: Device classes serve extended resources (gate DRAExtendedResource).
    serves_extended_resources: bool = True
    #: Devices may stand for cpu or memory of their node (gate DRANodeAllocatableResources).
    maps_node_allocatable: bool = True
    #: The search for devices on a node has a time limit (gate DRASchedulerFilterTimeout).
    limits_filter_time: bool = True

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
            adds_advice=not emulated,
            postfilter_needs_cycle_state=emulated,
            filters_devices_on_every_node=emulated,
            allocates_claims="DynamicResourceAllocation" in gates,
            serves_extended_resources="DRAExtendedResource" in gates,
            maps_node_allocatable="DRANodeAllocatableResources" in gates,
            limits_filter_time="DRASchedulerFilterTimeout" in gates,
        )
