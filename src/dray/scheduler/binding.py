"""Writing down what was decided: claims first, in upstream's order, then the pod.

Every write is conditional on what the decision was based on. Allocation and reservation are one write, so nobody ever
sees one without the other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import Any, Literal, Protocol

from dray.api import claims
from dray.api.errors import Conflict, NotFound, StatusError
from dray.client.client import Client, PatchType
from dray.client.resources import PODS, RESOURCE_CLAIMS, Resource
from dray.scheduler import devices
from dray.scheduler.deciding import Bind
from dray.scheduler.ledger import Ledger
from dray.scheduler.metrics import Metrics
from dray.scheduler.pods import HELD, Pod
from dray.scheduler.preemption import Preempt

log = logging.getLogger(__name__)

Document = Mapping[str, Any]
_ATTEMPTS = 5
_LONGEST_NOTE, _CUT = 1024, " ..."
#: how often a pod that waits for its devices to bind looks again by itself
_POLL = 5.0


class Recorder(Protocol):
    """Where events about pods go."""

    def event(
        self,
        resource: Resource,
        obj: Any,
        type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        *,
        action: str = "",
        related: tuple[Resource, Any] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None: ...


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
        announced: Document | None = None,
    ) -> None:
        super().__init__(message)
        self.reserved = reserved
        self.made = made
        self.announced = announced


class Nominate(Enum):
    """When to tell, before a pod is bound, on which node it will be."""

    NEVER = auto()
    WHEN_WAITING = auto()  # the binding waits for somebody else
    ALWAYS = auto()  # as upstream: it takes more than one write


class Writer:
    """The scheduler's writes to the API server."""

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        recorder: Recorder,
        *,
        binding_conditions: bool,
        nominate: Nominate,
        metrics: Metrics,
        observes_generation: bool = True,
        names_preemptor: bool = True,
        calls_back: bool = True,
        dates_all: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``observes_generation``: conditions tell which generation of the pod they are about.

        ``names_preemptor``: the event of a pod that had to go refers to the one it had to go for. ``calls_back``: a pod
        that still waits for its devices need not go, it only loses its place. ``dates_all``: allocations are dated even
        if they are somebody else's.
        """
        self._client = client
        self._ledger = ledger
        self._recorder = recorder
        self._binding_conditions = binding_conditions
        self._nominate = nominate
        self._metrics = metrics
        self._observes_generation = observes_generation
        self._names_preemptor = names_preemptor
        self._calls_back = calls_back
        self._dates_all = dates_all
        self._clock = clock
        self._claim_changed: dict[str, asyncio.Event] = {}  # by the pods that wait for their devices
        self._called_back: set[str] = set()  # pods that wait for their devices, and need not any more

    # -- binding ----------------------------------------------------------------------------------------------------

    async def bind(self, pod: Pod, decision: Bind, *, binding_timeout: float) -> None:
        """Carry out a decision, or raise ``BindingError`` with upstream's words."""
        reserved: list[Document] = []
        announced: Document | None = None
        stage = f'PreBind plugin "{devices.PLUGIN}"'
        try:
            if decision.claims or decision.plan is not None:
                conditions = self._binding_conditions and _has_conditions(decision)
                if self._is_worth_telling(conditions or decision.carry is not None):
                    announced = await self._announce(pod, decision.node)
                bound = await self._bind_claims(pod, decision, reserved)
                if decision.plan is not None and decision.plan.held:
                    await self._patch_status(pod, {HELD: list(decision.plan.held)})
                if conditions and any(map(devices.wants_binding_conditions, bound)):
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
                made=made or _made(reserved),
                announced=announced,
            ) from problem
        self._recorder.event(
            PODS,
            pod.document,
            "Normal",
            "Scheduled",
            f"Successfully assigned {pod.namespace}/{pod.name} to {decision.node}",
            action="Binding",
        )

    def _is_worth_telling(self, waits: bool) -> bool:
        """Whether to say on which node a pod will be; ``waits``: somebody else has to act before it can be bound."""
        return self._nominate is Nominate.ALWAYS or (waits and self._nominate is Nominate.WHEN_WAITING)

    async def _announce(self, pod: Pod, node: str) -> Document | None:
        """Say where the pod will be. That it cannot be said keeps nobody from binding it."""
        try:
            return await self._patch_status(pod, {"nominatedNodeName": node})
        except NotFound:
            raise
        except StatusError as problem:
            log.warning("cannot nominate node %s for pod %s: %s", node, pod.key, problem)
            return None

    async def _bind_claims(self, pod: Pod, decision: Bind, reserved: list[Document]) -> list[Document]:
        plan = decision.plan or devices.NodePlan((), ())
        bound: list[Document] = []
        for claim in decision.claims:
            if not claims.is_reserved_for(claim, pod.uid):
                claim = await self._bind_claim(claim, plan.given(claim), pod, reserved)
            bound.append(claim)
        if plan.generated is not None:
            bound.append(await self._bind_generated(pod, plan, plan.given(plan.generated), reserved))
        return bound

    async def _bind_claim(
        self, claim: Document, allocation: Document | None, pod: Pod, reserved: list[Document]
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
                written = await self._client.update_status(RESOURCE_CLAIMS, namespace, wanted)
            except StatusError as problem:
                if problem.http_code < 500 and reserved and reserved[-1] is decided:
                    reserved.pop()  # refused; anything else may have been done all the same
                if isinstance(problem, Conflict):
                    conflict = str(problem)
                    continue
                raise BindingError(f"{doing} to claim {who}: {problem}") from problem
            self._ledger.set_claim(written)
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
        return await self._client.update(RESOURCE_CLAIMS, metadata["namespace"], protected)

    def _reserved(self, claim: Document, allocation: Document | None, pod: Pod) -> dict[str, Any]:
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
        status["reservedFor"] = [*(status.get("reservedFor") or ()), claims.consumer(pod.document)]
        return {**claim, "status": status}

    async def _bind_generated(
        self, pod: Pod, plan: devices.NodePlan, allocation: Document | None, reserved: list[Document]
    ) -> Document:
        """The claim for extended resources: made, allocated, and named in the pod's status."""
        assert plan.generated is not None
        claim: Document = plan.generated
        if not claim["metadata"].get("name"):
            try:
                claim = await self._client.create(RESOURCE_CLAIMS, pod.namespace, dict(claim))
            except StatusError as problem:
                self._metrics.claims_created.inc("failure")
                raise BindingError(
                    f"create claim for extended resources {pod.namespace}/: {problem}"
                ) from problem
            self._metrics.claims_created.inc("success")
            self._ledger.adopt(stand_in(pod), claim)
            try:
                claim = await self._bind_claim(claim, allocation, pod, reserved)
            except BindingError as problem:
                problem.made = claim
                raise
        name = claim["metadata"]["name"]
        await self._name_claim(pod, {"requestMappings": list(plan.mappings), "resourceClaimName": name})
        return claim

    async def _name_claim(self, pod: Pod, status: dict[str, Any]) -> None:
        """Only if the pod has no node yet: what a running pod uses is not to be changed under it."""
        for _ in range(_ATTEMPTS):
            current = await self._client.get(PODS, pod.namespace, pod.name)
            if current["metadata"]["uid"] != pod.uid or current["spec"].get("nodeName"):
                raise BindingError(f"pod {pod.key} got a node in the meantime")
            if (current.get("status") or {}).get("extendedResourceClaimStatus") == status:
                return
            try:
                await self._patch_status(
                    pod,
                    {"extendedResourceClaimStatus": status},
                    version=current["metadata"]["resourceVersion"],
                )
            except Conflict:
                continue
            return
        raise BindingError(f"name the claim for extended resources in pod {pod.key}: too many conflicts")

    async def _wait_for_devices(self, pod: Pod, bound: Sequence[Document], node: str, limit: float) -> None:
        self._recorder.event(
            PODS,
            pod.document,
            "Normal",
            "BindingConditionsPending",
            f"waiting for binding conditions for device on node {node}",
            action="Scheduling",
        )
        changed = self._claim_changed[pod.uid] = asyncio.Event()
        try:
            while True:
                changed.clear()
                if pod.uid in self._called_back:
                    raise BindingError("preempted by DefaultPreemption")
                waiting = False
                for claim in bound:
                    metadata = claim["metadata"]
                    current = self._ledger.claim(metadata["namespace"], metadata["name"])
                    if current is None:
                        who = f"{metadata['namespace']}/{metadata['name']}"
                        raise BindingError(f'could not find ResourceClaim "{who}"')
                    match devices.binding_state(current):
                        case devices.Failed(message):
                            raise BindingError(message)
                        case devices.Waiting():
                            if devices.timed_out(current, limit, self._clock()):
                                raise BindingError(f"device binding timeout: claim={metadata['name']}")
                            waiting = True
                if not waiting:
                    return
                try:
                    async with asyncio.timeout(_POLL):
                        await changed.wait()
                except TimeoutError:
                    continue
        finally:
            del self._claim_changed[pod.uid]
            self._called_back.discard(pod.uid)

    def claims_changed(self) -> None:
        """Some claim changed: whoever waits for devices looks again."""
        for changed in self._claim_changed.values():
            changed.set()

    # -- undoing ----------------------------------------------------------------------------------------------------

    async def unreserve(self, pod: Pod, reserved: Sequence[Document]) -> None:
        """Take back reservations a failed binding has left behind; allocations stay for whoever needs them next."""
        if not reserved or await self._is_bound(pod):
            return
        for claim in reserved:
            metadata = claim["metadata"]
            patch = {
                "metadata": {"uid": metadata["uid"]},
                "status": {"reservedFor": [{"$patch": "delete", "uid": pod.uid}]},
            }
            try:
                await self._client.patch_status(
                    RESOURCE_CLAIMS, metadata["namespace"], metadata["name"], patch, type=PatchType.STRATEGIC
                )
            except NotFound:
                pass
            except StatusError as problem:
                log.warning(
                    "claim %s/%s stays reserved: %s", metadata["namespace"], metadata["name"], problem
                )

    async def release_node(self, pod: Pod) -> None:
        """The binding failed: the pod takes nothing of the node's resources."""
        try:
            await self._patch_status(pod, {HELD: None})
        except NotFound:
            pass
        except StatusError as problem:
            log.warning("pod %s goes on telling what its claims would take: %s", pod.key, problem)

    async def _is_bound(self, pod: Pod) -> bool:
        """Whether the pod has got a node all the same: by a write whose answer was lost, or by another scheduler."""
        try:
            current = await self._client.get(PODS, pod.namespace, pod.name)
        except StatusError:
            return False
        return current["metadata"]["uid"] == pod.uid and bool(current["spec"].get("nodeName"))

    async def deallocate(self, pod: Pod, claim: Document) -> None:
        """An allocated claim that nobody uses kept a pod from its nodes: it may be allocated anew."""
        if claims.is_reserved_for(claim, pod.uid) and await self._is_bound(pod):
            return
        status = {
            k: v
            for k, v in (claim.get("status") or {}).items()
            if k not in ("allocation", "reservedFor", "devices")
        }
        freed = {**claim, "status": status}
        try:
            written = await self._client.update_status(RESOURCE_CLAIMS, claim["metadata"]["namespace"], freed)
        except StatusError as problem:
            log.info("claim %s stays allocated: %s", claim["metadata"]["name"], problem)
        else:
            self._ledger.set_claim(written)

    async def remove(self, pod: Pod, claim: Document) -> None:
        """A claim made for extended resources that came to nothing, as long as it is what it was and nobody uses it."""
        if await self._is_bound(pod):
            return
        metadata = claim["metadata"]
        try:
            finalizers = [f for f in metadata.get("finalizers") or () if f != claims.FINALIZER]
            if finalizers != (metadata.get("finalizers") or []):
                released = {**claim, "metadata": {**metadata, "finalizers": finalizers}}
                claim = await self._client.update(RESOURCE_CLAIMS, metadata["namespace"], released)
            await self._client.delete(
                RESOURCE_CLAIMS,
                metadata["namespace"],
                metadata["name"],
                uid=metadata["uid"],
                resource_version=claim["metadata"]["resourceVersion"],
            )
        except (NotFound, Conflict):
            pass  # it has gone, or somebody has begun to use it
        except StatusError as problem:
            log.warning("claim %s/%s is left over: %s", metadata["namespace"], metadata["name"], problem)

    # -- saying -----------------------------------------------------------------------------------------------------

    async def report(
        self,
        pod: Pod,
        *,
        reason: str,
        message: str,
        nominated: str | None,
        annotations: Mapping[str, str] | None = None,
    ) -> Document | None:
        """Event and condition of a pod that got no node; the pod as it is then, if that changed it.

        ``nominated``: None leaves the promise as it is.
        """
        self._recorder.event(
            PODS,
            pod.document,
            "Warning",
            "FailedScheduling",
            _shortened(message),
            action="Scheduling",
            annotations=annotations,
        )
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        change: dict[str, Any] = {}
        updated = self._condition(pod, condition)
        if updated is not None:
            change["conditions"] = [updated]
        if nominated is not None and nominated != pod.nominated_node:
            change["nominatedNodeName"] = nominated or None
        if change:
            try:
                return await self._patch_status(pod, change)
            except NotFound:
                pass
            except StatusError as problem:
                log.warning("cannot update the status of pod %s: %s", pod.key, problem)
        return None

    def skipped(self, pod: Pod) -> None:
        """Event of a pod that was about to be tried when it was deleted."""
        text = f"skip schedule deleting pod: {pod.namespace}/{pod.name}"
        self._recorder.event(PODS, pod.document, "Warning", "FailedScheduling", text, action="Scheduling")

    def waiting(self, pod: Pod, why: str) -> None:
        """Event of a pod that is not tried before its claims are there."""
        text = f"waiting for the claims of the pod: {why}"
        self._recorder.event(PODS, pod.document, "Warning", "FailedScheduling", text, action="Scheduling")

    async def preempt(
        self,
        pod: Pod,
        chosen: Preempt,
        *,
        scheduler: str,
        displaced: Sequence[Pod] = (),
        for_devices: bool = False,
    ) -> None:
        """Evict the victims: tell them why, then delete them.

        ``displaced``: less important pods that were promised room on the node, which they will not find there.
        ``for_devices``: what the victims' claims have is to come free, as it does when they are gone.
        """
        for other in displaced:
            await self._withdraw(other)
        for victim in reversed(chosen.victims):
            if victim.terminating:
                continue
            text = f"Preempted by pod {pod.uid} on node {chosen.node}"
            if not for_devices and self._call_back(victim):
                text += " (in kube-scheduler memory)."
            elif not await self._evict(victim, scheduler):
                continue
            self._recorder.event(
                PODS,
                victim.document,
                "Normal",
                "Preempted",
                text,
                action="Preempting",
                related=(PODS, pod.document) if self._names_preemptor else None,
            )

    def _call_back(self, victim: Pod) -> bool:
        """Stop waiting for the devices of a pod that is not on its node yet."""
        waiting = self._claim_changed.get(victim.uid) if self._calls_back else None
        if waiting is None:
            return False
        self._called_back.add(victim.uid)
        waiting.set()
        return True

    async def _evict(self, victim: Pod, scheduler: str) -> bool:
        """False: it has gone already."""
        condition = {
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": f"{scheduler}: preempting to accommodate a higher priority pod",
        }  # fmt: skip
        try:
            updated = self._condition(victim, condition)
            if updated is not None:
                await self._patch_status(victim, {"conditions": [updated]})
            await self._client.delete(PODS, victim.namespace, victim.name, uid=victim.uid)
        except (NotFound, Conflict):
            return False
        return True

    async def _withdraw(self, pod: Pod) -> None:
        """Take back what a pod was told about the node that it will be on."""
        try:
            await self._patch_status(pod, {"nominatedNodeName": None})
        except NotFound:
            pass
        except StatusError as problem:
            log.warning("pod %s keeps the node it was promised: %s", pod.key, problem)

    def _condition(self, pod: Pod, condition: dict[str, Any]) -> dict[str, Any] | None:
        """The condition with its times, or None when the pod says so already."""
        now = timestamp(self._clock())
        generation = pod.document["metadata"].get("generation") if self._observes_generation else None
        about = {"observedGeneration": generation} if generation else {}
        for known in (pod.document.get("status") or {}).get("conditions") or ():
            if known.get("type") == condition["type"]:
                if all(known.get(k) == v for k, v in condition.items()):
                    return None
                since = known.get("lastTransitionTime") if known.get("status") == condition["status"] else now
                return {**condition, **about, "lastProbeTime": None, "lastTransitionTime": since or now}
        return {**condition, **about, "lastProbeTime": None, "lastTransitionTime": now}

    async def _patch_status(self, pod: Pod, status: dict[str, Any], *, version: str = "") -> Document:
        metadata = {"uid": pod.uid, "resourceVersion": version} if version else {"uid": pod.uid}
        patch = {"metadata": metadata, "status": status}
        return await self._client.patch_status(PODS, pod.namespace, pod.name, patch, type=PatchType.STRATEGIC)


def _shortened(message: str) -> str:
    """Cut where upstream cuts: an event's note has its limit, the pod's condition has none."""
    data = message.encode()
    if len(data) <= _LONGEST_NOTE:
        return message
    return data[: _LONGEST_NOTE - len(_CUT)].decode(errors="ignore") + _CUT


def _made(reserved: Sequence[Document]) -> Document | None:
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
    if decision.plan is not None and any(map(devices.has_binding_conditions, decision.plan.results)):
        return True
    return any(map(devices.wants_binding_conditions, decision.claims))


def _same_devices(claim: Document, other: Document) -> bool:
    """Whether two versions of a claim have the same devices, for the same nodes."""
    one, two = claims.allocation(claim) or {}, claims.allocation(other) or {}
    return all(one.get(k) == two.get(k) for k in ("devices", "nodeSelector"))


def stand_in(pod: Pod) -> str:
    """The uid under which a claim yet to be made is known."""
    return f"extended-resources-of-{pod.uid}"


def timestamp(seconds: float) -> str:
    return _timestamp(int(seconds))


@lru_cache(maxsize=1)  # within a second thousands may be asked for
def _timestamp(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
