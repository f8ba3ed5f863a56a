"""The profiles of one scheduler: each has its own plugins and nominated pods, and all share the caches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dray.allocation import Features
from dray.api.release import EffectiveVersion, Gates
from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.groups import GroupCache
from dray.placement.cache.nodes import ClusterCache
from dray.placement.cache.pods import PodInfo
from dray.placement.config import SchedulerProfile
from dray.placement.placement import Placement
from dray.placement.plugins import dynamic_resources
from dray.placement.policies.registry import policy_type
from dray.placement.policies.scorer import Scorer
from dray.placement.quirks import PlacementQuirks

if TYPE_CHECKING:
    from dray.placement.claims import ClaimPlugin
    from dray.placement.classic.plugin import ClassicPlugin
    from dray.placement.policies.model import Workload


@dataclass(frozen=True, slots=True)
class Framework:
    """Upstream's framework: a profile with its plugins, ready to schedule pods."""

    profile: SchedulerProfile
    quirks: PlacementQuirks
    placement: Placement
    claims: ClaimPlugin
    groups: GroupCache = field(default_factory=GroupCache)


class Profiles:
    """The frameworks of all profiles, over the same cluster."""

    def __init__(self, profiles: Iterable[Framework]) -> None:
        self.by_name: Mapping[str, Framework] = {framework.profile.name: framework for framework in profiles}

    def of(self, pod: PodInfo) -> Framework:
        return self.by_name[pod.document["spec"].get("schedulerName", "default-scheduler")]

    def delete_nominated_pod(self, uid: str) -> None:
        for framework in self.by_name.values():
            if framework.placement.nominator.nominated:
                framework.placement.nominator.delete_nominated_pod(uid)

    def forget_pod(self, uid: str) -> None:
        """The pod is gone, and is not part of the workload any more."""
        for framework in self.by_name.values():
            if framework.placement.scorer is not None:
                framework.placement.scorer.pod_is_gone(uid)

    def pop_lower_nominated(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """Remove the nominations to a node of all pods with a lower priority than ``pod``, which preempts there."""
        lower_nominated: list[PodInfo] = []
        for framework in self.by_name.values():
            nominator = framework.placement.nominator
            lower = [p for p in nominator.nominated.get(node, {}).values() if p.priority < pod.priority]
            for nominated_pod in lower:
                nominator.delete_nominated_pod(nominated_pod.uid)
            lower_nominated += lower
        return lower_nominated


def build_profiles(
    profiles: Sequence[SchedulerProfile],
    cluster: ClusterCache,
    claim_cache: ClaimCache,
    *,
    gates: Gates,
    version: EffectiveVersion,
    classic: ClassicPlugin | None = None,
    namespaces: Callable[[], Mapping[str, Mapping[str, str]]],
    workload: Workload | None = None,
    node_order: Mapping[str, int] | None = None,
    new_share_id: Callable[[], str],
    groups: GroupCache | None = None,
    clock: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
) -> Profiles:
    """``classic``: the plugin for claims of the classic generation, where the API server has it.

    ``workload``: what device policies know of the workload beforehand; otherwise they count the pods that are there.
    ``node_order``: which of several nodes with the best score is taken; otherwise the seed of the profile decides.
    """
    known_groups = groups if groups is not None else GroupCache()
    features = Features.of(version.release, gates)
    quirks = PlacementQuirks.of(version, gates)

    def framework(profile: SchedulerProfile) -> Framework:
        if not quirks.allocates_claims:
            disabled = frozenset(profile.plugins.disabled) | {dynamic_resources.PLUGIN}
            profile = replace(profile, plugins=replace(profile.plugins, disabled=disabled))
        options = dynamic_resources.Options(
            features=features,
            quirks=quirks,
            filter_timeout=profile.filter_timeout if quirks.limits_filter_time else 0.0,
            binding_timeout=profile.binding_timeout,
        )
        scorer = Scorer(
            policy_type(profile.device_policy),
            claim_cache.inventory,
            claim_cache.usage,
            features,
            workload=workload,
            typical=profile.typical,
            seed=profile.seed,
            node_order=node_order,
        )
        placement = Placement(
            cluster,
            plugins=profile.plugins,
            scorer=scorer,
            namespaces=namespaces,
            served_by_devices=claim_cache.classes if quirks.serves_extended_resources else (),
            quirks=quirks,
        )
        devices = dynamic_resources.DynamicResources(
            claim_cache,
            options,
            placement.nominator,
            scorer=scorer,
            new_share_id=new_share_id,
            groups=known_groups,
            clock=clock,
            monotonic=monotonic,
        )
        claims = devices if classic is None else classic.beside(devices)
        return Framework(profile, quirks, placement, claims, known_groups)

    return Profiles(map(framework, profiles))
