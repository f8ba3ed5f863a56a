"""One lane per profile: how its pods are decided upon, and which nodes have been promised to them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dray.allocation import POLICIES, Features
from dray.api.release import Gates
from dray.scheduler import devices
from dray.scheduler.config import SchedulerProfile
from dray.scheduler.ledger import Ledger
from dray.scheduler.nodes import Cluster
from dray.scheduler.placement import Placement
from dray.scheduler.pods import Pod


@dataclass(frozen=True, slots=True)
class Lane:
    profile: SchedulerProfile
    options: devices.Options
    placement: Placement


class Lanes:
    """All lanes of one process, over the same cluster."""

    def __init__(self, lanes: Iterable[Lane]) -> None:
        self.by_name: Mapping[str, Lane] = {lane.profile.name: lane for lane in lanes}

    def of(self, pod: Pod) -> Lane:
        return self.by_name[pod.document["spec"].get("schedulerName", "default-scheduler")]

    def withdraw(self, uid: str) -> None:
        """No node is promised to the pod any more."""
        for lane in self.by_name.values():
            if lane.placement.nominated:
                lane.placement.withdraw(uid)

    def displace(self, pod: Pod, node: str) -> list[Pod]:
        """Those who were promised room on a node where a more important pod is about to make room for itself."""
        displaced: list[Pod] = []
        for lane in self.by_name.values():
            guests = lane.placement.nominated.get(node, {}).values()
            less = [guest for guest in guests if guest.priority < pod.priority]
            for guest in less:
                lane.placement.withdraw(guest.uid)
            displaced += less
        return displaced


def lanes_of(
    profiles: Sequence[SchedulerProfile],
    cluster: Cluster,
    ledger: Ledger,
    *,
    gates: Gates,
    release: int,
    advice: bool,
    namespaces: Callable[[], Mapping[str, Mapping[str, str]]],
    rng: random.Random,
) -> Lanes:
    """``advice``: pending pods are told more than upstream's words; without it upstream is followed to the letter."""
    features = Features.of(gates, release=release)

    def lane(profile: SchedulerProfile) -> Lane:
        options = devices.Options(
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
            served_by_devices=ledger.classes if "DRAExtendedResource" in gates else (),
            device_score=devices.policy_score(ledger, options),
            release=release,
            thorough=not advice,
        )
        return Lane(profile, options, placement)

    return Lanes(map(lane, profiles))
