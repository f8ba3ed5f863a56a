"""The manager prepares claims before a pod starts and unprepares them after the last pod that used them has gone.

Upstream's rules: everything is checked before anything is changed; the intent is on disk before a driver is called
and the outcome before the pod goes on; each driver is called once for all claims of a pod; a claim that several pods
share is prepared once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from dray.api.errors import StatusError
from dray.api.identity import PoolDevice
from dray.kubelet_api.failpoints import failpoint
from dray.node.dra.claiminfo import ClaimInfo, ClaimInfoCache, PreparedDevice
from dray.node.dra.claims import (
    PREPARE,
    UNPREPARE,
    ClaimError,
    PodClaim,
    check_claim,
    container_claims,
    drivers_of,
    known_claims,
    pod_claims,
    skipped_operations,
)
from dray.node.dra.classic.handles import is_classic, resource_handles
from dray.node.dra.grpc_versions import CallFailed, ClaimRef
from dray.node.dra.plugin import Plugin, Plugins
from dray.node.metrics import Metrics

if TYPE_CHECKING:
    from dray.api.types.core import Container, Pod
    from dray.api.types.resource import ResourceClaim
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim

log = logging.getLogger(__name__)

#: Seconds between looks for claims that no pod uses any more.
RECONCILE_PERIOD = 60.0

_A = TypeVar("_A")


class Manager:
    """The claims of one node."""

    def __init__(
        self,
        *,
        claims: Callable[[str, str], Awaitable[ResourceClaim | ClassicClaim]],
        state: ClaimInfoCache,
        plugins: Plugins,
        metrics: Metrics,
        fixed_names: bool = False,
        prepares: bool = True,
        skips_operations: bool = True,
    ) -> None:
        """``fixed_names``: claims made from templates are called as old releases called them.
        ``prepares``: otherwise nothing is prepared, whatever claims a pod has.
        ``skips_operations``: devices may do without calls of their driver.
        """
        self._skips_operations = skips_operations
        self._prepares = prepares
        self._get_claim = claims
        self._fixed_names = fixed_names
        self._state = state
        self._plugins = plugins
        self._metrics = metrics
        self._locks: dict[tuple[str, str], _Lock] = {}
        metrics.count_claims_with(self.claims_in_use)

    async def prepare(self, pod: Pod) -> None:
        """Prepares all claims of a pod, or raises ClaimError."""
        if not self._prepares:
            return
        started, failed = time.monotonic(), True
        try:
            await self._prepare(pod)
            failed = False
        except ClaimError as e:
            raise ClaimError(f"prepare dynamic resources: {e}") from e
        finally:
            took = time.monotonic() - started
            self._metrics.dra_operations.observe(took, "PrepareResources", str(failed).lower())

    async def unprepare(self, pod: Pod) -> None:
        """Gives up the pod's claims; those that no other pod uses are unprepared. Raises ClaimError."""
        started, failed = time.monotonic(), True
        metadata = pod["metadata"]
        names = {c.claim for c in self.claims_of(pod)}
        names |= {c.name for c in self._state.used_by(metadata["uid"])}
        try:
            await self._unprepare(metadata["uid"], metadata["namespace"], sorted(names))
            failed = False
        except ClaimError as e:
            raise ClaimError(f"unprepare dynamic resources: {e}") from e
        finally:
            took = time.monotonic() - started
            self._metrics.dra_operations.observe(took, "UnprepareResources", str(failed).lower())

    async def reconcile(self, active: Iterable[str]) -> None:
        """Unprepares what is still held for pods that are no longer there."""
        active = set(active)
        stale: dict[str, dict[str, list[str]]] = {}
        for info in self._state.all():
            for uid in info.pods - active:
                stale.setdefault(uid, {}).setdefault(info.namespace, []).append(info.name)
        for uid, by_namespace in stale.items():
            for namespace, names in by_namespace.items():
                try:
                    await self._unprepare(uid, namespace, names)
                except ClaimError as e:
                    log.info("claims of pod %s, which is gone, are still to be unprepared: %s", uid, e)

    def claims_of(self, pod: Pod) -> list[PodClaim]:
        """The claims of a pod that are known so far."""
        return known_claims(pod, fixed_names=self._fixed_names)

    def holds_claims_of(self, pod_uid: str) -> bool:
        return bool(self._state.used_by(pod_uid))

    def cdi_devices(self, pod: Pod, container: Container) -> list[str]:
        """The CDI devices that a container gets, each once."""
        ids: dict[str, None] = {}
        for info, request in self._uses(pod, container):
            for _, device in info.devices_for(request):
                ids |= dict.fromkeys(device.cdi_ids)
        return list(ids)

    def container_devices(
        self, pod: Pod, container: Container
    ) -> list[tuple[ClaimInfo, list[tuple[str, PreparedDevice]]]]:
        """The prepared devices behind a container's claims, claim by claim."""
        found: dict[tuple[str, str], tuple[ClaimInfo, dict[tuple[str, PreparedDevice], None]]] = {}
        for info, request in self._uses(pod, container):
            _, devices = found.setdefault((info.namespace, info.name), (info, {}))
            devices |= dict.fromkeys(info.devices_for(request))
        return [(info, list(devices)) for info, devices in found.values()]

    def claim(self, namespace: str, name: str) -> ClaimInfo | None:
        return self._state.get(namespace, name)

    def pods_using(self, driver: str, devices: Iterable[PoolDevice]) -> set[str]:
        """The pods with a claim on one of these devices of a driver."""
        wanted = set(devices)
        return {
            uid
            for info in self._state.all()
            if any(d.id in wanted for d in info.drivers.get(driver, ()))
            for uid in info.pods
        }

    def claims_in_use(self) -> dict[str, int]:
        prepared = [c for c in self._state.all() if c.prepared]
        counts = Counter(driver for c in prepared for driver in c.drivers)
        return {**counts, "<any>": len(prepared)}

    def _uses(self, pod: Pod, container: Container) -> list[tuple[ClaimInfo, str]]:
        namespace = pod["metadata"]["namespace"]
        used = container_claims(pod, container, fixed_names=self._fixed_names)
        uses = [(self._state.get(namespace, c.claim), c.request) for c in used]
        return [(info, request) for info, request in uses if info is not None]

    async def _prepare(self, pod: Pod) -> None:
        metadata = pod["metadata"]
        wanted = pod_claims(pod, fixed_names=self._fixed_names)
        if not wanted:
            return
        async with self._locked(metadata["namespace"], [c.claim for c in wanted]):
            # Nothing is changed before all is known to be in order: a pod that fails here can be deleted
            # without a driver that may never have been installed.
            claims = await asyncio.gather(*(self._checked(pod, c) for c in wanted))
            plugins = {
                driver: self._plugin(driver)
                for claim in claims
                for driver in drivers_of(claim)
                if PREPARE not in self._skipped(claim).get(driver, ())
            }
            todo = [info for claim in claims if not (info := self._add_pod(claim, metadata["uid"])).prepared]
            self._state.save()
            failpoint("node.prepare.enlisted")
            batches: dict[str, list[ClaimInfo]] = {}
            for info in todo:
                for driver in info.drivers_to_call(PREPARE):
                    batches.setdefault(driver, []).append(info)
            await _all(self._call_prepare(plugins[driver], batch) for driver, batch in batches.items())
            failpoint("node.prepare.called")
            for info in todo:
                self._change(info, prepared=True)
            if todo:
                self._state.save(wait=False)
            failpoint("node.prepare.done")

    async def _checked(self, pod: Pod, pod_claim: PodClaim) -> ResourceClaim | ClassicClaim:
        try:
            claim = await self._get_claim(pod["metadata"]["namespace"], pod_claim.claim)
        except StatusError as e:
            raise ClaimError(f"fetch ResourceClaim {pod_claim.claim}: {e.message}") from e
        check_claim(pod, claim, pod_claim)
        return claim

    def _plugin(self, driver: str) -> Plugin:
        plugin = self._plugins.get(driver)
        if plugin is None:
            raise ClaimError(f"DRA driver {driver} is not registered")
        return plugin

    def _skipped(self, claim: ResourceClaim | ClassicClaim) -> dict[str, frozenset[str]]:
        skipped = skipped_operations(claim)
        if skipped and not self._skips_operations:
            raise ClaimError(
                f"ResourceClaim {claim['metadata']['name']}: "
                "DRAOptionalNodeOperations feature gate is disabled on kubelet"
            )
        return skipped

    def _add_pod(self, claim: ResourceClaim | ClassicClaim, pod_uid: str) -> ClaimInfo:
        """Notes that the pod uses the claim."""
        metadata = claim["metadata"]
        info = self._state.get(metadata["namespace"], metadata["name"])
        if info is None:
            info = ClaimInfo(
                namespace=metadata["namespace"],
                name=metadata["name"],
                uid=metadata["uid"],
                drivers=dict.fromkeys(drivers_of(claim), ()),
                handles=resource_handles(claim),
                class_name=claim["spec"]["resourceClassName"] if is_classic(claim) else "",
                skips=self._skipped(claim),
            )
        elif info.uid != metadata["uid"]:
            raise ClaimError(
                f"old ResourceClaim with same name {info.name} and different UID {info.uid} still exists "
                "(previous pod force-deleted?!)"
            )
        info = info.with_pod(pod_uid)
        self._state.put(info)
        return info

    def _change(self, info: ClaimInfo, *, prepared: bool) -> None:
        current = self._state.get(info.namespace, info.name) or info
        self._state.put(replace(current, prepared=prepared))

    async def _call_prepare(self, plugin: Plugin, infos: Sequence[ClaimInfo]) -> None:
        try:
            answers = await plugin.prepare([_reference(i, plugin.driver) for i in infos])
        except CallFailed as e:
            raise ClaimError(f"NodePrepareResources: {e}") from e
        for info, answer in _by_claim("NodePrepareResources", infos, answers):
            if answer.error:
                raise ClaimError(f"NodePrepareResources failed for ResourceClaim {info.name}: {answer.error}")
            current = self._state.get(info.namespace, info.name) or info
            self._state.put(current.with_devices(plugin.driver, answer.devices))

    async def _unprepare(self, pod_uid: str, namespace: str, names: Sequence[str]) -> None:
        async with self._locked(namespace, names):
            infos = [i for n in names if (i := self._state.get(namespace, n)) and pod_uid in i.pods]
            if not infos:
                return
            last = [i for i in infos if i.pods == {pod_uid}]
            for info in infos:
                if info not in last:
                    self._state.put(info.without_pod(pod_uid))
                elif info.prepared:
                    # From here on the claim does not count as prepared, however far the drivers get.
                    self._change(info, prepared=False)
            self._state.save()
            failpoint("node.unprepare.begun")
            batches: dict[str, list[ClaimInfo]] = {}
            for info in last:
                for driver in info.drivers_to_call(UNPREPARE):
                    batches.setdefault(driver, []).append(info)
            plugins = {driver: self._plugin(driver) for driver in batches}
            await _all(self._call_unprepare(plugins[d], batch) for d, batch in batches.items())
            failpoint("node.unprepare.called")
            for info in last:
                self._state.remove(info.namespace, info.name)
            if last:
                self._state.save()
            failpoint("node.unprepare.done")

    async def _call_unprepare(self, plugin: Plugin, infos: Sequence[ClaimInfo]) -> None:
        try:
            errors = await plugin.unprepare([_reference(i, plugin.driver) for i in infos])
        except CallFailed as e:
            raise ClaimError(f"NodeUnprepareResources: {e}") from e
        for info, error in _by_claim("NodeUnprepareResources", infos, errors):
            if error:
                raise ClaimError(f"NodeUnprepareResources failed for ResourceClaim {info.name}: {error}")

    @asynccontextmanager
    async def _locked(self, namespace: str, names: Iterable[str]) -> AsyncIterator[None]:
        """Pods that share claims wait for one another; always in the same order, so that none waits for ever."""
        async with AsyncExitStack() as held:
            for key in sorted({(namespace, name) for name in names}):
                await held.enter_async_context(self._lock(key))
            yield

    @asynccontextmanager
    async def _lock(self, key: tuple[str, str]) -> AsyncIterator[None]:
        lock = self._locks.setdefault(key, _Lock())
        lock.users += 1
        try:
            async with lock:
                yield
        finally:
            lock.users -= 1
            if not lock.users:
                del self._locks[key]


class _Lock(asyncio.Lock):
    """A lock that knows how many hold it or wait for it, so that it can be forgotten in time."""

    users = 0


def _by_claim(
    method: str, infos: Sequence[ClaimInfo], answers: Mapping[str, _A]
) -> Iterator[tuple[ClaimInfo, _A]]:
    """A driver's answers with their claims. Raises ClaimError if one is about another claim, or if one is missing."""
    by_uid = {info.uid: info for info in infos}
    for uid, answer in answers.items():
        info = by_uid.get(uid)
        if info is None:
            raise ClaimError(f"{method} returned result for unknown claim UID {uid}")
        yield info, answer
    if skipped := len(by_uid) - len(answers):
        raise ClaimError(f"{method} skipped {skipped} ResourceClaims")


def _reference(info: ClaimInfo, driver: str) -> ClaimRef:
    """The claim as a driver is told of it."""
    handles = tuple(handle for handle in info.handles if handle.driver == driver)
    ids = tuple(i for device in info.drivers.get(driver, ()) for i in device.cdi_ids) if handles else ()
    return ClaimRef(info.namespace, info.name, info.uid, handles, ids)


async def _all(calls: Iterable[Awaitable[None]]) -> None:
    """All calls to their end; then the first problem, if there was one."""
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
