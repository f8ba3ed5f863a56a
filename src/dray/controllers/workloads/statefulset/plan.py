"""Which pods a StatefulSet creates and deletes next, in the order of their ordinals, and its status. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dray.api.intstr import scaled_value
from dray.api.pods import is_ready, is_terminal, is_terminating, phase
from dray.client.resources import STATEFULSETS
from dray.controllers.workloads import owned_pods
from dray.controllers.workloads.history import REVISION_HASH_LABEL
from dray.controllers.workloads.statefulset import volume_claims

if TYPE_CHECKING:
    from dray.api.types.apps import StatefulSet, StatefulSetStatus
    from dray.api.types.core import Pod, PodSpec, PodTemplateSpec


NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"


INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"


_NAME: Final = re.compile(r"(.*)-([0-9]+)")


def ordinal(stateful: StatefulSet, pod: Pod) -> int | None:
    """The number of one of its pods; None for a pod that is not called like one."""
    found = _NAME.fullmatch(pod["metadata"]["name"])
    if found is None or found[1] != stateful["metadata"]["name"]:
        return None
    return int(found[2])


def pod_for(stateful: StatefulSet, index: int, revision: str, template: PodTemplateSpec) -> Pod:
    name = f"{stateful['metadata']['name']}-{index}"
    labels = {REVISION_HASH_LABEL: revision, **identity_labels(name, index)}
    pod = owned_pods.pod_from_template(template, STATEFULSETS, stateful, labels=labels)
    spec: PodSpec = {**pod["spec"], "hostname": name}
    service = stateful["spec"].get("serviceName")
    if service:
        spec["subdomain"] = service
    if volume_claims.templates(stateful):
        spec["volumes"] = volume_claims.volumes_for(stateful, index, spec.get("volumes") or [])
    return {**pod, "metadata": {**pod["metadata"], "name": name}, "spec": spec}


def identity_labels(name: str, index: int) -> dict[str, str]:
    """The labels that say which of its set a pod is."""
    return {NAME_LABEL: name, INDEX_LABEL: str(index)}


def revision_of(pod: Pod) -> str:
    return (pod["metadata"].get("labels") or {}).get(REVISION_HASH_LABEL) or ""


@dataclass(frozen=True, slots=True)
class StatefulSetState:
    """A StatefulSet and its pods at a moment; ``current`` and ``update`` are names of revisions."""

    stateful: StatefulSet
    pods: Mapping[int, Pod]
    current: str
    update: str
    now: float

    @property
    def wanted(self) -> range:
        spec = self.stateful["spec"]
        first = (spec.get("ordinals") or {}).get("start", 0)
        return range(first, first + spec.get("replicas", 1))

    @property
    def is_parallel(self) -> bool:
        return bool(self.stateful["spec"].get("podManagementPolicy") == "Parallel")

    @property
    def partition(self) -> int:
        """Pods below this number stay at the current revision."""
        strategy = self.stateful["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return 0
        return self.wanted.start + int((strategy.get("rollingUpdate") or {}).get("partition") or 0)

    def is_available(self, pod: Pod) -> bool:
        return owned_pods.is_available(pod, self.stateful["spec"].get("minReadySeconds") or 0, self.now)

    def is_healthy(self, pod: Pod) -> bool:
        return not is_terminating(pod) and self.is_available(pod)


@dataclass(frozen=True, slots=True)
class Plan:
    """The numbers of pods to make, and pods to delete; and what is tended before."""

    make: Sequence[int] = ()
    delete: Sequence[Pod] = ()
    pending: Sequence[int] = ()  # whose claims may be missing
    settled: Sequence[int] = ()  # which should have all that makes them members of the set
    surplus: Sequence[int] = ()


def plan(state: StatefulSetState, *, max_unavailable: int | None = None) -> Plan:
    """The next step: what is missing, in order; then what is too much, from the end; then the update, from the end.

    ``most_away`` pods may be away during an update; None where a release knows but one.
    """
    make: list[int] = []
    delete: list[Pod] = []
    pending: list[int] = []
    settled: list[int] = []
    in_order = not state.is_parallel
    for index in state.wanted:
        pod = state.pods.get(index)
        if pod is None:
            make.append(index)
        elif is_terminal(pod):
            if not is_terminating(pod):
                delete.append(pod)
        else:
            if phase(pod) == "Pending":
                pending.append(index)
            if not in_order or (is_running(pod) and state.is_healthy(pod)):
                settled.append(index)
                continue
        if in_order:
            return Plan(make, delete, pending, settled)  # the next one waits for this one
    surplus = [i for i in sorted(state.pods, reverse=True) if i not in state.wanted]
    delete += _condemned_pods(state, surplus)
    if surplus or make or delete:
        return Plan(make, delete, pending, settled, surplus)
    return Plan(delete=_outdated_pods(state, max_unavailable), pending=pending, settled=settled)


def _condemned_pods(state: StatefulSetState, surplus: Sequence[int]) -> list[Pod]:
    """Pods beyond the wanted ones: the last goes first, and where order matters the others wait until it is gone.

    One that is not well is given up only if none before it ails.
    """
    staying = [state.pods[i] for i in surplus if not is_terminating(state.pods[i])]
    if state.is_parallel:
        return staying
    if not surplus or is_terminating(state.pods[surplus[0]]):
        return []
    last = state.pods[surplus[0]]
    well = is_running(last) and state.is_healthy(last)
    ailing = min((i for i, pod in state.pods.items() if not state.is_healthy(pod)), default=None)
    return [last] if well or ailing == surplus[0] else []


def _outdated_pods(state: StatefulSetState, max_unavailable: int | None) -> list[Pod]:
    """The next pods to be made anew from the new template, if all after them are well."""
    strategy = state.stateful["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    candidates = [state.pods[i] for i in reversed(state.wanted) if i >= state.partition]
    if max_unavailable is not None:
        away = sum(1 for pod in state.pods.values() if not state.is_healthy(pod))
        old = [p for p in candidates if revision_of(p) != state.update and not is_terminating(p)]
        return old[: max(0, max_unavailable - away)]
    for pod in candidates:
        if revision_of(pod) != state.update and not is_terminating(pod):
            return [pod]
        if not state.is_healthy(pod):
            break
    return []


def max_unavailable_replicas(stateful: StatefulSet) -> int:
    rolling = (stateful["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return max(
        1, scaled_value(rolling.get("maxUnavailable") or 1, stateful["spec"].get("replicas", 1), up=False)
    )


def is_running(pod: Pod) -> bool:
    return phase(pod) == "Running" and is_ready(pod)


def status_of(state: StatefulSetState) -> StatefulSetStatus:
    stateful, current, update = state.stateful, state.current, state.update
    there = list(state.pods.values())
    staying = [p for p in there if not is_terminating(p)]
    ready = [p for p in there if is_running(p)]
    updated = sum(1 for p in staying if revision_of(p) == update)
    wanted = len(state.wanted)
    strategy = (stateful["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate")
    if strategy == "RollingUpdate" and updated == wanted == len(there) == len(ready):
        current = update  # the update is complete
    status: StatefulSetStatus = {
        "replicas": len(there),
        "observedGeneration": stateful["metadata"].get("generation", 0),
        "availableReplicas": sum(1 for p in ready if state.is_available(p)),
    }
    if ready:
        status["readyReplicas"] = len(ready)
    if at_current := sum(1 for p in staying if revision_of(p) == current):
        status["currentReplicas"] = at_current
    if updated:
        status["updatedReplicas"] = updated
    status["currentRevision"], status["updateRevision"] = current, update
    status["collisionCount"] = (stateful.get("status") or {}).get("collisionCount", 0)
    return status
