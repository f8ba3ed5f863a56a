"""The scheduler's caches, profile and queue under a clock of virtual time.

This is the wiring that the scheduler's shell does in a cluster. There is no other model of a node, a device or a claim.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from dray.api.release import EffectiveVersion
from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.groups import GroupCache
from dray.placement.cache.nodes import ClusterCache
from dray.placement.cache.pods import PodInfo
from dray.placement.config import SchedulerProfile
from dray.placement.plugins import pod_topology_spread
from dray.placement.policies.model import PolicyError, Workload
from dray.placement.policies.scorer import Scorer
from dray.placement.policies.workload import KnownWorkload, ObservedWorkload
from dray.placement.profiles import Framework, build_profiles
from dray.scheduler.queue.pending_pods import PendingPods
from dray.scheduler.queue.scheduling_queue import SchedulingQueue
from dray.simulate.model import Options, SimulationError


class Clock:
    """The virtual time in seconds. The engine sets it, and everything else reads it."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class _NoOwners:
    """No workload owns the pods, so none spreads them by default."""

    def get(self, namespace: str, name: str) -> None:
        return None

    def items(self) -> tuple[()]:
        return ()


class Components:
    """What decides about pods, and what it knows of the cluster."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.clock = Clock()
        self.cluster = ClusterCache()
        self.claims = ClaimCache(freed=self.cluster.touch_nodes)
        self.groups = GroupCache()
        version = EffectiveVersion()
        profile = SchedulerProfile(
            device_policy=options.policy,
            device_preemption=options.device_preemption,
            typical=tuple(options.typical_shapes),
            seed=options.seed,
        )
        known = KnownWorkload(options.typical) if options.typical is not None else None
        share = itertools.count(1)
        try:
            self.profiles = build_profiles(
                (profile,),
                self.cluster,
                self.claims,
                gates=version.gates(),
                version=version,
                namespaces=dict,
                workload=known,
                node_order=options.node_order,
                new_share_id=lambda: f"share-{next(share)}",
                groups=self.groups,
                clock=self.clock,
                monotonic=self.clock,
            )
        except PolicyError as problem:
            raise SimulationError(str(problem)) from problem
        self.framework: Framework = self.profiles.by_name[profile.name]
        scorer = self.framework.placement.scorer
        assert scorer is not None
        self.scorer: Scorer = scorer
        self.queue = SchedulingQueue(clock=self.clock)
        self.pending = PendingPods(
            self.queue,
            self.profiles,
            requeued_by_any_change=False,
            skipped=lambda pod: None,
            groups=self.groups,
            cluster=self.cluster,
            clock=self.clock,
        )
        #: counted here where no policy has to know the workload
        self.observed = ObservedWorkload() if known is None and scorer.known_workload is None else None
        workload = known or scorer.known_workload or self.observed
        assert workload is not None
        self.workload: Workload = workload
        nobody = _NoOwners()
        self._owners = pod_topology_spread.DefaultSelectors(
            services=nobody, replica_sets=nobody, stateful_sets=nobody
        )

    def spread(self, pod: PodInfo) -> Sequence[pod_topology_spread.SpreadConstraint]:
        if not pod.spread:
            return ()
        return pod_topology_spread.spread_constraints(
            pod, self._owners, pod_topology_spread.SYSTEM_DEFAULT_CONSTRAINTS
        )
