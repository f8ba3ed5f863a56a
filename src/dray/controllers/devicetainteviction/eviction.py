"""Which device taints evict the pods of a claim, when, and what the status of a DeviceTaintRule says. Pure.

A taint comes from a driver, in a ResourceSlice, or from an admin, in a DeviceTaintRule. Only the effect NoExecute evicts.
The rules and messages are upstream's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from dray.allocation.taints import tolerates
from dray.api.times import to_epoch

if TYPE_CHECKING:
    from dray.api.types.meta import Condition
    from dray.api.types.resource import (
        Device,
        DeviceRequestAllocationResult,
        DeviceTaint,
        DeviceTaintRule,
        DeviceToleration,
        ResourceClaim,
        ResourceSlice,
    )


NO_EXECUTE: Final = "NoExecute"
CONDITION: Final = "EvictionInProgress"


class PoolID(NamedTuple):
    driver: str
    pool: str


class TrackedTaint(NamedTuple):
    """A taint, by its origin. Rules come first, by name; then taints of slices, by device."""

    from_slice: bool
    rule: str = ""
    rule_uid: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    position: int = 0  # among the device's taints


class Eviction(NamedTuple):
    """When a pod has to go, and all the reasons for it."""

    when: float
    reasons: tuple[TrackedTaint, ...]

    def joined(self, other: Eviction) -> Eviction:
        return Eviction(min(self.when, other.when), tuple(sorted({*self.reasons, *other.reasons})))


# -- pools ----------------------------------------------------------------------------------------------------------


class IndexedTaint(NamedTuple):
    """A NoExecute taint at its position in a slice."""

    position: int
    taint: DeviceTaint


Taints = Mapping[str, Sequence[IndexedTaint]]  # by device
_NONE: Final[Taints] = {}


class Pool:
    """The taints of a pool's devices: of its slices only those of the newest generation count."""

    __slots__ = ("_slices", "tainted")

    def __init__(self) -> None:
        self._slices: dict[str, tuple[int, Taints]] = {}
        self.tainted: Taints = _NONE

    def __bool__(self) -> bool:
        return bool(self._slices)

    def set(self, document: ResourceSlice) -> Collection[str]:
        """A slice is new or has changed; returns the devices whose taints are different now."""
        self._slices[document["metadata"]["name"]] = (
            document["spec"]["pool"]["generation"],
            _no_execute(document["spec"].get("devices") or ()),
        )
        return self._renew()

    def remove(self, name: str) -> Collection[str]:
        self._slices.pop(name, None)
        return self._renew()

    def _renew(self) -> Collection[str]:
        before = self.tainted
        if not before and not any(taints for _, taints in self._slices.values()):
            return ()
        newest = max((generation for generation, _ in self._slices.values()), default=0)
        after: dict[str, Sequence[IndexedTaint]] = {}
        for generation, taints in self._slices.values():
            if generation == newest:
                after.update(taints)
        self.tainted = after or _NONE
        return [d for d in {**before, **after} if before.get(d) != after.get(d)]


def _no_execute(devices: Iterable[Device]) -> Taints:
    found = {}
    for device in devices:
        taints = device.get("taints")
        if taints and (
            listed := [IndexedTaint(i, t) for i, t in enumerate(taints) if t.get("effect") == NO_EXECUTE]
        ):
            found[device["name"]] = listed
    return found or _NONE


# -- claims and pods ------------------------------------------------------------------------------------------------


def allocation_results(claim: ResourceClaim) -> Sequence[DeviceRequestAllocationResult]:
    """The devices a claim has got."""
    allocation = (claim.get("status") or {}).get("allocation")
    return (allocation.get("devices") or {}).get("results") or () if allocation else ()


def rule_selects(rule: DeviceTaintRule, driver: str, pool: str, device: str) -> bool:
    """Whether a rule selects a device. A rule without a selector selects none."""
    selector = rule["spec"].get("deviceSelector")
    return (
        selector is not None
        and selector.get("driver") in (None, driver)
        and selector.get("pool") in (None, pool)
        and selector.get("device") in (None, device)
    )


def claim_eviction(
    allocated: Iterable[DeviceRequestAllocationResult],
    pools: Mapping[PoolID, Pool],
    rules: Collection[DeviceTaintRule],
) -> Eviction | None:
    """When the pods of a claim have to go, for the devices allocated to it and the rules that evict."""
    times: list[float] = []
    reasons: set[TrackedTaint] = set()
    for result in allocated:
        for reason, taint in _taints(result, pools, rules):
            when = _time(taint, result.get("tolerations") or ())
            if when is not None:
                times.append(when)
                reasons.add(reason)
    return Eviction(min(times), tuple(sorted(reasons))) if times else None


def _taints(
    result: DeviceRequestAllocationResult, pools: Mapping[PoolID, Pool], rules: Collection[DeviceTaintRule]
) -> Iterator[tuple[TrackedTaint, DeviceTaint]]:
    driver, name, device = result["driver"], result["pool"], result["device"]
    pool = pools.get(PoolID(driver, name))
    if pool is not None and pool.tainted:
        for position, taint in pool.tainted.get(device, ()):
            yield (
                TrackedTaint(from_slice=True, driver=driver, pool=name, device=device, position=position),
                taint,
            )
    for rule in rules:
        if rule_selects(rule, driver, name, device):
            metadata = rule["metadata"]
            yield TrackedTaint(False, rule=metadata["name"], rule_uid=metadata["uid"]), rule["spec"]["taint"]


def _time(taint: DeviceTaint, tolerations: Iterable[DeviceToleration]) -> float | None:
    """The moment from which a taint is no longer tolerated; None if it is tolerated for ever."""
    added = taint.get("timeAdded")
    if added is None:
        return None
    tolerated: list[int] = []
    for toleration in tolerations:
        # Only a toleration that names the effect protects from it.
        if toleration.get("effect") == NO_EXECUTE and tolerates(toleration, taint):
            seconds = toleration.get("tolerationSeconds")
            if seconds is None:
                return None
            tolerated.append(max(seconds, 0))
    return to_epoch(added) + min(tolerated, default=0)


# -- the status of rules --------------------------------------------------------------------------------------------


class TaintRuleStats(NamedTuple):
    """What a rule means at present."""

    pods: int = 0  # that have to go, or would have to
    namespaces: int = 0
    published: int = 0  # devices in slices; counted only for rules without effect
    allocated: int = 0
    evicted: int = 0  # pods that went because of it, since the controller was started


def rule_condition(rule: DeviceTaintRule, stats: TaintRuleStats, *, now: str) -> Condition | None:
    """The rule's condition as it should be; None if it is so already."""
    effect = rule["spec"]["taint"]["effect"]
    status, reason, message = "False", "OtherEffect", "Eviction only happens for the NoExecute effect."
    if effect == NO_EXECUTE:
        message = ""
        if stats.pods:
            status, reason = "True", "PodsPendingEviction"
            pods = "1 pod needs" if stats.pods == 1 else f"{stats.pods} pods need"
            message = f"{pods} to be evicted in {_namespaces(stats)}."
        else:
            reason = "Completed" if stats.evicted else "NotStarted"
    elif effect == "None":
        reason = "NoEffect"
        pods = "1 pod" if stats.pods == 1 else f"{stats.pods} pods"
        message = (
            f"{_devices(stats.published, 'published')} {_devices(stats.allocated, 'allocated')} "
            f"{pods} would be evicted in {_namespaces(stats)} if the effect was NoExecute. "
            "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        )
    if stats.evicted:
        pods = "1 pod" if stats.evicted == 1 else f"{stats.evicted} pods"
        message = f"{message} {pods} evicted since starting the controller.".lstrip()
    generation = rule["metadata"].get("generation", 0)
    present = present_condition(rule)
    if present is not None and (status, reason, message, generation) == (
        present["status"],
        present["reason"],
        present.get("message") or "",
        present.get("observedGeneration") or 0,
    ):
        return None
    return {
        "type": CONDITION,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        # Any change counts as a transition: its time says when the status may be renewed.
        "lastTransitionTime": now,
    }


def present_condition(rule: DeviceTaintRule) -> Condition | None:
    found = (rule.get("status") or {}).get("conditions") or ()
    return next((c for c in found if c["type"] == CONDITION), None)


def _namespaces(stats: TaintRuleStats) -> str:
    return "1 namespace" if stats.namespaces == 1 else f"{stats.namespaces} different namespaces"


def _devices(count: int, what: str) -> str:
    return f"1 {what} device selected." if count == 1 else f"{count} {what} devices selected."
