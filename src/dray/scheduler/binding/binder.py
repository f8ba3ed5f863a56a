"""Carrying out a decision: claims first, in upstream's order, then the pod.

Every write is conditional on what the decision was based on. Allocation and reservation are one write, so nobody ever
sees one without the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any

from dray.api import claims
from dray.api.errors import Conflict, StatusError
from dray.client.client import Client
from dray.client.resources import PODS, RESOURCE_CLAIMS
from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.pods import NODE_ALLOCATABLE_CLAIM_STATUSES, PodInfo
from dray.placement.decision import Bind
from dray.placement.plugins import dynamic_resources, extended_resources
from dray.scheduler.binding.binding_conditions import BindingConditionsWaiter
from dray.scheduler.events.pod_status import PodStatusWriter, timestamp
from dray.scheduler.events.reporter import Reporter
from dray.scheduler.metrics import Metrics

Document = Any  # documents have no types here yet
_ATTEMPTS = 5


class BindingError(Exception):
    """The pod could not be bound; what was promised to it must be taken back.

    ``reserved``: the claims that have been, or may have been, reserved for it on the way. Other claims may be reserved
    for it too, by another scheduler, and are not ours to release. ``made``: the claim made for extended resources.
    ``announced``: the pod with the node that it was to be on.
    """

    def __init__(
        self,
        message: str,
        *,
        reserved: Sequence[Document] = (),
        made: Document | None = None,
        patched_pod: Document | None = None,
    ) -> None:
        super().__init__(message)
        self.reserved = reserved
        self.made = made
        self.patched_pod = patched_pod


class NominatedNodePolicy(Enum):
    """When to tell, before a pod is bound, on which node it will be."""

    NEVER = auto()
    WHEN_WAITING = auto()  # the binding waits for somebody else
    ALWAYS = auto()  # as upstream: it takes more than one write


class Binder:
    """Writes the claims of a pod and binds it to its node."""

    def __init__(
        self,
        client: Client,
        claim_cache: ClaimCache,
        statuses: PodStatusWriter,
        reporter: Reporter,
        readiness: BindingConditionsWaiter,
        *,
        binding_conditions: bool,
        nominate: NominatedNodePolicy,
        metrics: Metrics,
        dates_all: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``dates_all``: allocations are dated even if they are somebody else's."""
        self._client = client
        self._claim_cache = claim_cache
        self._statuses = statuses
        self._reporter = reporter
        self._readiness = readiness
        self._binding_conditions = binding_conditions
        self._nominate = nominate
        self._metrics = metrics
        self._dates_all = dates_all
        self._clock = clock

    async def bind(self, pod: PodInfo, decision: Bind, *, binding_timeout: float) -> None:
        """Carry out a decision, or raise ``BindingError`` with upstream's words."""
        reserved: list[Document] = []
        patched_pod: Document | None = None
        stage = f'PreBind plugin "{dynamic_resources.PLUGIN}"'
        try:
            if decision.claims or decision.plan is not None:
                conditions = self._binding_conditions and _has_conditions(decision)
                if self._sets_nominated_node_name(conditions or decision.carry is not None):
                    patched_pod = await self._reporter.set_nominated_node_name(pod, decision.node)
                bound = await self._bind_claims(pod, decision, reserved)
                if decision.plan is not None and decision.plan.held:
                    await self._statuses.patch(
                        pod, {NODE_ALLOCATABLE_CLAIM_STATUSES: list(decision.plan.held)}
                    )
                if conditions and any(map(dynamic_resources.wants_binding_conditions, bound)):
                    await self._wait_for_devices(pod, bound, decision.node, binding_timeout)
            if decision.carry is not None:
                await decision.carry.write()
            stage = 'Bind plugin "DefaultBinder"'
            await self._client.bind(pod.namespace, pod.name, decision.node, uid=pod.uid)
        except (StatusError, BindingError) as problem:
            made = problem.made if isinstance(problem, BindingError) else None
            raise BindingError(
                f"running {stage}: {problem}",
                reserved=reserved,
                made=made or _created_claim(reserved),
                patched_pod=patched_pod,
            ) from problem
        self._reporter.scheduled(pod, decision.node)

    def _sets_nominated_node_name(self, waits: bool) -> bool:
        """Whether to say on which node a pod will be; ``waits``: somebody else has to act before it can be bound."""
        return self._nominate is NominatedNodePolicy.ALWAYS or (
            waits and self._nominate is NominatedNodePolicy.WHEN_WAITING
        )

    async def _wait_for_devices(
        self, pod: PodInfo, bound: Sequence[Document], node: str, limit: float
    ) -> None:
        self._reporter.binding_conditions_pending(pod, node)
        outcome = await self._readiness.wait(pod, bound, limit=limit)
        if isinstance(outcome, dynamic_resources.Failed):
            raise BindingError(outcome.message)

    # -- claims -----------------------------------------------------------------------------------------------------

    async def _bind_claims(self, pod: PodInfo, decision: Bind, reserved: list[Document]) -> list[Document]:
        plan = decision.plan or dynamic_resources.NodePlan((), ())
        bound: list[Document] = []
        for claim in decision.claims:
            if not claims.is_reserved_for(claim, pod.uid):
                claim = await self._bind_claim(claim, plan.allocation_for(claim), pod, reserved)
            bound.append(claim)
        if plan.generated is not None:
            bound.append(await self._bind_generated(pod, plan, plan.allocation_for(plan.generated), reserved))
        return bound

    async def _bind_claim(
        self, claim: Document, allocation: Document | None, pod: PodInfo, reserved: list[Document]
    ) -> Document:
        """Finalizer, then allocation and reservation together; from a fresh read if somebody else wrote meanwhile."""
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        who, decided, before = f"{namespace}/{name}", claim, ""
        doing, conflict = "", ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                claim = await self._read_again(namespace, name)
                if claim["metadata"]["resourceVersion"] == before:
                    break  # not the claim has changed: its devices are somebody else's by now
            if "deletionTimestamp" in claim["metadata"]:
                raise BindingError(f"claim {who} got deleted in the meantime")
            try:
                if allocation is not None:
                    if claims.allocation(claim) is not None:
                        raise BindingError(f"claim {who} got allocated elsewhere in the meantime")
                    doing = "add finalizer"
                    claim = await self._protect(claim)
                elif attempt and not _same_devices(claim, decided):
                    raise BindingError(f"claim {who} got allocated elsewhere in the meantime")
                doing = "add allocation and reservation" if allocation is not None else "add reservation"
                before = claim["metadata"]["resourceVersion"]
                wanted = self._reserved(claim, allocation, pod)
                reserved.append(decided)
                written = await self._client.update_status(RESOURCE_CLAIMS, namespace, wanted)  # type: ignore[arg-type]
            except StatusError as problem:
                if problem.http_code < 500 and reserved and reserved[-1] is decided:
                    reserved.pop()  # refused; anything else may have been done all the same
                if isinstance(problem, Conflict):
                    conflict = str(problem)
                    continue
                raise BindingError(f"{doing} to claim {who}: {problem}") from problem
            self._claim_cache.set_claim(written)
            return written
        raise BindingError(f"{doing} to claim {who}: {conflict}")

    async def _read_again(self, namespace: str, name: str) -> Document:
        try:
            return await self._client.get(RESOURCE_CLAIMS, namespace, name)
        except StatusError as problem:
            raise BindingError(f"get updated claim {namespace}/{name} after conflict: {problem}") from problem

    async def _protect(self, claim: Document) -> Document:
        metadata = claim["metadata"]
        finalizers = metadata.get("finalizers") or []
        if claims.FINALIZER in finalizers:
            return claim
        protected = {**claim, "metadata": {**metadata, "finalizers": [*finalizers, claims.FINALIZER]}}
        return await self._client.update(RESOURCE_CLAIMS, metadata["namespace"], protected)  # type: ignore[arg-type]

    def _reserved(self, claim: Document, allocation: Document | None, pod: PodInfo) -> dict[str, Any]:
        status = dict(claim.get("status") or {})
        if allocation is not None:
            status["allocation"] = allocation
        if self._binding_conditions:
            current = status.get("allocation")
            if current is None:
                raise BindingError(
                    f"claim {claim['metadata']['namespace']}/{claim['metadata']['name']} "
                    "got deallocated elsewhere in the meantime"
                )
            # 1.36 dates the allocations of others too, which the API server does not let it do.
            if not current.get("allocationTimestamp") and (allocation is not None or self._dates_all):
                status["allocation"] = {**current, "allocationTimestamp": timestamp(self._clock())}
        status["reservedFor"] = [*(status.get("reservedFor") or ()), claims.consumer_reference(pod.document)]
        return {**claim, "status": status}

    async def _bind_generated(
        self,
        pod: PodInfo,
        plan: dynamic_resources.NodePlan,
        allocation: Document | None,
        reserved: list[Document],
    ) -> Document:
        """The claim for extended resources: made, allocated, and named in the pod's status."""
        assert plan.generated is not None
        claim: Document = plan.generated
        if not claim["metadata"].get("name"):
            try:
                claim = await self._client.create(RESOURCE_CLAIMS, pod.namespace, dict(claim))  # type: ignore[arg-type]
            except StatusError as problem:
                self._metrics.claims_created.inc("failure")
                raise BindingError(
                    f"create claim for extended resources {pod.namespace}/: {problem}"
                ) from problem
            self._metrics.claims_created.inc("success")
            self._claim_cache.assume_created(extended_resources.in_memory_uid(pod), claim)
            try:
                claim = await self._bind_claim(claim, allocation, pod, reserved)
            except BindingError as problem:
                problem.made = claim
                raise
        name = claim["metadata"]["name"]
        await self._name_claim(pod, {"requestMappings": list(plan.mappings), "resourceClaimName": name})
        return claim

    async def _name_claim(self, pod: PodInfo, status: dict[str, Any]) -> None:
        """Only if the pod has no node yet: what a running pod uses is not to be changed under it."""
        for _ in range(_ATTEMPTS):
            current = await self._client.get(PODS, pod.namespace, pod.name)
            if current["metadata"]["uid"] != pod.uid or current["spec"].get("nodeName"):
                raise BindingError(f"pod {pod.key} got a node in the meantime")
            if (current.get("status") or {}).get("extendedResourceClaimStatus") == status:
                return
            try:
                await self._statuses.patch(
                    pod,
                    {"extendedResourceClaimStatus": status},
                    version=current["metadata"]["resourceVersion"],
                )
            except Conflict:
                continue
            return
        raise BindingError(f"name the claim for extended resources in pod {pod.key}: too many conflicts")


def _created_claim(reserved: Sequence[Document]) -> Document | None:
    """The claim for extended resources among those that have been reserved."""
    return next(
        (
            claim for claim in reserved
            if (claim["metadata"].get("annotations") or {}).get(claims.EXTENDED_RESOURCE_ANNOTATION) == "true"
        ),
        None,
    )  # fmt: skip


def _has_conditions(decision: Bind) -> bool:
    """Whether a device has to be made ready for its node, of those that claims are given or have already."""
    if decision.plan is not None and any(
        map(dynamic_resources.has_binding_conditions, decision.plan.results)
    ):
        return True
    return any(map(dynamic_resources.wants_binding_conditions, decision.claims))


def _same_devices(claim: Document, other: Document) -> bool:
    """Whether two versions of a claim have the same devices, for the same nodes."""
    one, two = claims.allocation(claim) or {}, claims.allocation(other) or {}
    return all(one.get(k) == two.get(k) for k in ("devices", "nodeSelector"))
