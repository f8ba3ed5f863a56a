"""Pods and claims past scheduling: running, allocated, or stuck while being bound, prepared or deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dray.api import claims as pod_claims
from dray.api.identity import DeviceID, ObjectKey, device_id
from dray.explain import classic
from dray.explain.allocated import claims_of, devices_of_claim, devices_of_pod
from dray.explain.model.cluster import Cluster
from dray.explain.model.explanation import Explanation, Outcome

if TYPE_CHECKING:
    from dray.api.types.core import Node, Pod
    from dray.api.types.resource import ResourceClaim

DEFAULT_SCHEDULER = "default-scheduler"


def explain_scheduled_pod(cluster: Cluster, key: ObjectKey, pod: Pod) -> Explanation | None:
    """An explanation for a pod that is past scheduling; None while it is not."""
    subject = f"pod {key}"
    metadata, spec, status = pod.get("metadata") or {}, pod.get("spec") or {}, pod.get("status") or {}
    phase = status.get("phase")
    ended = phase in ("Succeeded", "Failed")
    facts = [] if ended else list(devices_of_pod(cluster, key, pod))
    if metadata.get("deletionTimestamp"):
        return Explanation(
            subject=subject,
            outcome=Outcome.STUCK,
            headline=f"being deleted since {metadata['deletionTimestamp']}",
            facts=(*_deletion_holders(cluster, pod), *facts),
            advice=tuple(_deletion_advice(cluster, pod)),
        )
    if ended:
        return Explanation(subject=subject, outcome=Outcome.DONE, headline=f"it has ended: {phase}")
    node = spec.get("nodeName")
    if not node:
        return None
    if phase == "Running":
        return Explanation(
            subject=subject, outcome=Outcome.RUNNING, headline=f"on {node}", facts=tuple(facts)
        )
    return Explanation(
        subject=subject,
        outcome=Outcome.STUCK,
        headline=f"it is bound to {node} but does not run yet",
        facts=(*_prepare_facts(cluster, key, pod), *facts),
        advice=tuple(_prepare_advice(cluster, key, pod)),
    )


def explain_allocated_claim(cluster: Cluster, key: ObjectKey, claim: ResourceClaim) -> Explanation | None:
    """An explanation for a claim that is allocated or being deleted."""
    subject = f"claim {key}"
    metadata = claim.get("metadata") or {}
    facts = tuple(devices_of_claim(cluster, key, claim))
    if metadata.get("deletionTimestamp"):
        return Explanation(
            subject=subject,
            outcome=Outcome.STUCK,
            headline=f"being deleted since {metadata['deletionTimestamp']}",
            facts=(*holders_of_claim(cluster, key, claim), *facts),
            advice=tuple(_claim_deletion_advice(cluster, key, claim)),
        )
    if pod_claims.allocation(claim) is None:
        return None
    users = cluster.users_of(key)
    who = f"reserved for {', '.join(f'pod {user}' for user in users)}" if users else "reserved for nobody"
    return Explanation(subject=subject, outcome=Outcome.ALLOCATED, headline=who, facts=facts)


# --- waiting to be bound ---


def explain_binding_conditions(cluster: Cluster, key: ObjectKey, pod: Pod) -> Explanation | None:
    """A pod that has its devices but waits for them to become ready; None if it does not."""
    facts, drivers, failed = [], [], False
    for name in claims_of(cluster, pod):
        claim = cluster.claims.get(ObjectKey(key.namespace, name)) or {}
        reported = {
            DeviceID(one.get("driver", ""), one.get("pool", ""), one.get("device", "")): one.get("conditions")
            or ()
            for one in (claim.get("status") or {}).get("devices") or ()
        }
        for result in ((pod_claims.allocation(claim) or {}).get("devices") or {}).get("results") or ():
            device = device_id(result)
            true = {c.get("type") for c in reported.get(device, ()) if c.get("status") == "True"}
            missing = [one for one in result.get("bindingConditions") or () if one not in true]
            broken = [one for one in result.get("bindingFailureConditions") or () if one in true]
            if missing or broken:
                drivers.append(result["driver"])
                failed |= bool(broken)
                state = (
                    f"{', '.join(broken)} says it failed"
                    if broken
                    else f"{', '.join(missing)} is not true yet"
                )
                facts.append(f"claim {name}, request {result['request']}: {device}: {state}")
    if not facts:
        return None
    who = ", ".join(dict.fromkeys(drivers))
    return Explanation(
        subject=f"pod {key}",
        outcome=Outcome.STUCK,
        headline="it has its devices, but they could not be made ready"
        if failed
        else "it waits for its devices",
        facts=tuple(facts),
        advice=(f"look at driver {who}: it sets these conditions in the status of the claim",),
    )


# --- being deleted ---


def holders_of_claim(cluster: Cluster, key: ObjectKey, claim: ResourceClaim) -> Iterator[str]:
    finalizers = (claim.get("metadata") or {}).get("finalizers") or ()
    users = cluster.users_of(key)
    for user in users:
        pod = cluster.pods.get(user)
        state = "gone" if pod is None else _state(pod)
        yield f"held by pod {user} ({state}), for which it is reserved"
    for finalizer in finalizers:
        if finalizer != pod_claims.FINALIZER:
            yield f"held by finalizer {finalizer}, which its owner must remove"
        elif not users and pod_claims.allocation(claim) is not None:
            yield "nobody uses it any longer; the claim controller must take the allocation back"


def _claim_deletion_advice(cluster: Cluster, key: ObjectKey, claim: ResourceClaim) -> Iterator[str]:
    users = cluster.users_of(key)
    for user in users:
        if user in cluster.pods:
            yield f"delete pod {user}, or wait until it has ended"
        else:
            yield f"pod {user} is gone: the claim controller should drop the reservation; is it running?"
    if not users:
        yield "is the controller manager running?"


def _state(pod: Pod) -> str:
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        return "terminating"
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _deletion_holders(cluster: Cluster, pod: Pod) -> Iterator[str]:
    for finalizer in (pod.get("metadata") or {}).get("finalizers") or ():
        yield f"held by finalizer {finalizer}"
    node_name = (pod.get("spec") or {}).get("nodeName")
    if node_name:
        node = cluster.nodes.get(node_name)
        if node is None:
            yield f"its node {node_name} is gone, so nobody stops it there"
        elif not _ready(node):
            yield f"its node {node_name} is not ready, so nobody may be stopping it there"
        elif (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            yield f"node {node_name} is stopping its containers and unpreparing its devices"
    yield from cluster.warnings(pod)


def _deletion_advice(cluster: Cluster, pod: Pod) -> Iterator[str]:
    node_name = (pod.get("spec") or {}).get("nodeName")
    node = cluster.nodes.get(node_name or "")
    metadata = pod.get("metadata") or {}
    if finalizers := metadata.get("finalizers"):
        yield f"whoever set finalizer {', '.join(finalizers)} must remove it"
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return
    if node_name and (node is None or not _ready(node)):
        yield (
            f"once the node is known to be off: kubectl delete pod -n {metadata.get('namespace')} "
            f"{metadata.get('name')} --force"
        )
    elif node_name:
        yield f"look at the drivers on {node_name}: unprepare must succeed before the pod goes"


def _ready(node: Node) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return all(c.get("status") == "True" for c in conditions if c.get("type") == "Ready")


# --- bound without its claims ---


class Unallocated(NamedTuple):
    """Why a pod has a node although its claim is not allocated, and what would help."""

    fact: str
    advice: str


def _unallocated(cluster: Cluster, key: ObjectKey, pod: Pod, name: str) -> Unallocated:
    spec, claim = pod.get("spec") or {}, cluster.classic_claims.get(ObjectKey(key.namespace, name))
    if claim is not None and key in cluster.scheduling_contexts:
        driver = classic.driver_of(cluster, claim)
        return Unallocated(
            f"claim {name} is not allocated: the pod was bound first, and driver {driver} has been asked since",
            f"wait until driver {driver} has something free on {spec.get('nodeName')}, or let the scheduler "
            "choose the node: remove nodeName; if nothing happens, is the driver's controller running?",
        )
    scheduler = spec.get("schedulerName") or DEFAULT_SCHEDULER
    if scheduler != DEFAULT_SCHEDULER:
        return Unallocated(
            f"claim {name} is not allocated: scheduler {scheduler} does not allocate claims before it binds",
            f"have {scheduler} run the DynamicResources plugin, or remove schedulerName from the pod",
        )
    return Unallocated(
        f"claim {name} is not allocated: the pod got its node without it, from nodeName in its manifest "
        "or from a scheduler without the DynamicResources plugin",
        "a pod with claims must go through the scheduler: remove nodeName and use a node selector instead; if it has none, "
        "switch on the scheduler's plugin DynamicResources and feature gate DynamicResourceAllocation",
    )


def explain_claim_of_bound_pod(cluster: Cluster, key: ObjectKey, user: ObjectKey) -> Explanation | None:
    """An unallocated claim whose pod has a node already; None if it has none."""
    pod = cluster.pods[user]
    if not (node := (pod.get("spec") or {}).get("nodeName")):
        return None
    why = _unallocated(cluster, user, pod, key.name)
    return Explanation(
        subject=f"claim {key}",
        outcome=Outcome.STUCK,
        headline=f"pod {user} is bound to {node}, so no scheduler will allocate it",
        facts=(why.fact,),
        advice=(why.advice,),
    )


# --- being prepared ---


def _prepare_facts(cluster: Cluster, key: ObjectKey, pod: Pod) -> Iterator[str]:
    for reference in pod_claims.references(pod, fixed_names=cluster.fixed_names):
        claim = cluster.claims.get(ObjectKey(key.namespace, reference.claim or ""))
        if claim is None:
            yield f"claim {reference.claim} does not exist"
        elif pod_claims.allocation(claim) is None:
            yield _unallocated(cluster, key, pod, reference.claim or "").fact
        elif not pod_claims.may_use(pod, claim):
            yield f"claim {reference.claim} is not reserved for this pod"
        else:
            results = ((pod_claims.allocation(claim) or {}).get("devices") or {}).get("results") or ()
            drivers = ", ".join(dict.fromkeys(result["driver"] for result in results))
            yield f"claim {reference.claim} is ready on the scheduler's side; driver {drivers} must prepare it"
    node = cluster.nodes.get((pod.get("spec") or {}).get("nodeName") or "")
    if node is None:
        yield "its node is gone"
    elif not _ready(node):
        yield "its node is not ready"
    warnings = cluster.warnings(pod)
    yield from warnings
    for group in ("initContainerStatuses", "containerStatuses"):
        for container in (pod.get("status") or {}).get(group) or ():
            waiting = (container.get("state") or {}).get("waiting")
            if waiting and not (warnings and waiting.get("reason") == "ContainerCreating"):
                message = f": {waiting['message']}" if waiting.get("message") else ""
                yield f"container {container['name']} waits: {waiting.get('reason', '')}{message}"


def _prepare_advice(cluster: Cluster, key: ObjectKey, pod: Pod) -> Iterator[str]:
    spec = pod.get("spec") or {}
    for reference in pod_claims.references(pod, fixed_names=cluster.fixed_names):
        claim = cluster.claims.get(ObjectKey(key.namespace, reference.claim or ""))
        if claim is None or pod_claims.allocation(claim) is None:
            yield _unallocated(cluster, key, pod, reference.claim or "").advice
            return
    warnings = [one for one in cluster.warnings(pod) if "PrepareDynamicResources" in one]
    if any("is not registered" in one for one in warnings):
        yield f"the driver does not run on {spec.get('nodeName')}: install it there, or restart it"
        return
    if warnings:
        yield "the driver refuses to prepare the claim, see above: correct what it complains of in the claim or its class"
        return
    yield f"look at the driver's pod on {spec.get('nodeName')}: has it registered with the kubelet, what does it log?"
