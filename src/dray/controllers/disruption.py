"""The disruption controller: it writes into each PodDisruptionBudget how many of its pods may be evicted at present."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dray.api.intstr import scaled_value
from dray.api.objects import controller_of
from dray.api.pods import is_ready
from dray.api.selectors import label_selector
from dray.api.times import from_epoch, to_epoch
from dray.client.informers import Informer
from dray.client.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICASETS,
    REPLICATION_CONTROLLERS,
    STATEFULSETS,
    ObjectKey,
    key_of,
)
from dray.controllers.conditions import with_condition
from dray.controllers.controller import Controller, ControllerContext

if TYPE_CHECKING:
    from dray.api.types.apps import Deployment, ReplicaSet, StatefulSet
    from dray.api.types.core import Pod, ReplicationController
    from dray.api.types.meta import Condition, LabelSelector, OwnerReference
    from dray.api.types.policy import PodDisruptionBudget, PodDisruptionBudgetStatus

    Workload = Deployment | ReplicaSet | ReplicationController | StatefulSet


#: How long an evicted pod may take to be seen deleted before it counts again.
DELETION_SECONDS: Final = 120.0


#: Kinds of workloads that have no size of their own, as the API calls their resources.
_WITHOUT_SCALE: Final = {"DaemonSet": "daemonsets.apps", "Job": "jobs.batch"}


class NoScale(Exception):
    """It is not known how many pods there should be."""


# -- decisions ------------------------------------------------------------------------------------------------------


def budget_selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """An empty selector selects all pods of the namespace; without a selector there are none."""
    selector = budget["spec"].get("selector")
    if selector is None or budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    return label_selector(selector).matches(pod["metadata"].get("labels") or {})


@dataclass(frozen=True, slots=True)
class ExpectedPods:
    pods: int
    healthy: int


def expected_pods(budget: PodDisruptionBudget, pods: Sequence[Pod], scale: int | None) -> ExpectedPods:
    """How many pods there should be, and how many of them healthy; ``scale`` is what their owners are to have."""
    most_away, least = budget["spec"].get("maxUnavailable"), budget["spec"].get("minAvailable")
    if most_away is not None:
        total = scale or 0
        return ExpectedPods(total, max(0, total - scaled_value(most_away, total, up=True)))
    if isinstance(least, str):
        return ExpectedPods(scale or 0, scaled_value(least, scale or 0, up=True))
    return ExpectedPods(len(pods), least or 0)


def needs_scale(budget: PodDisruptionBudget) -> bool:
    spec = budget["spec"]
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def disrupted_pods(budget: PodDisruptionBudget, pods: Collection[Pod], *, now: float) -> dict[str, str]:
    """Pods whose eviction was granted and that are not seen deleted yet, and when it was."""
    granted = (budget.get("status") or {}).get("disruptedPods") or {}
    alive = {p["metadata"]["name"] for p in pods if "deletionTimestamp" not in p["metadata"]}
    return {
        name: when
        for name, when in granted.items()
        if name in alive and to_epoch(when) + DELETION_SECONDS >= now
    }


def status_of(
    budget: PodDisruptionBudget, pods: Collection[Pod], wanted: ExpectedPods, *, now: float, problem: str = ""
) -> PodDisruptionBudgetStatus:
    before = budget.get("status") or {}
    if problem:
        # Nothing may be evicted by numbers that are not known.
        allowed = 0
        status: PodDisruptionBudgetStatus = {
            "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0, **before, "disruptionsAllowed": 0,
        }  # fmt: skip
    else:
        granted = disrupted_pods(budget, pods, now=now)
        healthy = sum(1 for p in pods if _is_healthy(p) and p["metadata"]["name"] not in granted)
        allowed = max(0, healthy - wanted.healthy) if wanted.pods > 0 else 0
        status = {
            "observedGeneration": budget["metadata"].get("generation", 0),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": wanted.healthy,
            "expectedPods": wanted.pods,
        }
        if granted:
            status["disruptedPods"] = granted
    reason = "SyncFailed" if problem else "SufficientPods" if allowed else "InsufficientPods"
    condition: Condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": reason,
        "message": problem,
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": from_epoch(now),
    }
    return {**status, "conditions": with_condition(before.get("conditions") or (), condition)}


def _is_healthy(pod: Pod) -> bool:
    return is_ready(pod) and "deletionTimestamp" not in pod["metadata"]


# -- the controller -------------------------------------------------------------------------------------------------


class DisruptionController(Controller[ObjectKey]):
    name = "disruption-controller"
    workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._resource = context.resource(POD_DISRUPTION_BUDGETS)
        self._budgets = context.informers.get(self._resource)
        self._pods = context.informers.get(PODS)
        get = context.informers.get
        self._owners: Mapping[str, Informer[Any]] = {
            "Deployment": get(DEPLOYMENTS),
            "ReplicaSet": get(REPLICASETS),
            "ReplicationController": get(REPLICATION_CONTROLLERS),
            "StatefulSet": get(STATEFULSETS),
        }
        self._budgets.add_handler(on_set=lambda n: self.enqueue(key_of(n)))
        self._pods.add_handler(
            on_add=self._pod_changed, on_update=self._pod_updated, on_delete=self._pod_changed
        )
        for informer in self._owners.values():
            informer.add_handler(on_update=self._owner_changed)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if not self._budgets.items():
            return  # as in most clusters, where pods are many and change often
        self._pod_changed(new)
        if old["metadata"].get("labels") != new["metadata"].get("labels"):
            self._pod_changed(old)

    def _pod_changed(self, pod: Pod) -> None:
        for budget in self._budgets.items():
            if budget_selects(budget, pod):
                self.enqueue(key_of(budget))

    def _owner_changed(self, old: Workload, new: Workload) -> None:
        """A budget in percent depends on how many pods there should be."""
        if old["spec"].get("replicas") != new["spec"].get("replicas"):
            for budget in self._budgets.items():
                if budget["metadata"]["namespace"] == new["metadata"]["namespace"] and needs_scale(budget):
                    self.enqueue(key_of(budget))

    async def sync(self, key: ObjectKey) -> float | None:
        budget = self._budgets.get(*key)
        if budget is None:
            return None
        pods = [pod for pod in self._pods.items() if budget_selects(budget, pod)]
        now = self.context.clock()
        problem = ""
        wanted = ExpectedPods(0, 0)
        if not pods:
            self.context.recorder.event(self._resource, budget, "Normal", "NoPods", "No matching pods found")
        try:
            wanted = expected_pods(budget, pods, self._scale(pods) if needs_scale(budget) else None)
        except NoScale as unknown:
            problem = str(unknown)
            message = f"Failed to calculate the number of expected pods: {problem}"
            self.context.recorder.event(
                self._resource, budget, "Warning", "CalculateExpectedPodCountFailed", message
            )
        else:
            self._record_unmanaged_event(budget, pods)
        status = status_of(budget, pods, wanted, now=now, problem=problem)
        if status != (budget.get("status") or {}):
            await self.context.client.update_status(
                self._resource,
                key.namespace,
                {**budget, "status": status},
            )
        waiting = [to_epoch(when) for when in status.get("disruptedPods", {}).values()]
        return max(min(waiting) + DELETION_SECONDS - now, 0.1) if waiting else None

    def _record_unmanaged_event(self, budget: PodDisruptionBudget, pods: Collection[Pod]) -> None:
        """A budget that depends on how many pods there should be cannot know it for pods without a controller."""
        if needs_scale(budget) and any(controller_of(pod) is None for pod in pods):
            message = (
                f"Pods selected by this PodDisruptionBudget (selector: {_selector_text(budget['spec']['selector'])}) "
                "were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which "
                'may result in undefined behavior. To account for these pods please set ".spec.minAvailable" field of '
                "the PDB to an integer value."
            )
            self.context.recorder.event(self._resource, budget, "Warning", "UnmanagedPods", message)

    def _scale(self, pods: Collection[Pod]) -> int:
        """The sizes of all workloads that the pods belong to; pods without a controller are left out."""
        sizes: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                continue
            workload = self._workload(pod["metadata"]["namespace"], owner)
            if workload is None:
                if owner["kind"] in _WITHOUT_SCALE:
                    raise NoScale(f"{_WITHOUT_SCALE[owner['kind']]} does not implement the scale subresource")
                raise NoScale(f'found no controllers for pod "{pod["metadata"]["name"]}"')
            sizes[workload["metadata"]["uid"]] = workload["spec"].get("replicas", 1)
        return sum(sizes.values())

    def _workload(self, namespace: str, owner: OwnerReference) -> Workload | None:
        """What decides about the size: for a ReplicaSet that is its Deployment, if it has one."""
        informer = self._owners.get(owner["kind"])
        found: Workload | None = informer.get(namespace, owner["name"]) if informer is not None else None
        if found is None or found["metadata"]["uid"] != owner["uid"]:
            return None
        above = controller_of(found)
        return self._workload(namespace, above) if above is not None else found


def _selector_text(selector: LabelSelector) -> str:
    """A selector as Go prints it."""
    labels = "".join(f"{k}: {v}," for k, v in sorted((selector.get("matchLabels") or {}).items()))
    wanted = "".join(
        f"LabelSelectorRequirement{{Key:{one['key']},Operator:{one['operator']},"
        f"Values:[{' '.join(one.get('values') or ())}],}},"
        for one in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{wanted}}},}}"
    )
