"""Pods that are scheduled together: whether their group can be placed, which member fails, and what the group lacks.

The scheduler's own search is asked, over the nodes, pods and claims of the snapshot.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dray.api import claims, pods
from dray.api.identity import ObjectKey, device_id, object_key
from dray.explain.nodes.filters import pod_info
from dray.explain.nodes.whatif import DeviceGrant, PodPlacement
from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.groups import GroupCache, PodGroupInfo
from dray.placement.cache.nodes import ClusterCache
from dray.placement.config import SchedulerProfile
from dray.placement.decision import decide
from dray.placement.gangs import Gang, GroupScheduler, Interrupted
from dray.placement.outcome import Bind, Unschedulable
from dray.placement.plugins.dynamic_resources import DeviceReservation
from dray.placement.profiles import Framework, build_profiles

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Pod, PodResourceClaimStatus
    from dray.api.types.meta import ObjectMeta, OwnerReference
    from dray.api.types.scheduling_v1beta1 import PodGroup
    from dray.explain.model.cluster import Cluster
    from dray.placement.cache.nodes import NodeInfo
    from dray.placement.cache.pods import PodInfo
    from dray.placement.outcome import Outcome

T = TypeVar("T")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class GangExplanation:
    """How the group of a pod stands. ``fits``: the scheduler would place it now."""

    headline: str
    facts: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    fits: bool = False


def explain_gang(cluster: Cluster, pod: Pod) -> GangExplanation | None:
    """How the group of a pod without a node stands; None: the pod has no group, or groups count for nothing here."""
    name = ((pod.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName")
    if not name or "GenericWorkload" not in cluster.gates:
        return None
    key = ObjectKey(object_key(pod).namespace, name)
    if "PodGroup" in cluster.snapshot.unread:
        return GangExplanation(f"its pod group {name} cannot be told about, as you may not read PodGroups")
    document = cluster.groups.get(key)
    if document is None:
        headline = f"it waits for its pod group {name}, which does not exist"
        return GangExplanation(headline, advice=(f"create the PodGroup {name} in namespace {key.namespace}",))
    return _Explainer(cluster, document).explain()


def place_gang(cluster: Cluster, document: PodGroup, members: Sequence[Pod]) -> Mapping[str, PodPlacement]:
    """Where the members of a group from manifests would go, by pod name: all that it needs, or none."""
    return _Explainer(cluster, document).place(members)


class _Explainer:
    def __init__(self, cluster: Cluster, document: PodGroup) -> None:
        self._cluster = cluster
        self._groups = GroupCache()
        self._nodes, self._claims = ClusterCache(), ClaimCache()
        self._group = self._groups.set_group({**document, "metadata": _identity(document)})
        members = [one for one in cluster.snapshot.pods if self._is_member(one)]
        self._waiting = [pod_info(one) for one in members if not one["spec"].get("nodeName")]
        self._finished = sum((one.get("status") or {}).get("phase") == "Succeeded" for one in members)

    def _is_member(self, pod: Pod) -> bool:
        group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
        return (
            group == self._group.name
            and object_key(pod).namespace == self._group.namespace
            and (pod.get("status") or {}).get("phase") != "Failed"
        )

    def place(self, members: Sequence[Pod]) -> Mapping[str, PodPlacement]:
        framework = self._framework()
        infos = [pod_info(self._with_claims(one)) for one in members]
        scheduled = len(self._nodes.pods_of_group(*self._group.key)) + self._finished
        try:
            gang = Gang(self._group, (*self._waiting, *infos), scheduled)
            result = self._scheduler(framework).schedule(gang)[self._group.name]
        except Interrupted as gated:
            return {pod.name: PodPlacement(pod.key, problem=gated.reason) for pod in infos}
        found = {}
        for pod in infos:
            match result.outcomes.get(pod.uid):
                case Bind() as bind if result.placed:
                    found[pod.name] = PodPlacement(pod.key, bind.node, tuple(_grants(bind)))
                case Unschedulable(message):
                    found[pod.name] = PodPlacement(pod.key, problem=message)
                case _:
                    found[pod.name] = PodPlacement(pod.key, problem=f"waits for its gang: {result.message}")
        return found

    def _with_claims(self, pod: Pod) -> Pod:
        """The pod with the claims that would be made for it."""
        key = object_key(pod)
        statuses: list[PodResourceClaimStatus] = []
        for entry in pod["spec"].get("resourceClaims") or ():
            _, template_name = claims.claim_and_template_names(entry)
            template = self._cluster.templates.get(ObjectKey(key.namespace, template_name or ""))
            if template is None:
                continue
            shared = self._group.shares(entry)
            name = f"{self._group.name if shared else key.name}-{entry['name']}"
            owner = _owner("PodGroup", self._group.name, self._group.uid)
            if not shared:
                owner = _owner("Pod", key.name, f"{key.namespace}/{key.name}")
            metadata: ObjectMeta = {
                "name": name, "namespace": key.namespace, "uid": f"claim/{name}", "resourceVersion": "1",
                "ownerReferences": [owner],
            }  # fmt: skip
            self._claims.set_claim({"metadata": metadata, "spec": template["spec"]["spec"]})
            statuses.append({"name": entry["name"], "resourceClaimName": name})
        return {**pod, "status": {**(pod.get("status") or {}), "resourceClaimStatuses": statuses}}

    def explain(self) -> GangExplanation:
        group = self._group
        framework = self._framework()
        scheduled = len(self._nodes.pods_of_group(*group.key)) + self._finished
        there = scheduled + len(self._waiting)
        if there < group.min_count:
            headline = f"its gang {group.name} needs {group.min_count} pods at once, and {there} are there"
            missing = group.min_count - there
            advice = f"create {missing} more pods with schedulingGroup.podGroupName {group.name}, or lower minCount"
            return GangExplanation(headline, advice=(advice,))
        ordered = sorted(self._waiting, key=lambda pod: (-pod.priority, pod.created, pod.name))
        differing = [pod.name for pod in ordered if pod.priority != group.priority]
        if differing:
            headline = f"pod {differing[0]} has another priority than its pod group {group.name}"
            return GangExplanation(
                headline, advice=("give the group and its pods the same priorityClassName",)
            )
        scheduler = self._scheduler(framework)
        try:
            result = scheduler.schedule(Gang(group, tuple(ordered), scheduled))[group.name]
            scheduler.assumptions.revert()
            if result.placed:
                return GangExplanation(f"its {_kind(group)} {group.name} fits as a whole", fits=True)
            return self._lacks(ordered, scheduled, self._scheduler(framework))
        except Interrupted as gated:
            return GangExplanation(f"a member of its pod group {group.name} may not be tried: {gated.reason}")

    def _lacks(
        self, members: Sequence[PodInfo], scheduled: int, scheduler: GroupScheduler
    ) -> GangExplanation:
        """Try all members, also those behind one that does not fit."""
        group = self._group
        outcomes = {pod.name: scheduler.try_anywhere(pod) for pod in members}
        scheduler.assumptions.revert()
        fitting = [name for name, outcome in outcomes.items() if isinstance(outcome, Bind)]
        failing = {n: o for n, o in outcomes.items() if isinstance(o, Unschedulable)}
        reached = scheduled + len(fitting)
        headline = f"its {_kind(group)} {group.name} needs {group.min_count} members at once, and {reached} would fit"
        lacking = group.min_count - reached
        facts = (
            [f"{lacking} more must fit; nothing is held for the {len(fitting)} that do"]
            if lacking > 0
            else []
        )
        facts += [
            f"member {name} does not fit: {o.message}"
            for name, o in itertools.islice(failing.items(), _SHOWN)
        ]
        if len(failing) > _SHOWN:
            facts.append(f"nor do {len(failing) - _SHOWN} others")
        if lacking <= 0:
            facts.append("member by member they fit, but not under the label that keeps them together")
        advice = f"free devices or nodes for {max(lacking, 1)} more"
        if reached:
            advice += f", or lower minCount of the group to {reached}"
        return GangExplanation(headline, tuple(facts), (advice,))

    # -- the scheduler's caches -------------------------------------------------------------------------------------

    def _framework(self) -> Framework:
        cluster, snapshot = self._cluster, self._cluster.snapshot
        for node in snapshot.nodes:
            self._nodes.set_node(node)
        for pod in snapshot.pods:
            node_name = pod["spec"].get("nodeName")
            if node_name and not pods.is_terminal(pod):
                self._nodes.add_pod(pod_info(pod), node_name)
        for group in cluster.groups.values():
            self._groups.set_group({**group, "metadata": _identity(group)})
        for rule in snapshot.taint_rules:
            self._claims.set_taint_rule(rule)
        for device_class in snapshot.classes:
            self._claims.set_class(device_class)
        for resource_slice in snapshot.slices:
            self._claims.set_slice(resource_slice)
        for claim in snapshot.claims:
            self._claims.set_claim({**claim, "metadata": _identity(claim)})
        serial = itertools.count()
        profiles = build_profiles(
            [SchedulerProfile()],
            self._nodes,
            self._claims,
            gates=cluster.gates,
            version=cluster.version,
            namespaces=lambda: {
                name: (one.get("metadata") or {}).get("labels") or {}
                for name, one in cluster.namespaces.items()
            },
            new_share_id=lambda: f"00000000-0000-4000-8000-{next(serial):012x}",
            groups=self._groups,
        )
        return next(iter(profiles.by_name.values()))

    def _scheduler(self, framework: Framework) -> GroupScheduler:
        def try_pod(pod: PodInfo, nodes: Sequence[NodeInfo] | None) -> Outcome:
            return decide(pod, framework, nodes=nodes, in_group=True)

        return GroupScheduler(framework, self._claims, try_pod)


def _owner(kind: str, name: str, uid: str) -> OwnerReference:
    return {"apiVersion": "", "kind": kind, "name": name, "uid": uid, "controller": True}


def _identity(document: Object) -> ObjectMeta:
    """An object from a manifest has no uid, and perhaps no namespace."""
    key = object_key(document)
    return {"namespace": key.namespace, "uid": f"{key}", **document["metadata"]}


def _grants(bind: Bind) -> Iterator[DeviceGrant]:
    if isinstance(bind.reservation, DeviceReservation):
        plan = bind.reservation.plan
        for claim, result in zip(plan.claims, plan.results, strict=True):
            for one in (result.get("devices") or {}).get("results") or ():
                yield DeviceGrant(object_key(claim).name, one["request"], device_id(one))


def _kind(group: PodGroupInfo) -> str:
    return "gang" if (group.document["spec"].get("schedulingPolicy") or {}).get("gang") else "pod group"
