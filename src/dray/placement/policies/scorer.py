"""A device policy at work on the caches of a scheduler: it scores nodes, orders devices, and draws what is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING

from dray.allocation import Policy
from dray.placement.policies.model import DevicePolicy, NodeState, PolicyError, Request, Setting, Workload
from dray.placement.policies.states import NodeStates, Requests, shape_of
from dray.placement.policies.ties import Ties
from dray.placement.policies.workload import DeclaredWorkload, ObservedWorkload

if TYPE_CHECKING:
    from dray.allocation import Features, Inventory, Usage
    from dray.allocation.search.state import DeviceInPool
    from dray.api.types.resource import ResourceClaim
    from dray.placement.cache.nodes import NodeInfo
    from dray.placement.cache.pods import PodInfo
    from dray.placement.claims import ClaimAttempt
    from dray.placement.policies.model import TypicalShape


class Scorer:
    """One policy over one set of caches."""

    def __init__(
        self,
        policy: type[DevicePolicy],
        inventory: Inventory,
        usage: Usage,
        features: Features,
        *,
        workload: Workload | None = None,
        typical: Sequence[TypicalShape] = (),
        seed: int = 0,
        node_order: Mapping[str, int] | None = None,
    ) -> None:
        """``workload``, ``typical``: what is known of the workload beforehand, or declared.

        Otherwise the pods that are there are counted, for policies that need it.
        """
        self._requests = Requests(inventory, features)
        self._declared = DeclaredWorkload(typical, self._requests) if typical else None
        known = workload or self._declared
        self.observed = ObservedWorkload() if policy.uses_workload and known is None else None
        self._workload = known or self.observed or ObservedWorkload()
        self.ties = Ties(seed, node_order)
        self.policy = _made(policy, Setting(self._workload, seed))
        self.states = NodeStates(inventory, usage, features, sees_claims=policy.sees_claims)
        self._era = 0

    @property
    def known_workload(self) -> Workload | None:
        """The workload as policies see it; None if nobody has to know it."""
        return self._workload if self._declared or self.observed else None

    @property
    def version(self) -> int:
        """Changes when scores may have changed although nodes have not."""
        return self._workload.version if self.policy.uses_workload else 0

    def request(self, pod: PodInfo, attempt: ClaimAttempt | None) -> Request:
        """What the pod asks for, its claims that are allocated already aside."""
        if attempt is None:
            return self._requests.of(pod, (), None)
        return self._requests.of(pod, attempt.unallocated, attempt.shape)

    def request_of_claims(self, pod: PodInfo, claims: Sequence[ResourceClaim]) -> Request:
        """What the pod asks for if these are its claims."""
        return self._requests.of(pod, claims, shape_of(claims))

    def renew(self, era: int) -> None:
        """``era``: changes when something has changed that every node and request may depend on."""
        if era != self._era:
            self._era = era
            self._requests.clear()
            self.states.clear()
            if self._declared is not None:
                self._declared.renew()

    def attempt_begins(self, pod: PodInfo, attempt: ClaimAttempt | None, *, era: int) -> None:
        self.renew(era)
        if self.observed is not None:
            self.observed.add(pod.uid, self.request(pod, attempt))

    def pod_is_gone(self, uid: str) -> None:
        if self.observed is not None:
            self.observed.remove(uid)

    def score(self, request: Request, node: NodeState) -> float:
        try:
            score = self.policy.score(request, node)
            if isfinite(score):
                return score
        except Exception as problem:  # a policy may be anybody's code
            raise self._failed(problem) from problem
        raise PolicyError(f"device policy {self.policy.name!r} gave the score {score}, which is no number")

    def arrangement(self, pod: PodInfo, node: NodeInfo, request: Callable[[], Request]) -> Policy:
        """How the allocator is to order the node's devices for this pod, which asks for ``request``."""
        policy = self.policy
        if not policy.draws_devices and type(policy).order is DevicePolicy.order:
            return policy.arrangement

        def arrange(devices: Sequence[DeviceInPool], usage: Usage) -> list[DeviceInPool]:
            if policy.draws_devices:
                pod_rank = self.ties.rank(pod.key)
                return sorted(devices, key=lambda one: self.ties.mixed(one.device.name, pod_rank))
            order = self._order(request(), self.states.with_usage(node, usage))
            if order is None:
                return list(devices)
            if sorted(order) != list(range(len(devices))):
                raise PolicyError(
                    f"device policy {policy.name!r} ordered {len(devices)} devices as {list(order)}: "
                    "it must name the position of each device once"
                )
            return [devices[position] for position in order]

        return Policy(policy.name, arrange)

    def _order(self, request: Request, node: NodeState) -> Sequence[int] | None:
        try:
            return self.policy.order(request, node)
        except Exception as problem:  # a policy may be anybody's code
            raise self._failed(problem) from problem

    def _failed(self, problem: Exception) -> PolicyError:
        return PolicyError(f"device policy {self.policy.name!r} raised {type(problem).__name__}: {problem}")


def _made(policy: type[DevicePolicy], setting: Setting) -> DevicePolicy:
    try:
        return policy(setting)
    except Exception as problem:  # a policy may be anybody's code
        raise PolicyError(
            f"device policy {policy.name!r} cannot be made: {type(problem).__name__}: {problem}"
        ) from problem
