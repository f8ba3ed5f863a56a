"""Answers ResourcePoolStatusRequests: a request asks how many devices of a driver's pools are available, and gets one answer.

The controller deletes a request an hour after it was answered, or a day after it was created if it got no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from dray.api.errors import NotFound
from dray.api.times import from_epoch, to_epoch
from dray.client.resources import (
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIMS,
    RESOURCE_POOL_STATUS_REQUESTS,
    RESOURCE_SLICES,
)
from dray.controllers.controller import Controller, ControllerContext
from dray.controllers.devicetainteviction import eviction
from dray.controllers.pool_summaries import PoolDevices, summarize

if TYPE_CHECKING:
    from dray.api.types.meta import Condition
    from dray.api.types.resource import Device, DeviceTaintRule, ResourceClaim, ResourceSlice
    from dray.api.types.resource_v1alpha3 import (
        PoolStatus,
        ResourcePoolStatusRequest,
        ResourcePoolStatusRequestStatus,
    )


COMPLETED_REQUEST_TTL_SECONDS: Final = 3600.0
PENDING_REQUEST_TTL_SECONDS: Final = 24 * 3600.0
#: What drivers are given to publish the rest of a pool before an answer says that it is incomplete.
INCOMPLETE_POOL_SECONDS: Final = 5.0
#: The same where the request then stays unanswered.
_OLD_INCOMPLETE_POOL_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 0.5
_DEFAULT_LIMIT: Final = 100
_MAX_ERROR: Final = 256
_UNAVAILABLE_EFFECTS: Final = ("NoSchedule", "NoExecute")


# -- decisions ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Pool:
    """What the slices of a pool's newest generation add up to."""

    generation: int
    expected: int
    node: str
    slices: int = 0
    devices: int = 0
    unavailable: int = 0
    mixed: bool = False  # slices of several nodes
    allocated: int = 0
    taken: set[str] = field(default_factory=set)
    contents: PoolDevices = field(default_factory=PoolDevices)


@dataclass(frozen=True, slots=True)
class CountingRules:
    """How devices are counted. At first a device counted once for each claim that has it, and taints did not matter."""

    once: bool = True
    taints: bool = True
    summaries: bool = True  # partitions and shared devices are summed up
    rules: tuple[DeviceTaintRule, ...] = ()


def pool_status(
    request: ResourcePoolStatusRequest,
    slices: Iterable[ResourceSlice],
    claims: Iterable[ResourceClaim],
    *,
    counting: CountingRules,
    now: str,
) -> ResourcePoolStatusRequestStatus:
    """The status that answers a request."""
    spec = request["spec"]
    found = _pools(spec["driver"], spec.get("poolName") or "", slices, counting)
    _count_allocations(spec["driver"], found, claims, counting)
    attribute = spec.get("defaultPartitionTypeAttribute") or ""
    pools = [_status(spec["driver"], name, pool, counting, attribute) for name, pool in sorted(found.items())]
    shown = pools[: spec.get("limit") or _DEFAULT_LIMIT]
    incomplete = sum("validationError" in pool for pool in shown)
    text = f"Calculated status for {len(shown)} pools" + (f" ({incomplete} incomplete)" if incomplete else "")
    condition: Condition = {
        "type": "Complete", "status": "True", "lastTransitionTime": now,
        "reason": "CalculationComplete", "message": text,
    }  # fmt: skip
    return {"poolCount": len(pools), "pools": shown, "conditions": [condition]}


def is_incomplete(status: ResourcePoolStatusRequestStatus) -> bool:
    return any("validationError" in pool and "totalDevices" not in pool for pool in status["pools"])


def _pools(
    driver: str, only: str, slices: Iterable[ResourceSlice], counting: CountingRules
) -> dict[str, _Pool]:
    found: dict[str, _Pool] = {}
    for document in slices:
        spec = document["spec"]
        pool = spec["pool"]
        name, generation = pool["name"], pool["generation"]
        if spec["driver"] != driver or (only and name != only):
            continue
        known = found.get(name)
        node = spec.get("nodeName") or ""
        if known is None or generation > known.generation:
            known = found[name] = _Pool(generation, pool["resourceSliceCount"], node)
        elif generation < known.generation:
            continue
        devices = spec.get("devices") or ()
        known.slices += 1
        if counting.summaries:
            known.contents.add(spec)
        known.devices += len(devices)
        known.mixed = known.mixed or node != known.node
        if counting.taints:
            known.unavailable += sum(_unavailable(driver, name, d, counting.rules) for d in devices)
    return found


def _unavailable(driver: str, pool: str, device: Device, rules: Iterable[DeviceTaintRule]) -> bool:
    if any(t.get("effect") in _UNAVAILABLE_EFFECTS for t in device.get("taints") or ()):
        return True
    return any(
        r["spec"]["taint"]["effect"] in _UNAVAILABLE_EFFECTS
        and eviction.rule_selects(r, driver, pool, device["name"])
        for r in rules
    )


def _count_allocations(
    driver: str, pools: Mapping[str, _Pool], claims: Iterable[ResourceClaim], counting: CountingRules
) -> None:
    for claim in claims:
        for result in eviction.allocation_results(claim):
            pool = pools.get(result["pool"]) if result["driver"] == driver else None
            if pool is None or (counting.once and result.get("adminAccess")):
                continue
            pool.allocated += 1
            pool.taken.add(result["device"])
            pool.contents.consume(result.get("consumedCapacity") or {})


def _status(
    driver: str, name: str, pool: _Pool, counting: CountingRules, default_attribute: str
) -> PoolStatus:
    status: PoolStatus = {"driver": driver, "poolName": name, "generation": pool.generation}
    if pool.node and not pool.mixed:
        status["nodeName"] = pool.node
    if pool.slices < pool.expected:
        problem = (
            f"pool {driver}/{name} is incomplete: observed {pool.slices}/{pool.expected} slices "
            f"at generation {pool.generation}"
        )
        status["validationError"] = problem[:_MAX_ERROR]
        return status
    allocated = len(pool.taken) if counting.once else pool.allocated
    status |= {
        "resourceSliceCount": pool.slices,
        "totalDevices": pool.devices,
        "allocatedDevices": allocated,
        "availableDevices": max(0, pool.devices - allocated - pool.unavailable),
        "unavailableDevices": pool.unavailable,
    }
    if counting.summaries:
        found = summarize(driver, name, pool.contents, pool.taken, default_attribute=default_attribute)
        if found.error:
            status["validationError"] = found.error[:_MAX_ERROR]
        if found.partitions:
            status["partitionSummary"] = found.partitions
        if found.shareable is not None:
            status["shareableSummary"] = found.shareable
    return status


def ttl_remaining(request: ResourcePoolStatusRequest, now: float) -> float:
    """How long a request is kept from now on."""
    created = to_epoch(request["metadata"]["creationTimestamp"])
    status = request.get("status")
    if status is None:
        return created + PENDING_REQUEST_TTL_SECONDS - now
    ended = (
        to_epoch(c["lastTransitionTime"])
        for c in status.get("conditions") or ()
        if c["type"] in ("Complete", "Failed")
    )
    return next(ended, created) + COMPLETED_REQUEST_TTL_SECONDS - now


# -- the controller -------------------------------------------------------------------------------------------------


class ResourcePoolStatusRequestController(Controller[str]):
    name = "resourcepoolstatusrequest-controller"
    workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        get = context.informers.get
        self._resource = context.resource(RESOURCE_POOL_STATUS_REQUESTS)
        self._slices = get(context.resource(RESOURCE_SLICES))
        self._claims = get(context.resource(RESOURCE_CLAIMS))
        quirks = context.quirks
        self._counting = CountingRules(
            once=quirks.counts_shared_devices_once,
            taints=quirks.counts_tainted_devices_as_unavailable,
            summaries=quirks.sums_up_partitions,
        )
        self._answers_for_incomplete_pools = quirks.answers_for_incomplete_pools
        self._rules = None
        if quirks.counts_taint_rules_as_unavailable:
            self._rules = get(context.resource(DEVICE_TAINT_RULES, "v1", "v1beta2"))
        self._requests = get(self._resource)
        self._requests.add_handler(on_add=self._set, on_update=lambda old, new: self._set(new))

    def _set(self, request: ResourcePoolStatusRequest) -> None:
        self.enqueue(request["metadata"]["name"])

    async def sync(self, key: str) -> float | None:
        request = self._requests.get("", key)
        if request is None:
            return None
        now = self.context.clock()
        left = ttl_remaining(request, now)
        if left <= 0:
            await self._remove(request)
            return None
        if request.get("status") is not None:
            return left
        status = pool_status(
            request,
            self._slices.items(),
            self._claims.items(),
            counting=self._counting_now(),
            now=from_epoch(now),
        )
        if is_incomplete(status):
            age = now - to_epoch(request["metadata"]["creationTimestamp"])
            answers = self._answers_for_incomplete_pools
            if age < (INCOMPLETE_POOL_SECONDS if answers else _OLD_INCOMPLETE_POOL_SECONDS):
                return _RETRY_SECONDS
            if not answers:
                return left
        await self.context.client.update_status(self._resource, "", {**request, "status": status})
        self.context.metrics.pools_counted.inc(request["spec"]["driver"])
        return None

    def _counting_now(self) -> CountingRules:
        if self._rules is None:
            return self._counting
        return replace(self._counting, rules=tuple(self._rules.items()))

    async def _remove(self, request: ResourcePoolStatusRequest) -> None:
        metadata = request["metadata"]
        try:
            await self.context.client.delete(self._resource, "", metadata["name"], uid=metadata["uid"])
        except NotFound:
            return
