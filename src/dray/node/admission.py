"""Whether a pod that was bound to the node can run there. The scheduler has seen to that, unless it was passed by. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from dray.api import pods
from dray.api.compute import ComputeResources, compute_resources, minus, plus, pod_requests
from dray.node.pod_actions import Failure

if TYPE_CHECKING:
    from dray.api.types.core import Container, ContainerPort, Pod, PodSpec

EVERYWHERE = ("", "0.0.0.0", "::")


def rejection(pod: Pod, others: Iterable[Pod], allocatable: Mapping[str, str]) -> Failure | None:
    """Why the node must refuse a pod beside the others that run on it; None if it can run."""
    asked = _requests(pod)
    if asked.empty and not any(host_ports(pod)):
        return None
    beside = list(others)
    problem = _ports(pod, beside) or lacking(asked, beside, allocatable)
    if problem is None:
        return None
    return Failure(problem.reason, f"Pod was rejected: {problem.message}")


def lacking(asked: ComputeResources, others: Iterable[Pod], allocatable: Mapping[str, str]) -> Failure | None:
    """The first resource of which the node has too little. Resources that it does not have at all are no business of
    its: they may come from devices."""
    if asked.empty:
        return None
    used = ComputeResources()
    for other in others:
        used = plus(used, _requests(other))
    total = compute_resources(allocatable)
    left = minus(total, used)
    for name, wanted, free, taken, whole in _amounts(asked, left, used, total):
        if wanted > free:
            text = f"requested: {wanted}, used: {taken}, capacity: {whole}"
            return Failure(f"OutOf{name}", f"Node didn't have enough resource: {name}, {text}")
    return None


def _requests(pod: Pod) -> ComputeResources:
    """What a pod takes of the node's own. Extended resources for which it has a claim are no part of that."""
    spec, claim = pod["spec"], pods.extended_resource_claim(pod)
    if claim is None:
        return pod_requests(spec)
    served = {(m["containerName"], m["resourceName"]) for m in claim.get("requestMappings") or ()}

    def without(container: Container) -> Container:
        resources = container.get("resources") or {}
        asked = resources.get("requests") or {}
        left = {name: amount for name, amount in asked.items() if (container["name"], name) not in served}
        return {**container, "resources": {**resources, "requests": left}}

    changed: PodSpec = {**spec, "containers": [without(c) for c in spec["containers"]]}
    if "initContainers" in spec:
        changed["initContainers"] = [without(c) for c in spec["initContainers"]]
    return pod_requests(changed)


def resize_obstacle(pod: Pod, others: Iterable[Pod], allocatable: Mapping[str, str]) -> Failure | None:
    """Why a pod cannot have the resources that it asks for now: never on this node, or not beside the others."""
    asked = _requests(pod)
    if never := lacking(asked, (), allocatable):
        return Failure("Infeasible", never.message)
    if now := lacking(asked, others, allocatable):
        return Failure("Deferred", now.message)
    return None


def _amounts(
    asked: ComputeResources, left: ComputeResources, used: ComputeResources, total: ComputeResources
) -> Iterator[tuple[str, int, int, int, int]]:
    yield "cpu", asked.cpu, left.cpu, used.cpu, total.cpu
    yield "memory", asked.memory, left.memory, used.memory, total.memory
    yield "ephemeral-storage", asked.ephemeral, left.ephemeral, used.ephemeral, total.ephemeral
    for name, wanted in asked.scalars.items():
        if name in total.scalars:
            yield name, wanted, left.scalars.get(name, 0), used.scalars.get(name, 0), total.scalars[name]


def _ports(pod: Pod, others: Iterable[Pod]) -> Failure | None:
    wanted = list(host_ports(pod))
    if not wanted:
        return None
    taken = [port for other in others for port in host_ports(other)]
    if any(_conflict(mine, theirs) for mine in wanted for theirs in taken):
        text = "node(s) didn't have free ports for the requested pod ports"
        return Failure("NodePorts", f"Predicate NodePorts failed: {text}")
    return None


def host_ports(pod: Pod) -> Iterator[ContainerPort]:
    for container in pod["spec"].get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                yield port


def _conflict(a: ContainerPort, b: ContainerPort) -> bool:
    if a["hostPort"] != b["hostPort"] or a.get("protocol", "TCP") != b.get("protocol", "TCP"):
        return False
    here, there = a.get("hostIP") or "", b.get("hostIP") or ""
    return here == there or here in EVERYWHERE or there in EVERYWHERE
