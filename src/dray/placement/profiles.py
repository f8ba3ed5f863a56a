"""One lane per profile: how its pods are decided upon, and which nodes have been promised to them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dray.allocation import POLICIES, Features
from dray.api.release import Gates, Release
from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.nodes import ClusterCache
from dray.placement.cache.pods import PodInfo
from dray.placement.config import SchedulerProfile
from dray.placement.placement import Placement
from dray.placement.plugins import dynamic_resources


@dataclass(frozen=True, slots=True)
class Framework:
    profile: SchedulerProfile
    options: dynamic_resources.Options
    placement: Placement


class Profiles:
    """All lanes of one process, over the same cluster."""

    def __init__(self, profiles: Iterable[Framework]) -> None:
        self.by_name: Mapping[str, Framework] = {framework.profile.name: framework for framework in profiles}

    def of(self, pod: PodInfo) -> Framework:
        return self.by_name[pod.document["spec"].get("schedulerName", "default-scheduler")]

    def delete_nominated_pod(self, uid: str) -> None:
        """No node is promised to the pod any more."""
        for framework in self.by_name.values():
            if framework.placement.nominated:
                framework.placement.delete_nominated_pod(uid)

    def pop_lower_nominated(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """Those who were promised room on a node where a more important pod is about to make room for itself."""
        lower_nominated: list[PodInfo] = []
        for framework in self.by_name.values():
            nominated_pods = framework.placement.nominated.get(node, {}).values()
            less = [
                nominated_pod for nominated_pod in nominated_pods if nominated_pod.priority < pod.priority
            ]
            for nominated_pod in less:
                framework.placement.delete_nominated_pod(nominated_pod.uid)
            lower_nominated += less
        return lower_nominated


def build_profiles(
    profiles: Sequence[SchedulerProfile],
    cluster: ClusterCache,
    claim_cache: ClaimCache,
    *,
    gates: Gates,
    release: int,
    advice: bool,
    namespaces: Callable[[], Mapping[str, Mapping[str, str]]],
    rng: random.Random,
) -> Profiles:
    """``advice``: pending pods are told more than upstream's words; without it upstream is followed to the letter."""
    features = Features.of(Release(1, release), gates)

    def framework(profile: SchedulerProfile) -> Framework:
        options = dynamic_resources.Options(
            features=features,
            extended_resources="DRAExtendedResource" in gates,
            node_resources="DRANodeAllocatableResources" in gates,
            filter_timeout=profile.filter_timeout if "DRASchedulerFilterTimeout" in gates else 0.0,
            binding_timeout=profile.binding_timeout,
            policy=POLICIES[profile.device_policy],
            advice=advice,
            faithful=not advice,
        )
        placement = Placement(
            cluster,
            profile=profile.placement,
            rng=rng,
            namespaces=namespaces,
            served_by_devices=claim_cache.classes if "DRAExtendedResource" in gates else (),
            device_score=dynamic_resources.policy_score(claim_cache, options),
            release=release,
            thorough=not advice,
        )
        return Framework(profile, options, placement)

    return Profiles(map(framework, profiles))
