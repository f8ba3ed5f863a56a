"""What pods ask for, as device policies see it, before any of them is scheduled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dray.allocation import Features, Inventory
from dray.api.release import EffectiveVersion
from dray.placement.cache.pods import PodInfoFactory
from dray.placement.policies.model import Request
from dray.placement.policies.states import Requests, shape_of

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.api.types.resource import ResourceClaim
    from dray.simulate.model import Cluster


def requests_of(cluster: Cluster, pods: Iterable[tuple[Pod, tuple[ResourceClaim, ...]]]) -> Iterator[Request]:
    """The request of each pod with its claims, in a cluster with these device classes."""
    version = EffectiveVersion()
    features = Features.of(version.release, version.gates())
    requests = Requests(Inventory(classes=cluster.classes), features)
    infos = PodInfoFactory(512)
    for pod, claims in pods:
        yield requests.of(infos.of(pod), claims, shape_of(claims))
