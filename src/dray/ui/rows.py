"""What lists and the map show of each object: small documents, sent once and again when they change.

The names of fields are short because there are forty thousand devices in a large cluster; a field that has its
default is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from dray.allocation import PoolID, counters
from dray.allocation.allocator import CANNOT_ALLOCATE
from dray.allocation.devices import Device
from dray.allocation.pools import Pool
from dray.api import claims as resource_claims
from dray.api import objects, pods
from dray.api.groups.resource.printers import claim_state
from dray.api.identity import ObjectKey
from dray.api.quantity import Quantity
from dray.explain.allocated import claims_of
from dray.explain.devices.states import SHOWN, DeviceState, DeviceView, amount, value_of
from dray.explain.explainer import claims_of_pod
from dray.placement.gangs import WAITING_IN_LINE

if TYPE_CHECKING:
    from dray.api.types import resource
    from dray.api.types.core import Node, Pod
    from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
    from dray.api.types.resource_v1alpha2 import ResourceClass
    from dray.ui.cluster import LiveCluster

NUMBER: Final[Mapping[DeviceState, int]] = {state: number for number, state in enumerate(SHOWN)}
#: Attributes that say what a device is, without their domain; the first that a device has counts.
_MODEL: Final = ("model", "productname", "product", "devicetype", "type", "breed", "kind")

#: Why a pod waits, by what the scheduler says of it; whatever else it says is about nodes.
_SAID: Final = (
    ("gang", (") cannot be satisfied: ", WAITING_IN_LINE)),
    (
        "devices",
        (
            CANNOT_ALLOCATE,
            "resourceclaim cannot be allocated for the node",
            "resourceclaim not available on the node",
        ),
    ),
)
CAUSES: Final = ("claims", "devices", "gang", "gates", "nodes", "preparing", "waiting")


class Bar(NamedTuple):
    """How much of something is used."""

    name: str
    used: float  # of one
    text: str


class DeviceRow(msgspec.Struct, frozen=True, omit_defaults=True):
    n: str  # name
    s: int  # state, as a place in the list of states
    h: tuple[tuple[str, ...], ...] = ()  # holders: the claim, then its pods
    t: str = ""  # note
    m: str = ""  # model, where it is not the pool's
    w: str = ""  # node, where it is not the pool's
    c: tuple[Bar, ...] = ()  # capacity of a device that may be shared
    p: tuple[str, ...] = ()  # counter sets that it consumes: a partition


class PoolRow(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    driver: str
    pool: str
    node: str = ""
    model: str = ""
    generation: int = 0
    slices: int = 0
    expected: int = 0
    problem: str = ""
    counters: tuple[tuple[str, tuple[Bar, ...]], ...] = ()  # counter set, its counters
    devices: tuple[DeviceRow, ...] = ()


class ClaimRow(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    state: str
    classes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    created: str = ""
    classic: bool = False


class PodRow(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    phase: str
    node: str = ""
    claims: tuple[str, ...] = ()
    reason: str = ""  # why it is pending, in one line
    cause: str = ""
    created: str = ""


class NodeRow(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    ready: bool = True
    cordoned: bool = False
    taints: tuple[str, ...] = ()
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class ClassRow(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    selectors: tuple[str, ...] = ()
    extended: str = ""
    created: str = ""
    counts: tuple[int, ...] = ()  # devices by state
    driver: str = ""  # of a classic ResourceClass


class SliceRow(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    driver: str
    pool: str
    node: str = ""
    generation: int = 0
    devices: int = 0
    created: str = ""


class PoolCounts(msgspec.Struct, frozen=True):
    """The devices of a pool, counted."""

    driver: str
    states: Counter[DeviceState]
    nodes: Counter[tuple[str, DeviceState]]
    models: Counter[tuple[str, DeviceState]]
    classes: Mapping[str, Counter[DeviceState]]
    capacity: Counter[str]  # of all devices, in billionths
    consumed: Counter[str]  # of shared and allocated devices
    counters: Counter[str]
    counters_used: Counter[str]
    problem: str = ""  # incomplete or invalid


def pool_row(cluster: LiveCluster, id: PoolID, views: Iterable[DeviceView]) -> PoolRow:
    pool, slices = cluster.pools[id], cluster.slices_of(id)
    views = list(views)
    models = [model_of(view.document) for view in views]
    nodes = [view.node for view in views]
    node, model = _common(nodes), _common(models)
    if not views:
        node = next((one.local for one in slices if one.local), "")
    by_name = {device.name: device for device in pool.devices or pool.withheld}
    part = cluster.usage.of(id)
    return PoolRow(
        str(id),
        id.driver,
        id.pool,
        node,
        model,
        slices[0].generation if slices else 0,
        len(slices),
        slices[0].expected if slices else 0,
        _problem(pool),
        tuple(_counter_bars(cluster, pool)),
        tuple(
            DeviceRow(
                view.id.device,
                NUMBER[view.state],
                tuple((str(one.claim), *map(str, one.pods)) for one in view.holders),
                view.note,
                "" if of == model else of,
                "" if view.node == node else view.node,
                tuple(capacity_bars(view, part.consumed.get(view.id.device) or {}))
                if view.document.get("allowMultipleAllocations")
                else (),
                tuple(one.counter_set for one in by_name[view.id.device].consumes_counters),
            )
            for view, of in zip(views, models, strict=True)
        ),
    )


def _common(values: list[str]) -> str:
    """The value of most."""
    return Counter(values).most_common(1)[0][0] if values else ""


def _problem(pool: Pool) -> str:
    return "incomplete" if pool.incomplete else f"invalid: {pool.invalid}" if pool.invalid else ""


def _counter_bars(cluster: LiveCluster, pool: Pool) -> Iterator[tuple[str, tuple[Bar, ...]]]:
    if not pool.counter_sets:
        return
    left = counters.available(pool, cluster.usage).left
    for name, totals in pool.counter_sets.items():
        bars = []
        for counter, total in totals.items():
            used = total - left.get((name, counter), total)
            bars.append(Bar(counter, _share(used, total), f"{amount(used)} of {amount(total)}"))
        yield name, tuple(bars)


def capacity_bars(view: DeviceView, consumed: Mapping[str, int]) -> Iterator[Bar]:
    for name, capacity in (view.document.get("capacity") or {}).items():
        total = Quantity.from_json(capacity["value"]).nano
        used = consumed.get(name, 0)
        yield Bar(name, _share(used, total), f"{amount(used)} of {amount(total)}")


def _share(used: int, total: int) -> float:
    return round(max(0.0, min(1.0, used / total)), 4) if total else 0.0


def model_of(document: resource.Device) -> str:
    """What sort of device this is, as its driver says it."""
    named = {
        name.rpartition("/")[2].lower(): value for name, value in (document.get("attributes") or {}).items()
    }
    for name in _MODEL:
        if name in named:
            return str(value_of(named[name]))
    return ""


def count_pool(
    cluster: LiveCluster,
    id: PoolID,
    views: Iterable[DeviceView],
    classes: Mapping[str, Callable[[Device], bool]],
) -> PoolCounts:
    """``classes``: for each class, whether it selects a device."""
    pool, part = cluster.pools[id], cluster.usage.of(id)
    views = list(views)
    state = {view.id.device: view.state for view in views}
    capacity: Counter[str] = Counter()
    consumed: Counter[str] = Counter()
    for view in views:
        for name, one in (view.document.get("capacity") or {}).items():
            total = Quantity.from_json(one["value"]).nano
            capacity[name] += total
            if view.id.device in part.taken:
                consumed[name] += total
            else:
                consumed[name] += (part.consumed.get(view.id.device) or {}).get(name, 0)
    total_of: Counter[str] = Counter()
    used_of: Counter[str] = Counter()
    if pool.counter_sets:
        left = counters.available(pool, cluster.usage).left
        for name, totals in pool.counter_sets.items():
            for counter, total in totals.items():
                total_of[counter] += total
                used_of[counter] += total - left.get((name, counter), total)
    devices = pool.devices or pool.withheld
    return PoolCounts(
        id.driver,
        Counter(state.values()),
        Counter((view.node, view.state) for view in views),
        Counter((model_of(view.document), view.state) for view in views),
        {
            name: Counter(state[device.name] for device in devices if selects(device))
            for name, selects in classes.items()
        },
        capacity,
        consumed,
        total_of,
        used_of,
        "incomplete" if pool.incomplete else "invalid" if pool.invalid else "",
    )


# --- claims and pods ---


def claim_row(cluster: LiveCluster, key: ObjectKey, claim: ResourceClaim) -> ClaimRow:
    results = resource_claims.allocation_results(claim)
    return ClaimRow(
        str(key),
        claim_state(claim),
        tuple(dict.fromkeys(wanted_classes(cluster, key, claim))),
        tuple(f"{one['driver']}/{one['pool']}/{one['device']}" for one in results),
        tuple(map(str, cluster.users_of(key))) or tuple(sorted(map(str, cluster.pods_of_claim.get(key, ())))),
        claim["metadata"].get("creationTimestamp") or "",
        key in cluster.classic_claims,
    )


def wanted_classes(cluster: LiveCluster, key: ObjectKey, claim: ResourceClaim) -> Iterator[str]:
    classic = cluster.classic_claims.get(key)
    if classic is not None:
        yield classic["spec"].get("resourceClassName") or ""
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        if exact := request.get("exactly"):
            yield exact.get("deviceClassName") or ""
        for one in request.get("firstAvailable") or ():
            yield one.get("deviceClassName") or ""


def is_shown(pod: Pod) -> bool:
    """Pods that have to do with devices, and those that wait."""
    return bool(pod["spec"].get("resourceClaims") or pods.extended_resource_claim(pod)) or _waits(pod)


def _waits(pod: Pod) -> bool:
    return not pods.node_name(pod) and not pods.is_terminal(pod)


def pod_row(cluster: LiveCluster, key: ObjectKey, pod: Pod, explained: str = "") -> PodRow:
    """``explained``: why it is pending, from ``explain``; without it, what can be seen at a glance."""
    cause, reason = pending_cause(cluster, key, pod)
    return PodRow(
        str(key),
        "Terminating" if pods.is_terminating(pod) else pods.phase(pod),
        pods.node_name(pod),
        tuple(f"{key.namespace}/{name}" for name in claims_of(cluster, pod)),
        (explained or reason) if cause else "",
        cause,
        pod["metadata"].get("creationTimestamp") or "",
    )


def pending_cause(cluster: LiveCluster, key: ObjectKey, pod: Pod) -> tuple[str, str]:
    """Why a pod does not run yet, in one word and in one line; empty if it does, or is about to end."""
    if pods.is_terminal(pod) or pods.is_terminating(pod):
        return "", ""
    if pods.node_name(pod):
        if pods.phase(pod) != "Pending":
            return "", ""
        return "preparing", f"bound to {pods.node_name(pod)}, containers do not run yet"
    gates = pod["spec"].get("schedulingGates") or ()
    if gates:
        return "gates", f"scheduling gates: {', '.join(gate['name'] for gate in gates)}"
    if pod["spec"].get("resourceClaims"):
        facts = claims_of_pod(cluster, key, pod).facts
        if facts:
            return "claims", facts[0]
    said = objects.find_condition((pod.get("status") or {}).get("conditions"), "PodScheduled")
    message = (said.get("message") if said is not None else "") or ""
    if not message:
        return "waiting", "the scheduler has not tried it yet"
    cause = next((cause for cause, words in _SAID if any(one in message for one in words)), "nodes")
    return cause, message


# --- the rest ---


def node_row(name: str, node: Node) -> NodeRow:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    conditions = status.get("conditions")
    return NodeRow(
        name,
        objects.is_condition_true(conditions, "Ready") if conditions else True,
        bool(spec.get("unschedulable")),
        tuple(f"{one.get('key')}:{one.get('effect')}" for one in spec.get("taints") or ()),
    )


def class_row(name: str, document: DeviceClass, counts: Mapping[DeviceState, int]) -> ClassRow:
    spec = document.get("spec") or {}
    return ClassRow(
        name,
        tuple((one.get("cel") or {}).get("expression") or "" for one in spec.get("selectors") or ()),
        spec.get("extendedResourceName") or "",
        document["metadata"].get("creationTimestamp") or "",
        tuple(counts.get(state, 0) for state in SHOWN),
    )


def resource_class_row(name: str, document: ResourceClass) -> ClassRow:
    created = document["metadata"].get("creationTimestamp") or ""
    return ClassRow(name, created=created, driver=document.get("driverName") or "")


def slice_row(name: str, document: ResourceSlice) -> SliceRow:
    spec = document["spec"]
    return SliceRow(
        name,
        spec["driver"],
        spec["pool"]["name"],
        spec.get("nodeName") or "",
        spec["pool"].get("generation") or 0,
        len(spec.get("devices") or ()),
        document["metadata"].get("creationTimestamp") or "",
    )
