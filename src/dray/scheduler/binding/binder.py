"""The binding of a pod to its node: its claims are written first (PreBind), then the pod is bound (Bind)."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from dray.api.errors import StatusError
from dray.placement.plugins import dynamic_resources
from dray.scheduler.binding.claim_binding import BindingError, PreFlight

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.client.client import Client
    from dray.placement.cache.pods import PodInfo
    from dray.scheduler.binding.claim_binding import ClaimBinding
    from dray.scheduler.events.reporter import Reporter


class NominatedNodePolicy(Enum):
    """When nominatedNodeName says, before a pod is bound, on which node it will be."""

    NEVER = auto()
    WHEN_WAITING = auto()  # the binding waits for a driver
    ALWAYS = auto()  # as upstream: PreBind writes something


class Binder:
    """Binds pods to their nodes."""

    def __init__(self, client: Client, reporter: Reporter, *, nominate: NominatedNodePolicy) -> None:
        self._client = client
        self._reporter = reporter
        self._nominate = nominate

    async def bind(self, pod: PodInfo, node: str, claims: ClaimBinding) -> None:
        """Raises ``BindingError`` with upstream's words."""
        await self.bind_pod(pod, node, patched_pod=await self.write_claims(pod, node, claims))

    async def write_claims(self, pod: PodInfo, node: str, claims: ClaimBinding) -> Pod | None:
        """PreBind. The pod, if it was written when its nominatedNodeName was set."""
        patched_pod: Pod | None = None
        try:
            if self._sets_nominated_node_name(claims.pre_flight()):
                patched_pod = await self._reporter.set_nominated_node_name(pod, node)
            await claims.write()
        except (StatusError, BindingError) as problem:
            raise _failed(f'PreBind plugin "{dynamic_resources.PLUGIN}"', problem, patched_pod) from problem
        return patched_pod

    async def bind_pod(self, pod: PodInfo, node: str, *, patched_pod: Pod | None = None) -> None:
        """Bind."""
        try:
            await self._client.bind(pod.namespace, pod.name, node, uid=pod.uid)
        except StatusError as problem:
            raise _failed('Bind plugin "DefaultBinder"', problem, patched_pod) from problem
        self._reporter.scheduled(pod, node)

    def _sets_nominated_node_name(self, pre_flight: PreFlight) -> bool:
        match self._nominate:
            case NominatedNodePolicy.ALWAYS:
                return pre_flight is not PreFlight.SKIP
            case NominatedNodePolicy.WHEN_WAITING:
                return pre_flight is PreFlight.WAITS
        return False


def _failed(stage: str, problem: StatusError | BindingError, patched_pod: Pod | None) -> BindingError:
    may_pass = isinstance(problem, StatusError) and (problem.http_code >= 500 or problem.http_code == 429)
    return BindingError(f"running {stage}: {problem}", patched_pod=patched_pod, may_pass=may_pass)
