"""Claims of the classic API in words: their class and parameters, what drivers have answered, what they were given.

A driver's controller allocates them after a negotiation over the pod's PodSchedulingContext. With 1.30's structured
parameters the scheduler allocates them itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from dray.api.identity import DeviceID, ObjectKey, object_key
from dray.explain.devices.states import DeviceState, DeviceView, Holder
from dray.explain.model.explanation import Explanation, Outcome

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.api.types.resource import Device, DeviceAttribute
    from dray.api.types.resource_v1alpha2 import NamedResourcesInstance, ResourceClaim, ResourceClaimTemplate
    from dray.explain.model.cluster import Cluster
    from dray.placement.classic.attempt import ClaimInformation, ClassicAttempt, ClassicPlan

_SHOWN = 4


class Instance(NamedTuple):
    """One instance of a node that a claim with structured parameters has or would have."""

    claim: str
    driver: str
    node: str
    name: str


def from_template(key: ObjectKey, entry: str, template: ResourceClaimTemplate) -> ResourceClaim:
    """The claim that would be made for a pod."""
    return {
        "apiVersion": "resource.k8s.io/v1alpha2",
        "kind": "ResourceClaim",
        "metadata": {"name": f"{key.name}-{entry}", "namespace": key.namespace},
        "spec": (template.get("spec") or {}).get("spec") or {},
    }


def driver_of(cluster: Cluster, claim: ResourceClaim) -> str:
    known = cluster.resource_classes.get(claim["spec"].get("resourceClassName") or "") or {}
    return known.get("driverName") or (claim.get("status") or {}).get("driverName") or "of its class"


def describe_claim(cluster: Cluster, claim: ResourceClaim) -> str:
    """Its class, driver and parameters, and who has to allocate it."""
    spec, driver = claim["spec"], driver_of(cluster, claim)
    known = cluster.resource_classes.get(spec.get("resourceClassName") or "") or {}
    parameters = spec.get("parametersRef") or {}
    wanted = f" with {parameters.get('kind')} {parameters.get('name')}" if parameters else ""
    who = "the scheduler" if known.get("structuredParameters") else f"the controller of driver {driver}"
    return (
        f"claim {object_key(claim)} is a classic one of class {spec.get('resourceClassName')} "
        f"(driver {driver}){wanted}; {who} allocates it"
    )


def allocated_resources(cluster: Cluster, key: ObjectKey) -> Iterator[str]:
    """What an allocated claim has, as far as that can be told."""
    claim = cluster.classic_claims.get(key)
    if claim is None:
        yield f"claim {key}: allocated by the controller of its driver, who alone knows what it is"
        return
    for handle in ((claim.get("status") or {}).get("allocation") or {}).get("resourceHandles") or ():
        driver = handle.get("driverName") or driver_of(cluster, claim)
        structured = handle.get("structuredData")
        if structured is None:
            yield f"claim {key}: allocated by the controller of driver {driver}, who alone knows what it is"
            continue
        names = [(one.get("namedResources") or {}).get("name") for one in structured.get("results") or ()]
        given = ", ".join(f"{driver}/{structured.get('nodeName')}/{name}" for name in names if name)
        yield f"claim {key}: {given}, allocated by the scheduler"
    if (claim.get("status") or {}).get("deallocationRequested"):
        yield f"  driver {driver_of(cluster, claim)} has been asked to free it"


def planned_instances(plan: ClassicPlan) -> Iterator[Instance]:
    """What the scheduler would allocate."""
    for claim, result in zip(plan.claims, plan.results, strict=True):
        for handle in result.get("resourceHandles") or ():
            structured = handle.get("structuredData") or {}
            for one in structured.get("results") or ():
                name = (one.get("namedResources") or {}).get("name") or ""
                node = structured.get("nodeName") or ""
                yield Instance(claim["metadata"]["name"], handle["driverName"], node, name)


# --- named resources ---


def list_instances(cluster: Cluster) -> Iterator[DeviceView]:
    """The named resources of 1.30's slices, as devices: free, or with the claim that has them."""
    held: dict[Instance, Holder] = {}
    for key, claim in cluster.classic_claims.items():
        status = claim.get("status") or {}
        pods = [one["name"] for one in status.get("reservedFor") or () if one.get("resource") == "pods"]
        holder = Holder(key, tuple(ObjectKey(key.namespace, name) for name in pods))
        for instance in allocated_instances(cluster, claim):
            held[instance._replace(claim="")] = holder
    for one in cluster.snapshot.classic_slices:
        node, driver = one.get("nodeName") or "", one.get("driverName") or ""
        for named in (one.get("namedResources") or {}).get("instances") or ():
            owner = held.get(Instance("", driver, node, named["name"]))
            yield DeviceView(
                id=DeviceID(driver, node, named["name"]),
                node=node or "all nodes",
                state=DeviceState.ALLOCATED if owner else DeviceState.FREE,
                holders=(owner,) if owner else (),
                note="",
                document=as_device(named),
            )


def as_device(instance: NamedResourcesInstance) -> Device:
    """Attributes as devices have them; a quantity shows as its text."""
    found: dict[str, DeviceAttribute] = {}
    for attribute in instance.get("attributes") or ():
        value = cast("DeviceAttribute", {k: v for k, v in attribute.items() if k != "name"})
        found[attribute["name"]] = {"string": attribute["quantity"]} if "quantity" in attribute else value
    return {"name": instance["name"], "attributes": found}


def allocated_instances(cluster: Cluster, claim: ResourceClaim) -> Iterator[Instance]:
    """What the scheduler has allocated to a claim with structured parameters."""
    name = claim["metadata"]["name"]
    for handle in ((claim.get("status") or {}).get("allocation") or {}).get("resourceHandles") or ():
        structured = handle.get("structuredData") or {}
        for one in structured.get("results") or ():
            given = (one.get("namedResources") or {}).get("name")
            if given:
                driver = handle.get("driverName") or driver_of(cluster, claim)
                yield Instance(name, driver, structured.get("nodeName") or "", given)


def shows_devices_as_named_resources(cluster: Cluster) -> bool:
    """Whether the cluster is of a release that has no other devices to show."""
    return cluster.version.emulated and cluster.version.serves_classic


def why_no_devices(cluster: Cluster) -> str:
    """Why there are none to be seen, if that is the API's nature and not the cluster's."""
    if not shows_devices_as_named_resources(cluster):
        return ""
    return (
        f"Kubernetes {cluster.version.release} shows devices only where drivers publish them as named resources (1.30); "
        "otherwise the drivers' controllers alone know them. kubectl get resourceclaims shows what is allocated."
    )


# --- the negotiation ---


def explain_waiting(cluster: Cluster, subject: str, pod: Pod, attempt: ClassicAttempt) -> Explanation:
    """A pod that fits some nodes as far as is known, while drivers have yet to allocate its claims."""
    key = object_key(pod)
    context = (cluster.scheduling_contexts.get(key) or {}).get("spec") or {}
    selected, asked = context.get("selectedNode"), context.get("potentialNodes") or ()
    facts = list(negotiation_facts(cluster, key, attempt))
    waiting = attempt.pending
    silent = [one for one in waiting if one.scheduling_status is None] if not selected else waiting
    first = (silent or waiting)[0]
    driver, claim = driver_of(cluster, first.claim), object_key(first.claim)
    if selected:
        headline = f"driver {driver} has not allocated claim {claim} on {selected} yet"
    elif asked and silent:
        headline = f"driver {driver} has not said yet which nodes suit claim {claim}"
    else:
        headline = f"the scheduler has not selected a node yet for driver {driver} to allocate claim {claim}"
    return Explanation(
        subject=subject,
        outcome=Outcome.PENDING,
        headline=headline,
        facts=tuple(facts),
        advice=(
            f"if this lasts: is the controller of driver {driver} running, what does it log?"
            if asked or selected
            else "if this lasts: is the scheduler running?",
        ),
    )


def negotiation_facts(cluster: Cluster, pod: ObjectKey, attempt: ClassicAttempt) -> Iterator[str]:
    """For each claim that a driver has to allocate: what it was asked, what it has answered."""
    context = cluster.scheduling_contexts.get(pod)
    spec = (context or {}).get("spec") or {}
    for entry in attempt.pending:
        who = f"claim {object_key(entry.claim)}: driver {driver_of(cluster, entry.claim)}"
        if context is None:
            yield f"{who} has not been asked yet; there is no PodSchedulingContext {pod.name}"
        elif entry.scheduling_status is None:
            asked = spec.get("potentialNodes") or ()
            yield f"{who} has not answered" + (f"; it was asked about {_listed(asked)}" if asked else "")
        elif unsuitable := entry.scheduling_status.get("unsuitableNodes"):
            yield f"{who} has answered; unsuitable are {_listed(unsuitable)}"
        else:
            yield f"{who} has answered; every node suits"
        if spec.get("selectedNode"):
            yield f"  the scheduler has selected {spec['selectedNode']}"
        for warning in cluster.warnings(entry.claim):
            yield f"  {warning}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} others" if more > 0 else "")


def advise_unsuitable(cluster: Cluster, attempt: ClassicAttempt, nodes: Sequence[str]) -> Iterator[str]:
    """What helps where drivers or slices have nothing for a claim on any of these nodes."""
    unserved: dict[tuple[str, str], list[str]] = {}
    for entry in attempt.entries:
        if not entry.allocated and any(_unsuitable(entry, node) for node in nodes):
            of = driver_of(cluster, entry.claim), entry.claim["spec"].get("resourceClassName") or ""
            unserved.setdefault(of, []).append(str(object_key(entry.claim)))
    for (driver, class_name), names in unserved.items():
        what = f"driver {driver} has nothing free that suits claim {', '.join(names)}"
        holders = dict.fromkeys(
            f"pod {users[0]}" if (users := cluster.users_of(key)) else f"claim {key}"
            for key, one in cluster.classic_claims.items()
            if one["spec"].get("resourceClassName") == class_name
            and (one.get("status") or {}).get("allocation")
        )
        if holders:
            yield f"{what}: wait for or delete others of class {class_name} ({_listed(list(holders))}), or change the parameters"
        else:
            yield f"{what}: change the parameters, or ask who runs the driver"


def unsuitable_detail(cluster: Cluster, attempt: ClassicAttempt, node: str) -> str:
    """Who keeps classic claims off a node; empty if it is not about what drivers have."""
    for entry in attempt.entries:
        if not entry.allocated and _unsuitable(entry, node):
            driver, key = driver_of(cluster, entry.claim), object_key(entry.claim)
            if entry.wanted is not None:
                return f"driver {driver} publishes too few free instances there for claim {key}"
            return f"driver {driver} says that the node does not suit claim {key}"
    return ""


def _unsuitable(entry: ClaimInformation, node: str) -> bool:
    if entry.wanted is not None:
        return True
    return node in ((entry.scheduling_status or {}).get("unsuitableNodes") or ())
