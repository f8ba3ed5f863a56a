"""The controller of a classic driver, in the control plane: it answers PodSchedulingContexts, allocates and deallocates.

The controller adds its finalizer to a claim before it allocates, and removes the finalizer after it has deallocated.
Every write is made on the version that the controller has seen. Whichever step the process dies after, the next process
carries on from what is written.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from dray.api import claims, objects
from dray.api.errors import Conflict, NotFound, StatusError
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.events import EventRecorder
from dray.client.informers import Informers
from dray.client.leaderelection import LeaderElector
from dray.client.resources import PODS, Resource, T
from dray.client.workqueue import WorkQueue
from dray.driver.classic.base import CannotAllocate, ClassicDriver, Pending
from dray.driver.classic.versions import Served, served
from dray.driver.resource_api import wait_for_api
from dray.kubelet_api.failpoints import failpoint

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.api.types.meta import APIGroup
    from dray.api.types.resource_v1alpha2 import (
        PodSchedulingContext,
        ResourceClaim,
        ResourceClaimSchedulingStatus,
        ResourceClaimStatus,
        ResourceClassParametersReference,
    )
    from dray.driver.classic.base import ParametersReference

_log = logging.getLogger(__name__)

MAX_NODES: Final = 128  # in a PodSchedulingContext
_CONFLICT_SECONDS: Final = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    leader_election: bool = False
    namespace: str = "default"  # of the lease
    refresh: float = 30.0  # seconds after which a negotiation under way is looked at again
    reserve: bool = True  # tell of the pod as a consumer together with the allocation


class Key(NamedTuple):
    kind: str  # "claim" or "context"
    namespace: str
    name: str


async def run(
    client: Client, driver: ClassicDriver, *, options: Options, ready: Callable[[], None] | None = None
) -> None:
    """Run a driver's controller until cancelled; with leader election, only while leading."""
    if not options.leader_election:
        await _run(client, driver, options, ready)
        return
    elector = LeaderElector(
        client,
        namespace=options.namespace,
        name=driver.name.replace("/", "-"),
        identity=f"{platform.node()}_{os.getpid()}_{uuid.uuid4()}",
    )
    await elector.run(lambda: _run(client, driver, options, ready))


async def _run(
    client: Client, driver: ClassicDriver, options: Options, ready: Callable[[], None] | None
) -> None:
    classic_api = await wait_for_api(driver.name, lambda: served(client))
    recorder = EventRecorder(client, f"resource driver {driver.name}")
    informers = Informers(client)
    controller = Controller(client, driver, informers, recorder, options, classic_api)
    async with informers, asyncio.TaskGroup() as tasks:
        tasks.create_task(recorder.run())
        await informers.synced()
        if ready is not None:
            ready()
        # One at a time: what a driver decides from must not change under it.
        await controller.queue.run(controller.sync, workers=1)


class Controller:
    def __init__(
        self,
        client: Client,
        driver: ClassicDriver,
        informers: Informers,
        recorder: EventRecorder,
        options: Options,
        served: Served,
    ) -> None:
        self._client = client
        self._served = served
        self._driver = driver
        self._recorder = recorder
        self._options = options
        self._discovery = Discovery(client)
        self._finalizer = f"{driver.name}/deletion-protection"
        self.queue: WorkQueue[Key] = WorkQueue()
        self._written: dict[
            tuple[str, str], ResourceClaim
        ] = {}  # what we wrote and no informer has shown yet
        self._classes = informers.get(served.classes)
        self._claims = informers.get(served.claims)
        self._contexts = informers.get(served.contexts)
        self._claims.add_handler(
            on_add=lambda new: self._look("claim", new),
            on_update=lambda old, new: self._look("claim", new),
            on_delete=lambda old: self._forget(old),
        )
        self._contexts.add_handler(
            on_add=lambda new: self._look("context", new),
            on_update=lambda old, new: self._look("context", new),
        )

    def _look(self, kind: str, document: ResourceClaim | PodSchedulingContext) -> None:
        metadata = document["metadata"]
        self.queue.add(Key(kind, metadata["namespace"], metadata["name"]))

    def _forget(self, claim: ResourceClaim) -> None:
        self._written.pop((claim["metadata"]["namespace"], claim["metadata"]["name"]), None)

    async def sync(self, key: Key) -> float | None:
        if key.kind == "claim":
            claim = self._claims.get(key.namespace, key.name)
            if claim is None:
                return None
            return await self._reported(self._served.claims, claim, self._sync_claim(self._newest(claim)))
        context = self._contexts.get(key.namespace, key.name)
        if context is None:
            return None
        return await self._reported(self._served.contexts, context, self._sync_context(context))

    async def _reported(
        self, resource: Resource[T], document: T, work: Awaitable[float | None]
    ) -> float | None:
        """The outcome of ``work``; an event on the document tells what went wrong."""
        try:
            return await work
        except Conflict:
            return _CONFLICT_SECONDS  # the informer is about to show what somebody else has written
        except (CannotAllocate, StatusError) as problem:
            self._recorder.event(resource, document, "Warning", "Failed", str(problem))
            raise

    # -- claims -----------------------------------------------------------------------------------------------------

    async def _sync_claim(self, claim: ResourceClaim) -> float | None:
        status = claim.get("status") or {}
        if status.get("reservedFor"):
            return None
        if "deletionTimestamp" in claim["metadata"] or status.get("deallocationRequested"):
            if self._finalizer in (claim["metadata"].get("finalizers") or ()):
                await self._free(claim)
            return None
        if status.get("allocation") or claim["spec"].get("allocationMode") != "Immediate":
            return None
        pending = await self._pending("", claim)
        if pending is not None:
            await self._allocate([pending], "", None)
        return None

    async def _free(self, claim: ResourceClaim) -> None:
        await self._driver.deallocate(claim)
        failpoint("deallocate.driver")
        status = claim.get("status") or {}
        if status.get("allocation") or status.get("deallocationRequested"):
            freed = ("allocation", "driverName", "deallocationRequested")
            left = {k: v for k, v in status.items() if k not in freed}
            claim = await self._write_status(claim, cast("ResourceClaimStatus", left))
            failpoint("deallocate.cleared")
        metadata = claim["metadata"]
        finalizers = [f for f in metadata.get("finalizers") or () if f != self._finalizer]
        await self._write({**claim, "metadata": {**metadata, "finalizers": finalizers}})
        failpoint("deallocate.done")

    async def _allocate(self, pending: Sequence[Pending], node: str, pod: Pod | None) -> None:
        protected = []
        for one in pending:
            metadata = one.claim["metadata"]
            finalizers = metadata.get("finalizers") or []
            claim = one.claim
            if self._finalizer not in finalizers:
                claim = await self._write(
                    {**claim, "metadata": {**metadata, "finalizers": [*finalizers, self._finalizer]}}
                )
                failpoint("allocate.protected")
            protected.append(
                Pending(one.entry, claim, one.resource_class, one.claim_parameters, one.class_parameters)
            )
        results = await self._driver.allocate(protected, node=node, others=self._others())
        failpoint("allocate.driver")
        for one, allocation in zip(protected, results, strict=True):
            status: ResourceClaimStatus = {
                **(one.claim.get("status") or {}),
                "allocation": allocation,
                "driverName": self._driver.name,
            }
            if pod is not None and self._options.reserve:
                status["reservedFor"] = [
                    *(status.get("reservedFor") or ()),
                    claims.consumer_reference(pod),
                ]
            await self._write_status(one.claim, status)
            failpoint("allocate.written")

    async def _pending(self, entry: str, claim: ResourceClaim) -> Pending | None:
        """The claim with its parameters, if it is this driver's."""
        resource_class = self._classes.get("", claim["spec"]["resourceClassName"])
        if resource_class is None or resource_class["driverName"] != self._driver.name:
            return None
        if resource_class.get("structuredParameters"):
            return None  # the scheduler's
        driver = self._driver
        of_class = await driver.class_parameters(resource_class, self._lookup)
        of_claim = await driver.claim_parameters(claim, resource_class, self._lookup)
        return Pending(entry, claim, resource_class, of_claim, of_class)

    # -- negotiations -----------------------------------------------------------------------------------------------

    async def _sync_context(self, context: PodSchedulingContext) -> float | None:
        spec, metadata = context.get("spec") or {}, context["metadata"]
        selected, potential = spec.get("selectedNode") or "", list(spec.get("potentialNodes") or ())
        if "deletionTimestamp" in metadata or not (selected or potential):
            return None
        try:
            pod = await self._client.get(PODS, metadata["namespace"], metadata["name"])
        except NotFound:
            return None
        owner = objects.controller_of(context)
        if "deletionTimestamp" in pod["metadata"] or owner is None or owner["uid"] != pod["metadata"]["uid"]:
            return None
        pending = [p for entry in self._references(pod) if (p := await self._of_pod(pod, entry)) is not None]
        if not pending:
            return self._options.refresh
        asked = [*potential, selected] if selected and selected not in potential else potential
        unsuitable: Sequence[Collection[str]] = [() for _ in pending]
        if potential:
            unsuitable = await self._driver.unsuitable_nodes(pod, pending, asked, self._others())
        if selected and not any(selected in nodes for nodes in unsuitable):
            await self._allocate(pending, selected, pod)
        await self._answer(context, pending, unsuitable, selected)
        return self._options.refresh

    def _references(self, pod: Pod) -> Sequence[claims.ClaimReference]:
        """The pod's claims. Where its status does not name them, they have the names that old releases gave."""
        named = (pod.get("status") or {}).get("resourceClaimStatuses")
        return claims.references(pod, fixed_names=not named)

    async def _of_pod(self, pod: Pod, entry: claims.ClaimReference) -> Pending | None:
        known = self._claims.get(pod["metadata"]["namespace"], entry.claim or "")
        if known is None:
            return None
        claim = self._newest(known)
        if entry.generated and claims.not_for_pod(pod, claim):
            return None
        if (
            claim["spec"].get("allocationMode") == "Immediate"
            or (claim.get("status") or {}).get("allocation") is not None
        ):
            return None
        if "deletionTimestamp" in claim["metadata"]:
            return None
        return await self._pending(entry.entry, claim)

    async def _answer(
        self,
        context: PodSchedulingContext,
        pending: Sequence[Pending],
        unsuitable: Sequence[Collection[str]],
        selected: str,
    ) -> None:
        status = context.get("status") or {}
        before = status.get("resourceClaims") or []
        answers = {answer["name"]: answer for answer in before}
        for one, nodes in zip(pending, unsuitable, strict=True):
            # Of a list that is too long, the selected node matters most.
            kept = sorted(nodes, key=lambda node: (node != selected, node))[:MAX_NODES]
            answer: ResourceClaimSchedulingStatus = {"name": one.entry}
            if kept:
                answer["unsuitableNodes"] = sorted(kept)
            answers[one.entry] = answer
        wanted = list(answers.values())
        if wanted != before:
            metadata = context["metadata"]
            changed: PodSchedulingContext = {**context, "status": {**status, "resourceClaims": wanted}}
            await self._client.update_status(self._served.contexts, metadata["namespace"], changed)
            failpoint("negotiate.answered")

    # -- look-ups and writes ----------------------------------------------------------------------------------------

    def _newest(self, claim: ResourceClaim) -> ResourceClaim:
        """The claim as we wrote it, while informers still show it as it was before."""
        claim = self._served.read(claim)
        metadata = claim["metadata"]
        key = (metadata["namespace"], metadata["name"])
        ours = self._written.get(key)
        if ours is None:
            return claim
        theirs = ours["metadata"]
        if theirs["uid"] == metadata["uid"] and int(theirs["resourceVersion"]) > int(
            metadata["resourceVersion"]
        ):
            return ours
        del self._written[key]
        return claim

    def _others(self) -> list[ResourceClaim]:
        """Claims that hold something of this driver."""
        found = (self._newest(claim) for claim in list(self._claims.items()))
        return [c for c in found if (c.get("status") or {}).get("driverName") == self._driver.name and (c.get("status") or {}).get("allocation")]  # fmt: skip

    async def _lookup(
        self, reference: ParametersReference | None, namespace: str
    ) -> Mapping[str, Any] | None:
        if not reference:
            return None
        group, kind, name = reference.get("apiGroup") or "", reference["kind"], reference["name"]
        resource = await self._resource(group, kind)
        if resource is None:
            self._discovery.invalidate()
            raise CannotAllocate(f"parameters {kind} {name}: there is no such kind in {group or 'v1'}")
        where = cast("ResourceClassParametersReference", reference).get("namespace") or namespace
        try:
            found: Mapping[str, Any] = await self._client.get(
                resource, where if resource.namespaced else "", name
            )
            return found
        except NotFound as problem:
            raise CannotAllocate(f"parameters {kind} {name}: {problem.message}") from None

    async def _resource(self, group: str, kind: str) -> Resource[Any] | None:
        if not group:
            return await self._discovery.find("v1", kind)
        try:
            served: APIGroup = (await self._client.request("GET", f"/apis/{group}")).object
        except NotFound:
            return None
        for version in served.get("versions") or ():
            found = await self._discovery.find(version["groupVersion"], kind)
            if found is not None:
                return found
        return None

    async def _write(self, claim: ResourceClaim) -> ResourceClaim:
        namespace, wanted = claim["metadata"]["namespace"], self._served.write(claim)
        return self._wrote(await self._client.update(self._served.claims, namespace, wanted))

    async def _write_status(self, claim: ResourceClaim, status: ResourceClaimStatus) -> ResourceClaim:
        namespace, wanted = claim["metadata"]["namespace"], self._served.write({**claim, "status": status})
        return self._wrote(await self._client.update_status(self._served.claims, namespace, wanted))

    def _wrote(self, claim: ResourceClaim) -> ResourceClaim:
        claim = self._served.read(claim)
        metadata = claim["metadata"]
        if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
            self._written[metadata["namespace"], metadata["name"]] = claim
        return claim
