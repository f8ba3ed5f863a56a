"""Why claims cannot be allocated: what removed the devices of each request, and which nodes fail for which causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from dray.allocation import Cause, PoolID, Removal, RequestReasons
from dray.allocation.devices import Device
from dray.api.identity import ObjectKey
from dray.explain.devices.equivalence import EquivalentDevices
from dray.explain.devices.selectors import selector_attributes, selector_conditions
from dray.explain.devices.states import Holder, in_class, readable
from dray.explain.model.cluster import Cluster
from dray.explain.model.explanation import BestNode, NodeGroup, RemovedDevices, RequestExplanation
from dray.explain.nodes.trial import ClaimDemands, DeviceOutcome, NodeOutcome, Trial
from dray.explain.render.phrases import describe, describe_briefly

if TYPE_CHECKING:
    from dray.api.types.resource import ExactDeviceRequest, ResourceClaim

_EXAMPLES = 3
_HOLDERS = 4
_SELECTORS = (Cause.CLASS_SELECTOR, Cause.CLAIM_SELECTOR, Cause.SELECTOR_ERROR)
#: the detail where devices have several owners or pools
_MANY = {Cause.TAKEN: "allocated to other claims", Cause.POOL_INCOMPLETE: "slices are missing"}
_MOMENT = (Cause.TAKEN, Cause.CAPACITY, Cause.COUNTERS)


def explain_requests(
    cluster: Cluster, trial: Trial, outcomes: Sequence[NodeOutcome]
) -> list[RequestExplanation]:
    """One for each request."""
    best: dict[tuple[str, str], tuple[int, str]] = {}
    in_reach: Counter[tuple[str, str]] = Counter()
    for one in _first_of_each(outcomes):
        for request in one.device_outcome.reasons.requests if one.device_outcome.reasons is not None else ():
            key = (request.claim, request.request)
            if key not in best or request.usable > best[key][0]:
                best[key] = request.usable, one.node
            passing = sum(r.count for r in request.removals if r.cause in (*_MOMENT, Cause.TAINT))
            in_reach[key] = max(in_reach[key], request.usable + passing)
    found = []
    for reasons in trial.everywhere():
        key = (reasons.claim, reasons.request)
        usable, node = best.get(key, (0, ""))
        best_node = BestNode(node, usable, in_reach[key])
        found.append(_explain_request(cluster, trial.all_demands, reasons, best_node))
    return found


def _first_of_each(outcomes: Iterable[NodeOutcome]) -> Iterable[NodeOutcome]:
    """The first node for each different outcome."""
    found: dict[int, NodeOutcome] = {}
    for one in outcomes:
        found.setdefault(id(one.device_outcome), one)
    return found.values()


def _explain_request(
    cluster: Cluster, demands: ClaimDemands, reasons: RequestReasons, best: BestNode
) -> RequestExplanation:
    document = request_of(demands.documents, reasons.claim, reasons.request)
    removed = tuple(_removed(cluster, demands, document, removal) for removal in _merge(reasons.removals))
    return RequestExplanation(
        reasons.claim,
        reasons.request,
        document.get("deviceClassName") or "",
        reasons.wanted,
        reasons.considered,
        reasons.usable,
        best,
        removed,
        _nearest_device(reasons),
    )


def _merge(removals: Iterable[Removal]) -> list[Removal]:
    """The removals with allocated devices in one group, whoever has them."""
    found: dict[tuple[Cause, str], Removal] = {}
    for one in removals:
        key = (one.cause, "" if one.cause in (*_MOMENT, Cause.POOL_INCOMPLETE) else one.detail)
        known = found.get(key)
        if known is None:
            found[key] = one
        else:
            examples = (*known.examples, *one.examples)[:_HOLDERS]
            detail = "" if one.cause in _MANY else known.detail
            found[key] = Removal(
                one.cause, detail, known.count + one.count, examples, known.selector, known.source
            )
    # Other drivers' devices, which are not in the class, come last however many they are.
    several = sorted(found.values(), key=lambda one: (one.cause is Cause.CLASS_SELECTOR, -one.count))
    return [one if one.detail else replace(one, detail=_MANY[one.cause]) for one in several]


def _removed(
    cluster: Cluster, demands: ClaimDemands, request: ExactDeviceRequest, removal: Removal
) -> RemovedDevices:
    source, features = removal.source, cluster.features
    reached = _reached(cluster, demands, request, removal) if source else []
    return RemovedDevices(
        removal.cause.value,
        readable(removal.detail),
        describe(removal),
        removal.count,
        removal.examples[:_EXAMPLES],
        source,
        selector_attributes(source, reached, features, known=lambda: _devices(cluster, reached))
        if source
        else (),
        selector_conditions(source, reached, features) if source else (),
        _holders(cluster, removal) if removal.cause in _MOMENT else (),
    )


def _reached(
    cluster: Cluster, demands: ClaimDemands, request: ExactDeviceRequest, removal: Removal
) -> list[EquivalentDevices]:
    """The devices that a selector is evaluated on: all, or for the claim's own selectors those of the class."""
    everything = demands.equivalence.groups.groups()
    if removal.cause is Cause.CLASS_SELECTOR or removal.detail.startswith("class "):
        return everything
    selects = in_class(cluster, request.get("deviceClassName") or "")
    return [one for one in everything if selects(one.device)] or everything


def _devices(cluster: Cluster, like: Sequence[EquivalentDevices]) -> Iterator[Device]:
    """All devices of the drivers of these."""
    drivers = {one.device.id.driver for one in like}
    return (d for id, pool in cluster.pools.items() if id.driver in drivers for d in pool.devices)


def _holders(cluster: Cluster, removal: Removal) -> tuple[str, ...]:
    """The claims that have the devices themselves, or devices that consume the same counters."""
    counts: Counter[str] = Counter()
    for id in removal.examples:
        owners = list(cluster.owners(id))
        if not owners and removal.cause is Cause.COUNTERS:
            owners = _counter_consumers(cluster, id.pool_id, removal.detail)
        for owner in owners:
            counts[str(Holder(owner, cluster.users_of(owner)))] += 1
    names = [name for name, _ in counts.most_common(_HOLDERS)]
    if names and removal.count > len(removal.examples):
        names.append("others")
    return tuple(names)


def _counter_consumers(cluster: Cluster, pool_id: PoolID, detail: str) -> list[ObjectKey]:
    pool = cluster.pools.get(pool_id)
    if pool is None:
        return []
    part = cluster.usage.of(pool_id)
    counter_set = detail.partition("/")[0]
    return [
        owner
        for device in (*pool.devices, *pool.other_nodes_devices)
        if part.touches(device.name) and any(d.counter_set == counter_set for d in device.consumes_counters)
        for owner in cluster.owners(device.id)
    ]


def request_of(claims: Sequence[ResourceClaim], claim: str, name: str) -> ExactDeviceRequest:
    """The document of a request, or of an alternative ``request/alternative``."""
    base, _, alternative = name.partition("/")
    for document in claims:
        metadata = document.get("metadata") or {}
        if claim not in (metadata.get("name"), f"{metadata.get('namespace')}/{metadata.get('name')}"):
            continue
        for request in ((document.get("spec") or {}).get("devices") or {}).get("requests") or ():
            if request["name"] != base:
                continue
            if not alternative:
                return request.get("exactly") or {}
            for one in request.get("firstAvailable") or ():
                if one["name"] == alternative:
                    # A subrequest has the fields of an exact request but for adminAccess, and a name.
                    return cast("ExactDeviceRequest", one)
    return {}


def _nearest_device(reasons: RequestReasons) -> str:
    """The device that came closest, and what removed it if devices were removed for different causes."""
    miss = reasons.nearest
    if miss is None or reasons.usable:
        return ""
    if len(reasons.removals) == 1:
        return str(miss.device)
    removal = next(
        (one for one in reasons.removals if (one.cause, one.detail) == (miss.cause, miss.detail)), None
    )
    return f"{miss.device}, {describe(removal)}" if removal is not None else str(miss.device)


# --- nodes ---


def group_nodes(cluster: Cluster, trial: Trial, outcomes: Sequence[NodeOutcome]) -> list[NodeGroup]:
    """Nodes with the same outcome, the most promising first."""
    signatures: dict[int, object] = {}
    found: dict[object, list[NodeOutcome]] = {}
    for one in outcomes:
        devices = signatures.get(id(one.device_outcome))
        if devices is None:
            devices = signatures[id(one.device_outcome)] = _signature(one.device_outcome)
        found.setdefault((one.causes, devices, one.allocated_elsewhere), []).append(one)
    ranked = sorted(found.values(), key=lambda group: (-_rank(group[0]), -len(group)))
    return [_group(cluster, trial, group) for group in ranked]


def _rank(outcome: NodeOutcome) -> int:
    return 2 * outcome.devices_fit + (not outcome.causes)


def _signature(outcome: DeviceOutcome) -> object:
    devices: object = ()
    if outcome.reasons is not None:
        requests = outcome.reasons.requests
        devices = tuple((r.claim, r.request, r.short, _causes(r)) for r in requests), outcome.reasons.together
    return devices, bool(outcome.error), outcome.plan is not None


def _causes(reasons: RequestReasons) -> tuple[tuple[Cause, str], ...]:
    return tuple(
        sorted(
            {(r.cause, r.detail if r.cause in (*_SELECTORS, Cause.TAINT) else "") for r in reasons.removals},
            key=lambda pair: (pair[0].rank, pair[1]),
        )
    )


def _usable(outcome: NodeOutcome) -> int:
    reasons = outcome.device_outcome.reasons
    return sum(request.usable for request in reasons.requests) if reasons is not None else 0


def _group(cluster: Cluster, trial: Trial, group: Sequence[NodeOutcome]) -> NodeGroup:
    if group[0].causes:
        closest = min(group, key=lambda one: (-_usable(one), trial.shortfall(one)))
    else:
        closest = max(_first_of_each(group), key=_usable)
    # So far the node may share the outcome of an equivalent one; the group shows its own devices.
    closest = trial.evaluate(cluster.nodes[closest.node], cluster.usage)
    outcome = closest.device_outcome
    devices: list[str] = []
    if closest.allocated_elsewhere:
        devices.append(f"claim {closest.allocated_elsewhere} is allocated for other nodes")
    if outcome.error:
        devices.append("the search ends with an error")
    if outcome.reasons is not None:
        devices += [_counted(request) for request in outcome.reasons.requests]
        devices += outcome.reasons.together
        devices += [f"pool {pool}" for pool in outcome.reasons.pools]
    elif not closest.allocated_elsewhere and trial.all_demands.claims:
        devices.append("has the devices")
    return NodeGroup(
        len(group),
        closest.node,
        tuple(one.node for one in group[:_EXAMPLES]),
        closest.fits,
        tuple(trial.message(closest.node, cause).detail for cause in closest.causes),
        tuple(devices),
    )


def _counted(request: RequestReasons) -> str:
    wanted = "all" if request.wanted is None else str(request.wanted)
    causes: Counter[str] = Counter()
    for removal in request.removals:
        causes[describe_briefly(removal)] += removal.count
    removed = ", ".join(f"{count} {text}" for text, count in causes.most_common())
    there = f"{request.usable} of {request.considered} devices usable"
    return f"request {request.request} of claim {request.claim}: {wanted} wanted, {there}" + (
        f" ({removed})" if removed else ""
    )
