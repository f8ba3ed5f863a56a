"""DaemonSets: one pod on every node that can have it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from dray.api import matching
from dray.api.claims import controller_of
from dray.api.errors import NotFound
from dray.api.kinds import Object
from dray.client.resources import DAEMONSETS, NODES, PODS, ObjectKey, key_of
from dray.controllers.framework import Controller, Kit
from dray.controllers.workloads import owning, placing

Document = Mapping[str, Any]
HASH_LABEL = "controller-revision-hash"
GENERATION_LABEL = "pod-template-generation"

_EVERYWHERE = tuple(
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)


def pod_for(daemons: Document, node: str, digest: str) -> Object:
    """A pod that the scheduler can only put on this node."""
    labels = {HASH_LABEL: digest, GENERATION_LABEL: str(daemons["metadata"].get("generation", 1))}
    pod = owning.pod_from(daemons["spec"]["template"], DAEMONSETS, daemons, labels=labels)
    spec = dict(pod["spec"])
    network = (
        {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"},
    )
    extra = _EVERYWHERE + (network if spec.get("hostNetwork") else ())
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *extra]
    spec["affinity"] = placing.pinned_to(spec.get("affinity") or {}, node)
    return {**pod, "spec": spec}


def should_run(daemons: Document, node: Document) -> tuple[bool, bool]:
    """(start a pod there, keep one that is there)."""
    spec = daemons["spec"]["template"]["spec"]
    if spec.get("nodeName") and spec["nodeName"] != node["metadata"]["name"]:
        return False, False
    test = matching.pod_node_test(spec)
    if test is not None and not test(node["metadata"]["name"], node["metadata"].get("labels") or {}):
        return False, False
    tolerations = [*(spec.get("tolerations") or ()), *_EVERYWHERE]
    taints = (node.get("spec") or {}).get("taints") or ()
    start = matching.untolerated(taints, tolerations, ("NoSchedule", "NoExecute")) is None
    keep = matching.untolerated(taints, tolerations, ("NoExecute",)) is None
    return start, keep


class DaemonSetController(Controller[ObjectKey]):
    name = "daemonset-controller"

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._sets = kit.informers.get(DAEMONSETS)
        self._pods = kit.informers.get(PODS, indexers={"owner": owning.by_owner})
        self._nodes = kit.informers.get(NODES)
        self._expected = owning.Expectations(kit.clock)
        self._sets.add_handler(
            on_add=lambda n: self.enqueue(key_of(n)),
            on_update=lambda o, n: self.enqueue(key_of(n)),
            on_delete=lambda o: self._expected.forget(key_of(o)),
        )
        self._pods.add_handler(
            on_add=self._pod_changed, on_update=lambda o, n: self._pod_changed(n), on_delete=self._pod_changed
        )
        self._nodes.add_handler(on_add=self._all, on_update=self._node_changed, on_delete=self._all)

    def _pod_changed(self, pod: Document) -> None:
        owner = controller_of(pod)
        if owner is not None and owner["kind"] == "DaemonSet":
            self.enqueue(ObjectKey(pod["metadata"]["namespace"], owner["name"]))

    def _node_changed(self, old: Document, new: Document) -> None:
        if old["metadata"].get("labels") != new["metadata"].get("labels") or old.get("spec") != new.get(
            "spec"
        ):
            self._all(new)

    def _all(self, node: Document) -> None:
        for daemons in self._sets.items():
            self.enqueue(key_of(daemons))

    async def sync(self, key: ObjectKey) -> float | None:
        daemons = self._sets.get(*key)
        if daemons is None or "deletionTimestamp" in daemons["metadata"]:
            return None
        uid = daemons["metadata"]["uid"]
        known = [*self._pods.by_index("owner", uid), *self._pods.by_index("owner", f"stray:{key.namespace}")]
        test = owning.matches(daemons["spec"]["selector"])
        pods = await owning.claim_pods(self.kit.client, DAEMONSETS, daemons, known, test)
        digest = owning.template_hash(daemons["spec"]["template"])
        by_node: dict[str, list[Document]] = {}
        for pod in pods:
            by_node.setdefault(_node_of(pod), []).append(pod)
        nodes = {n["metadata"]["name"]: should_run(daemons, n) for n in self._nodes.items()}
        if self._expected.met(key, self._pods.by_index("owner", uid)):
            await self._manage(key, daemons, nodes, by_node, digest)
        return await self._report(key, daemons, nodes, by_node, digest)

    async def _manage(
        self,
        key: ObjectKey,
        daemons: Document,
        nodes: Mapping[str, tuple[bool, bool]],
        by_node: Mapping[str, list[Document]],
        digest: str,
    ) -> None:
        start: list[str] = []
        stop: list[Document] = []
        for name, (wanted, kept) in nodes.items():
            there = by_node.get(name, [])
            failed = [
                p for p in there if owning.phase(p) == "Failed" and "deletionTimestamp" not in p["metadata"]
            ]
            running = [p for p in there if p not in failed]
            stop += failed
            if wanted and not running:
                start.append(name)
            elif not kept:
                stop += [p for p in running if "deletionTimestamp" not in p["metadata"]]
            elif len(running) > 1:
                oldest = sorted(running, key=lambda p: p["metadata"].get("creationTimestamp") or "")
                stop += [p for p in oldest[1:] if "deletionTimestamp" not in p["metadata"]]
        for name, there in by_node.items():
            if name not in nodes:
                stop += [p for p in there if "deletionTimestamp" not in p["metadata"]]
        if not start and not stop:
            stop = self._outdated(daemons, nodes, by_node, digest)
        await asyncio.gather(
            *(self._make(key, daemons, name, digest) for name in start),
            *(self._delete(key, daemons, p) for p in stop),
        )

    def _outdated(
        self,
        daemons: Document,
        nodes: Mapping[str, tuple[bool, bool]],
        by_node: Mapping[str, list[Document]],
        digest: str,
    ) -> list[Document]:
        """Pods of an older template, as many as may be away at once."""
        strategy = daemons["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return []
        wanted = [n for n, (start, _) in nodes.items() if start]
        limit = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        if isinstance(limit, str):
            limit = max(1, -(-int(limit.rstrip("%")) * len(wanted) // 100))
        min_ready = daemons["spec"].get("minReadySeconds") or 0
        pods = [p for n in wanted for p in by_node.get(n, [])]
        away = len(wanted) - sum(1 for p in pods if owning.is_available(p, min_ready, self.kit.clock()))
        old = [
            p
            for p in pods
            if (p["metadata"].get("labels") or {}).get(HASH_LABEL) != digest and owning.is_active(p)
        ]
        broken = [p for p in old if not owning.is_available(p, min_ready, self.kit.clock())]
        rest = [p for p in old if p not in broken]
        return [*broken, *rest[: max(0, limit - away)]]

    async def _make(self, key: ObjectKey, daemons: Document, node: str, digest: str) -> None:
        pod = await self.kit.client.create(PODS, key.namespace, pod_for(daemons, node, digest))
        self._expected.made(key, pod["metadata"]["uid"])
        message = f"Created pod: {pod['metadata']['name']}"
        self.kit.recorder.event(DAEMONSETS, dict(daemons), "Normal", "SuccessfulCreate", message)

    async def _delete(self, key: ObjectKey, daemons: Document, pod: Document) -> None:
        metadata = pod["metadata"]
        self._expected.deleted(key, metadata["uid"])
        try:
            await self.kit.client.delete(PODS, key.namespace, metadata["name"], uid=metadata["uid"])
        except NotFound:
            self._expected.seen(key, metadata["uid"])
            return
        message = f"Deleted pod: {metadata['name']}"
        self.kit.recorder.event(DAEMONSETS, dict(daemons), "Normal", "SuccessfulDelete", message)

    async def _report(
        self,
        key: ObjectKey,
        daemons: Document,
        nodes: Mapping[str, tuple[bool, bool]],
        by_node: Mapping[str, list[Document]],
        digest: str,
    ) -> float | None:
        now = self.kit.clock()
        min_ready = daemons["spec"].get("minReadySeconds") or 0
        desired = current = ready = available = updated = misscheduled = 0
        for name, (wanted, kept) in nodes.items():
            there = [p for p in by_node.get(name, []) if owning.is_active(p)]
            if wanted:
                desired += 1
                if there:
                    pod = min(there, key=lambda p: p["metadata"].get("creationTimestamp") or "")
                    current += 1
                    ready += owning.is_ready(pod)
                    available += owning.is_available(pod, min_ready, now)
                    updated += (pod["metadata"].get("labels") or {}).get(HASH_LABEL) == digest
            elif there and not kept:
                misscheduled += 1
        status: Object = {
            "currentNumberScheduled": current,
            "numberMisscheduled": misscheduled,
            "desiredNumberScheduled": desired,
            "numberReady": ready,
            "observedGeneration": daemons["metadata"].get("generation", 0),
        }
        for name, count in (
            ("updatedNumberScheduled", updated),
            ("numberAvailable", available),
            ("numberUnavailable", desired - available),
        ):
            if count:
                status[name] = count
        if not owning.same(status, daemons.get("status") or {}):
            await self.kit.client.update_status(DAEMONSETS, key.namespace, {**daemons, "status": status})
        return float(min_ready) if min_ready and ready > available else None


def _node_of(pod: Document) -> str:
    """Where the pod is, or the one node it can go to."""
    node: str = pod["spec"].get("nodeName") or placing.pinned_node(pod["spec"]) or ""
    return node
