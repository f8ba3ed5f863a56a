"""How much a pod asks for and a node offers, in whole numbers: milli-cpus, bytes, and counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from dray.api.quantity import Quantity
from dray.api.textcache import cache_texts

if TYPE_CHECKING:
    from dray.api.types.core import PodSpec

# What scoring assumes of a container that names no request, so that empty pods still spread.
DEFAULT_MILLI_CPU_REQUEST = 100
DEFAULT_MEMORY_REQUEST = 200 * 1024 * 1024

_NONE: Mapping[str, int] = {}


class ComputeResources(NamedTuple):
    """A bundle of resources. ``scalars`` holds extended resources and huge pages."""

    cpu: int = 0
    memory: int = 0
    ephemeral: int = 0
    scalars: Mapping[str, int] = _NONE

    @property
    def empty(self) -> bool:
        return not (self.cpu or self.memory or self.ephemeral or self.scalars)


_NOTHING = ComputeResources()


@cache_texts(8192)
def milli(text: str) -> int:
    return Quantity.parse(text).milli_value()


@cache_texts(8192)
def whole(text: str) -> int:
    return Quantity.parse(text).value()


def compute_resources(quantities: Mapping[str, Any]) -> ComputeResources:
    """A resource list of the API as numbers; ``pods`` is not a resource one asks for and is left out."""
    cpu = memory = ephemeral = 0
    scalars: dict[str, int] = {}
    for name, quantity in quantities.items():
        if name == "cpu":
            cpu = milli(str(quantity))
        elif name == "memory":
            memory = whole(str(quantity))
        elif name == "ephemeral-storage":
            ephemeral = whole(str(quantity))
        elif name != "pods":
            scalars[name] = whole(str(quantity))
    return ComputeResources(cpu, memory, ephemeral, scalars or _NONE)


def plus(a: ComputeResources, b: ComputeResources) -> ComputeResources:
    if b.empty:
        return a
    scalars = a.scalars
    if b.scalars:
        merged = dict(scalars)
        for name, value in b.scalars.items():
            merged[name] = merged.get(name, 0) + value
        scalars = merged
    return ComputeResources(a.cpu + b.cpu, a.memory + b.memory, a.ephemeral + b.ephemeral, scalars)


def minus(a: ComputeResources, b: ComputeResources) -> ComputeResources:
    if b.empty:
        return a
    scalars = a.scalars
    if b.scalars:
        merged = dict(scalars)
        for name, value in b.scalars.items():
            left = merged.get(name, 0) - value
            if left:
                merged[name] = left
            else:
                merged.pop(name, None)
        scalars = merged
    return ComputeResources(a.cpu - b.cpu, a.memory - b.memory, a.ephemeral - b.ephemeral, scalars)


def larger(a: ComputeResources, b: ComputeResources) -> ComputeResources:
    scalars: Mapping[str, int] = a.scalars
    if b.scalars:
        scalars = {n: max(a.scalars.get(n, 0), b.scalars.get(n, 0)) for n in a.scalars | b.scalars}  # type: ignore[operator]
    return ComputeResources(
        max(a.cpu, b.cpu), max(a.memory, b.memory), max(a.ephemeral, b.ephemeral), scalars
    )


def pod_requests(spec: PodSpec) -> ComputeResources:
    """What the node must have free for the pod to run.

    Containers and sidecars run together; an ordinary init container runs beside the sidecars started before it.
    A pod-level request replaces the sum for the resources it names.
    """
    total = started = peak = _NOTHING
    for container in spec.get("containers") or ():
        total = plus(total, _requests(container))
    for container in spec.get("initContainers") or ():
        asked = _requests(container)
        if container.get("restartPolicy") == "Always":
            total = plus(total, asked)
            started = plus(started, asked)
            peak = larger(peak, started)
        else:
            peak = larger(peak, plus(started, asked))
    if peak is not _NOTHING:
        total = larger(total, peak)
    whole_pod = (spec.get("resources") or {}).get("requests")
    if whole_pod:
        named = compute_resources(whole_pod)
        total = ComputeResources(
            named.cpu if "cpu" in whole_pod else total.cpu,
            named.memory if "memory" in whole_pod else total.memory,
            total.ephemeral,
            {**total.scalars, **named.scalars},
        )
    overhead = spec.get("overhead")
    return plus(total, compute_resources(overhead)) if overhead else total


def nonzero_requests(spec: Mapping[str, Any], requests: ComputeResources) -> tuple[int, int]:
    """Cpu and memory as scoring counts them: containers that ask for nothing count as small ones."""
    cpu, memory = requests.cpu, requests.memory
    for container in _running_together(spec):
        asked = (container.get("resources") or {}).get("requests") or _NONE
        if "cpu" not in asked:
            cpu += DEFAULT_MILLI_CPU_REQUEST
        if "memory" not in asked:
            memory += DEFAULT_MEMORY_REQUEST
    return cpu, memory


def _running_together(spec: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    yield from spec.get("containers") or ()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container


def _requests(container: Mapping[str, Any]) -> ComputeResources:
    asked = (container.get("resources") or {}).get("requests")
    return compute_resources(asked) if asked else _NOTHING
