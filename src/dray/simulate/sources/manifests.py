"""Manifests as a workload: pods and workloads with annotations that say when they come and how long they run.

====================================  ================================================================
annotation                            what
====================================  ================================================================
``simulate.dray.dev/arrival``         when the pods are created, in seconds; 0 without it
``simulate.dray.dev/duration``        how long each of them runs, in seconds; for good without it
``simulate.dray.dev/copies``          how many pods there are; 1, or what a workload says, without it
====================================  ================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from dray.api.claims import claim_and_template_names
from dray.explain.model.workloads import expand_workload
from dray.simulate.model import Arrival, Event, GroupCreated, SimulationError
from dray.simulate.sources.shapes import claim_for

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Pod, PodResourceClaimStatus
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate
    from dray.api.types.scheduling import PriorityClass
    from dray.api.types.scheduling_v1beta1 import PodGroup
    from dray.explain.model.workloads import Workload

ARRIVAL, DURATION, COPIES = (f"simulate.dray.dev/{name}" for name in ("arrival", "duration", "copies"))


@dataclass(frozen=True)
class Manifests:
    """Objects from manifests: pods and workloads, the claims and claim templates that they use, priority classes."""

    documents: Sequence[Any]
    namespace: str = "default"

    def events(self, seed: int = 0) -> Iterator[Event]:
        """The groups of pods first, then the pods in order of time."""
        for document in self.documents:
            if isinstance(document, dict) and document.get("kind") == "PodGroup":
                yield GroupCreated(0.0, _group(cast("PodGroup", document), self.namespace))
        yield from self.arrivals()

    def arrivals(self) -> Iterator[Arrival]:
        for document in self.documents:
            if not (isinstance(document, dict) and isinstance(document.get("metadata"), dict)):
                raise SimulationError("a document of the workload is no object: it has no metadata")
        objects: list[Object] = [
            one for document in self.documents for one in expand_workload(document, self.namespace)
        ]
        templates: dict[tuple[str, str], ResourceClaimTemplate] = {}
        claims: dict[tuple[str, str], ResourceClaim] = {}
        priorities: dict[str, int] = {}
        for one in objects:
            key = (one["metadata"].get("namespace") or "", one["metadata"].get("name") or "")
            match one.get("kind"):
                case "ResourceClaimTemplate":
                    templates[key] = cast("ResourceClaimTemplate", one)
                case "ResourceClaim":
                    claim = cast("ResourceClaim", one)
                    uid = f"claim/{key[0]}/{key[1]}"
                    claims[key] = {**claim, "metadata": {**claim["metadata"], "uid": uid}}
                case "PriorityClass":
                    priorities[key[1]] = cast("PriorityClass", one).get("value") or 0
        arrivals = list(self._arrivals(templates, claims, priorities))
        yield from sorted(arrivals, key=lambda one: one.time)

    @property
    def pods(self) -> int:
        """How many pods there are."""
        return sum(self._copies(document, pod) for document, pod in self._pods())

    def copied(self, copies: int) -> Iterator[list[Arrival]]:
        """The pods so many times over, each copy with names and claims of its own, whatever arrives when."""
        multiplied = []
        numbers = []
        for document in self.documents:
            *_, pod = expand_workload(document, self.namespace)
            if pod.get("kind") != "Pod":
                multiplied.append(document)
                continue
            numbers.append(number := self._copies(document, pod))
            wanted = {ARRIVAL: "0", COPIES: str(number * copies)}
            multiplied.append(_annotated(document, wanted))
        arrivals = list(Manifests(multiplied, self.namespace).arrivals())
        places = [sum(numbers[:index]) * copies for index in range(len(numbers))]
        for copy in range(copies):
            yield [
                one
                for begin, number in zip(places, numbers, strict=True)
                for one in arrivals[begin + copy * number : begin + (copy + 1) * number]
            ]

    def _pods(self) -> Iterator[tuple[Workload, Pod]]:
        """Each document with the pod that it stands for."""
        for document in self.documents:
            *_, pod = expand_workload(document, self.namespace)
            if pod.get("kind") == "Pod":
                yield document, pod

    def _copies(self, document: Workload, pod: Pod) -> int:
        spec = document.get("spec") or {}
        default = 1 if document is pod else spec.get("replicas", spec.get("parallelism", 1))
        return int(_number(pod, _annotations(document, pod), COPIES, default))

    def _arrivals(
        self,
        templates: dict[tuple[str, str], ResourceClaimTemplate],
        claims: dict[tuple[str, str], ResourceClaim],
        priorities: dict[str, int],
    ) -> Iterator[Arrival]:
        shared: set[tuple[str, str]] = set()
        for document, pod in self._pods():
            annotations = _annotations(document, pod)
            copies = self._copies(document, pod)
            time = _number(pod, annotations, ARRIVAL, 0)
            duration = _number(pod, annotations, DURATION, 0) if DURATION in annotations else None
            for number in range(copies):
                name = pod["metadata"]["name"] if copies == 1 else f"{pod['metadata']['name']}-{number}"
                made = _pod(pod, name, priorities)
                yield Arrival(time, made, tuple(_claims_of(made, templates, claims, shared)), duration)


def _group(document: PodGroup, namespace: str) -> PodGroup:
    metadata: ObjectMeta = {"namespace": namespace, **document["metadata"]}
    metadata.setdefault("uid", f"group/{metadata['namespace']}/{metadata['name']}")
    return {**document, "metadata": metadata}


def _annotations(document: Workload, pod: Pod) -> dict[str, str]:
    return {
        **(document["metadata"].get("annotations") or {}),
        **(pod["metadata"].get("annotations") or {}),
    }


def _annotated(document: Any, annotations: dict[str, str]) -> Any:
    """A document whose pods have these annotations."""

    def on(one: Any) -> Any:
        metadata = one.get("metadata") or {}
        return {
            **one,
            "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **annotations}},
        }

    made = on(document)
    template = (document.get("spec") or {}).get("template")
    if template is not None and document.get("kind") != "Pod":
        made["spec"] = {**document["spec"], "template": on(template)}
    return made


def _pod(pod: Pod, name: str, priorities: dict[str, int]) -> Pod:
    spec = pod["spec"]
    metadata: ObjectMeta = {**pod["metadata"], "name": name, "uid": f"{pod['metadata']['namespace']}/{name}"}
    if "priority" not in spec and (of_class := spec.get("priorityClassName")):
        if of_class not in priorities:
            raise SimulationError(f"pod {name}: there is no PriorityClass {of_class} in the manifests")
        spec = {**spec, "priority": priorities[of_class]}
    made: Pod = {**pod, "metadata": metadata, "spec": spec}
    statuses: list[PodResourceClaimStatus] = [
        {"name": entry["name"], "resourceClaimName": f"{name}-{entry['name']}"}
        for entry in spec.get("resourceClaims") or ()
        if claim_and_template_names(entry)[1]
    ]
    if statuses:
        made["status"] = {"resourceClaimStatuses": statuses}
    return made


def _claims_of(
    pod: Pod,
    templates: dict[tuple[str, str], ResourceClaimTemplate],
    claims: dict[tuple[str, str], ResourceClaim],
    shared: set[tuple[str, str]],
) -> Iterable[ResourceClaim]:
    """Claims from templates, and named claims with the first pod that uses them."""
    namespace = pod["metadata"]["namespace"]
    for entry in pod["spec"].get("resourceClaims") or ():
        claim, template = claim_and_template_names(entry)
        if template is not None:
            found = templates.get((namespace, template))
            if found is None:
                raise SimulationError(
                    f"pod {pod['metadata']['name']}: there is no ResourceClaimTemplate {template} in the manifests"
                )
            yield claim_for(pod, entry["name"], found["spec"]["spec"])
        elif claim is not None and (namespace, claim) in claims and (namespace, claim) not in shared:
            shared.add((namespace, claim))
            yield claims[namespace, claim]


def _number(pod: Pod, annotations: dict[str, str], name: str, default: float) -> float:
    text = annotations.get(name)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = -1
    if number < 0:
        raise SimulationError(
            f"pod {pod['metadata']['name']}: annotation {name} is {text!r}; it must be a number that is not negative"
        )
    return number
