"""A whole DRA cluster inside a test: API server, scheduler, controllers, nodes and devices, in well under a second.

With pytest, ``pip install dray[testing]`` brings the fixtures ``dray_cluster``, ``dray_namespace``, ``dray_client`` and
``dray_kubectl``. Elsewhere:

    with dray.testing.cluster(nodes=3) as cluster:
        cluster.apply(dray.testing.pod("train", claims={"gpu": "my-template"}))
        cluster.wait_for_pod("train")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.exports import lazy

if TYPE_CHECKING:
    from dray.testing.case import ClusterTestCase
    from dray.testing.client import SyncClient
    from dray.testing.drivers import Crash, DriverProcess, RunningDriver
    from dray.testing.environment import Cluster, ClusterError, Settings, cluster
    from dray.testing.objects import claim, claim_template, device, device_class, node, pod, resource_slice
    from dray.testing.wait import wait_for

__all__ = [
    "Cluster",
    "ClusterError",
    "ClusterTestCase",
    "Crash",
    "DriverProcess",
    "RunningDriver",
    "Settings",
    "SyncClient",
    "claim",
    "claim_template",
    "cluster",
    "device",
    "device_class",
    "node",
    "pod",
    "resource_slice",
    "wait_for",
]

__getattr__ = lazy(
    __name__,
    {
        "Cluster": "environment",
        "ClusterError": "environment",
        "ClusterTestCase": "case",
        "Crash": "drivers",
        "DriverProcess": "drivers",
        "RunningDriver": "drivers",
        "Settings": "environment",
        "SyncClient": "client",
        "claim": "objects",
        "claim_template": "objects",
        "cluster": "environment",
        "device": "objects",
        "device_class": "objects",
        "node": "objects",
        "pod": "objects",
        "resource_slice": "objects",
        "wait_for": "wait",
    },
)
