"""The nodes that pods are nominated to, and the devices that preemption frees for them there.

Upstream's nominator knows nodes alone. Here a nomination may also name devices: those that the victims of a preemption
are about to give back are kept for the pod that preempted them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dray.placement.cache.nodes import ClusterCache
    from dray.placement.cache.pods import PodInfo
    from dray.placement.plugins.dynamic_resources import NodePlan


@dataclass(frozen=True, slots=True)
class DeviceNomination:
    """Devices that are being freed on a node for a pod."""

    plan: NodePlan  # what the pod will get
    awaited: Callable[[], bool]  # whether a victim still has some of it


class Nominator:
    """The nominated pods of one profile."""

    def __init__(self, cluster: ClusterCache) -> None:
        self.nominated: dict[str, dict[str, PodInfo]] = {}  # node → the pods nominated to it, by uid
        self._cluster = cluster
        self._device_nominations: dict[str, DeviceNomination] = {}  # by the uid of the nominated pod

    def nominate(self, pod: PodInfo, node: str, device_nomination: DeviceNomination | None = None) -> None:
        self.delete_nominated_pod(pod.uid)
        if node:
            self.nominated.setdefault(node, {})[pod.uid] = pod
            if device_nomination is not None:
                self._device_nominations[pod.uid] = device_nomination
            self._cluster.touch(node)

    def delete_nominated_pod(self, uid: str) -> None:
        self._device_nominations.pop(uid, None)
        for node, pods in list(self.nominated.items()):
            if pods.pop(uid, None) is not None:
                if not pods:
                    del self.nominated[node]
                self._cluster.touch(node)

    def device_nomination_of(self, uid: str) -> DeviceNomination | None:
        return self._device_nominations.get(uid)

    def nominated_plans(self, pod: PodInfo, node: str) -> list[NodePlan]:
        """What pods of equal or higher priority are to get on the node, and ``pod`` therefore must not."""
        if not self._device_nominations:
            return []
        return [
            device_nomination.plan
            for nominated_pod in self.nominated.get(node, {}).values()
            if nominated_pod.uid != pod.uid
            and nominated_pod.priority >= pod.priority
            and (device_nomination := self._device_nominations.get(nominated_pod.uid)) is not None
        ]
