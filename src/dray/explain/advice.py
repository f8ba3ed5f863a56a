"""What would help, in words a person can act on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dray.allocation import Cause, PoolID
from dray.allocation.devices import Device
from dray.allocation.taints import untolerated_taint
from dray.explain.devices.selectors import format_value
from dray.explain.devices.states import selected, value_of
from dray.explain.model.cluster import Cluster
from dray.explain.model.explanation import RemovedDevices, RequestExplanation
from dray.explain.nodes.causes import NodeCause
from dray.explain.nodes.trial import NodeOutcome, Trial

if TYPE_CHECKING:
    from dray.api.types.resource import ResourceClaim
    from dray.placement.status import Rejection

#: people do not read more than that
_ENOUGH = 4


def advise(
    cluster: Cluster, trial: Trial, requests: Sequence[RequestExplanation], outcomes: Sequence[NodeOutcome]
) -> list[str]:
    """Each piece of advice once, those that concern devices first."""
    found: dict[str, None] = {}
    for request in requests:
        for text in _for_request(cluster, request, _wanted_beside(request, requests)):
            found[text] = None
    for text in _together(cluster, trial.all_demands.documents, requests, outcomes):
        found[text] = None
    for text in _for_nodes(trial, [one for one in outcomes if one.causes and one.devices_fit]):
        found[text] = None
    return list(found)


def _for_nodes(trial: Trial, outcomes: Sequence[NodeOutcome]) -> Iterator[str]:
    """For each mixture of causes what would help on the node that comes closest; those with fewest causes first."""
    mixtures: dict[tuple[NodeCause, ...], list[NodeOutcome]] = {}
    for one in outcomes:
        mixtures.setdefault(one.causes, []).append(one)
    for causes, nodes in sorted(mixtures.items(), key=lambda item: len(item[0]))[:_ENOUGH]:
        closest = min(nodes, key=trial.shortfall)
        help = [text for cause in causes if (text := trial.message(closest.node, cause).advice)]
        if help:
            yield "; and ".join(help)


def advise_prefilter(rejection: Rejection) -> Iterator[str]:
    """What helps where no node will do whatever it has."""
    reason = rejection.reasons[0]
    if "not found" in reason:
        yield "create the PersistentVolumeClaim, or correct its name in the pod"
    elif "being deleted" in reason:
        yield "wait until the PersistentVolumeClaim is gone, and create it again"
    elif "unbound immediate" in reason:
        yield "the PersistentVolumeClaim has no volume yet: kubectl describe pvc says what its provisioner waits for"


def _wanted_beside(request: RequestExplanation, requests: Sequence[RequestExplanation]) -> int:
    """How many devices of its class other requests want, which it competes with on one node."""
    return sum(
        one.wanted or 0 for one in requests if one is not request and one.device_class == request.device_class
    )


def _for_request(cluster: Cluster, request: RequestExplanation, beside: int) -> Iterator[str]:
    wanted = 1 if request.wanted is None else request.wanted
    if not request.considered:
        yield "no node has any device: is the driver installed and running? (kubectl get resourceslices)"
        return
    best = request.best
    served = request.usable and best.usable >= wanted
    for removed in request.removed:
        # One failing selector stops the search however many devices would do.
        if not served or removed.cause == Cause.SELECTOR_ERROR.value:
            yield from _for_removed(cluster, request, removed)
    if best.usable and wanted > best.usable:
        others = f", of which other requests want {beside}" if beside else ""
        left = best.usable - beside
        lower = f"lower the count to {left}, or split" if left > 0 else "split"
        yield (
            f"{request.named} wants {wanted} devices on one node, but the best node ({best.name}) has "
            f"{best.usable} usable{others}: {lower} the claim over several pods"
        )


def _for_removed(cluster: Cluster, request: RequestExplanation, removed: RemovedDevices) -> Iterator[str]:
    match Cause(removed.cause):
        case Cause.CLASS_SELECTOR | Cause.CLAIM_SELECTOR:
            yield from _for_selector(request, removed)
        case Cause.SELECTOR_ERROR:
            yield from _for_error(removed)
        case Cause.TAINT:
            yield from _for_taint(cluster, request, removed)
        case Cause.TAKEN if request.best.if_freed < (request.wanted or 1):
            pass  # even if they were freed, no node would have enough
        case Cause.TAKEN:
            holders = ("some of " if len(removed.holders) > 1 else "") + ", ".join(removed.holders)
            taken = "1 matching device is" if removed.count == 1 else f"{removed.count} matching devices are"
            yield f"{taken} taken: wait for or delete {holders}, or add devices"
        case Cause.COUNTERS:
            free = f"wait for or delete {', '.join(removed.holders)}, or " if removed.holders else ""
            yield (
                f"other partitions leave too little of the hardware ({removed.detail}): "
                f"{free}ask for smaller partitions"
            )
        case Cause.CAPACITY | Cause.CAPACITY_SHAPE:
            yield f"ask for less capacity, or for other devices: {removed.detail}"
        case Cause.POOL_INCOMPLETE:
            yield from _for_incomplete(cluster, removed)
        case Cause.POOL_INVALID:
            yield f"the driver publishes a pool that contradicts itself: {removed.detail}"
        case Cause.ATTRIBUTE:
            yield f"a constraint needs an attribute that devices lack: {removed.detail}"
        case Cause.FEATURE:
            yield f"switch the feature on in the cluster: {removed.detail}"
        case Cause.NODE:
            pass


def _for_selector(request: RequestExplanation, removed: RemovedDevices) -> Iterator[str]:
    owner = f"class {request.device_class}" if removed.cause == Cause.CLASS_SELECTOR.value else "the claim"
    said = False
    for one in removed.asked:
        sort = "capacity" if one.table == "capacity" else "attribute"
        if one.suggestion and not one.values:
            yield f"no device has {sort} {one.name}, which {owner} asks for; did you mean {one.suggestion}?"
            said = True
        elif one.suggestion:
            yield f"for {sort} {one.name} devices have {one.suggestion}: correct the selector of {owner}"
            said = True
        elif not one.values:
            yield f"no device has {sort} {one.name}, which {owner} asks for: remove the condition or use another class"
            said = True
    if said or request.usable:
        return
    failing = [one for one in removed.conditions if not one.true]
    if len(removed.conditions) > 1 and failing:
        yield f"no device meets this condition of {owner}: {failing[0].source}"
    elif len(removed.conditions) > 1 and removed.cause == Cause.CLAIM_SELECTOR.value:
        yield f"every condition of {owner} is met by some device, but no device meets all of them"
    elif removed.cause == Cause.CLASS_SELECTOR.value:
        if removed.count < request.considered:
            return  # other drivers' devices; the class selects some
        yield f"class {request.device_class} selects none of these devices: is it the class you want, is its driver installed?"
    elif removed.conditions and failing:
        yield f"no device meets the selector of {owner}: {removed.source}; see above what devices have"


def _for_error(removed: RemovedDevices) -> Iterator[str]:
    device = removed.examples[0] if removed.examples else None
    mistaken = [one for one in removed.asked if not one.values and one.suggestion]
    for one in mistaken:
        yield f"no device has {one.name}; did you mean {one.suggestion}?"
    yield f"an error is not a no: the selector fails on device {device}, and that stops the whole search"
    for one in removed.asked:
        if one.missing and one not in mistaken:
            domain, _, name = one.name.rpartition("/")
            yield (
                "guard the lookup so that devices without it just do not match: "
                f'"{name}" in device.{one.table}["{domain}"] && ({removed.source})'
            )
    if not any(one.missing for one in removed.asked):
        yield f"have the driver correct what {device} says, or test for it before using it"


def _for_taint(cluster: Cluster, request: RequestExplanation, removed: RemovedDevices) -> Iterator[str]:
    key, _, effect = removed.detail.rpartition(":")
    key = key.partition("=")[0]
    toleration = f"{{key: {key}, operator: Exists, effect: {effect}}}"
    rules = [
        rule["metadata"]["name"]
        for rule in cluster.snapshot.taint_rules
        if (rule["spec"].get("taint") or {}).get("key") == key
    ]
    remove = f"delete DeviceTaintRule {', '.join(rules)}" if rules else "have the driver remove the taint"
    yield f"if {request.named} can live with it, add the toleration {toleration}; otherwise {remove}"


def _for_incomplete(cluster: Cluster, removed: RemovedDevices) -> Iterator[str]:
    for pool in dict.fromkeys(device.pool_id for device in removed.examples):
        yield incomplete_pool_advice(cluster, pool)


def incomplete_pool_advice(cluster: Cluster, pool: PoolID) -> str:
    slices = cluster.slices_of(pool)
    if not slices:
        return f"pool {pool} is being updated"
    return (
        f"pool {pool} shows {len(slices)} of {slices[0].expected} slices of generation {slices[0].generation}: "
        f"look at the driver {pool.driver}, it has not published the rest"
    )


def _together(
    cluster: Cluster,
    claims: Sequence[ResourceClaim],
    requests: Sequence[RequestExplanation],
    outcomes: Sequence[NodeOutcome],
) -> Iterator[str]:
    """Counts and constraints that single requests and devices meet but not all of them together."""
    found = {id(one.device_outcome): one.device_outcome for one in outcomes}.values()
    bound = [(one.node, one.reasons) for one in found if one.reasons is not None and one.reasons.together]
    if not bound:
        return
    said: set[str] = set()
    for claim in claims:
        devices = (claim.get("spec") or {}).get("devices") or {}
        for constraint in devices.get("constraints") or ():
            attribute = constraint.get("matchAttribute") or constraint.get("distinctAttribute")
            if not attribute or attribute in said:
                continue
            said.add(attribute)
            node, largest = _largest(cluster, claims, attribute, [node for node, _ in bound])
            if constraint.get("matchAttribute") and largest:
                values = ", ".join(f"{value}: {count}" for value, count in largest.most_common(4))
                yield (
                    f"the devices must have the same {attribute}; on {node} the usable ones are spread as {values}: "
                    f"lower the count to {largest.most_common(1)[0][1]}, or drop the constraint"
                )
            elif largest:
                yield (
                    f"the devices must differ in {attribute}; on {node} usable ones have {len(largest)} values: "
                    f"lower the count to {len(largest)}, or drop the constraint"
                )
    for class_name in dict.fromkeys(one.device_class for one in requests):
        rivals = [one for one in requests if one.device_class == class_name]
        total = sum(one.wanted or 1 for one in rivals)
        best = max((one.best for one in rivals), key=lambda one: one.usable)
        if len(rivals) > 1 and total > best.usable:
            said.add(class_name)
            yield (
                f"{' and '.join(one.named for one in rivals)} want {total} devices of class {class_name} on one node, "
                f"but the best node ({best.name}) has {best.usable} usable: lower the counts to {best.usable} "
                "in all, or use several pods"
            )
    if not said:
        for text in dict.fromkeys(text for _, reasons in bound[:20] for text in reasons.together):
            yield f"each request could be served alone, but not together: {text}"


def _largest(
    cluster: Cluster, claims: Sequence[ResourceClaim], attribute: str, nodes: Sequence[str]
) -> tuple[str, Counter[str]]:
    """The node on which most usable devices agree on an attribute, and how they are spread there."""
    best: tuple[str, Counter[str]] = ("", Counter())
    for node in nodes:
        counts: Counter[str] = Counter()
        for device in _usable(cluster, claims, node):
            entries = device.document.get("attributes") or {}
            domain, _, name = attribute.rpartition("/")
            entry = entries.get(attribute) or (entries.get(name) if domain == device.id.driver else None)
            if entry is not None:
                counts[format_value(value_of(entry))] += 1
        if max(counts.values(), default=0) > max(best[1].values(), default=0):
            best = node, counts
    return best


def _usable(cluster: Cluster, claims: Sequence[ResourceClaim], node: str) -> Iterator[Device]:
    """Devices of a node that would do for some request, one by one."""
    requests = [
        request.get("exactly") or {}
        for claim in claims
        for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ()
    ]
    tests = [(selected(cluster, one), one.get("tolerations") or ()) for one in requests]
    for pool in cluster.inventory.pools(cluster.nodes[node], cluster.features):
        part = cluster.usage.of(pool.id)
        for device in pool.devices:
            if device.name in part.taken:
                continue
            if any(
                selects(device) and untolerated_taint(device, tolerations) is None
                for selects, tolerations in tests
            ):
                yield device
