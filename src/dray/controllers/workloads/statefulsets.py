"""StatefulSets: pods with names that last, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dray.api.claims import controller_of
from dray.api.errors import AlreadyExists, NotFound
from dray.api.kinds import Object
from dray.client.resources import (
    CONTROLLER_REVISIONS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFULSETS,
    ObjectKey,
    key_of,
)
from dray.controllers.framework import Controller, Kit
from dray.controllers.workloads import owning

Document = Mapping[str, Any]
REVISION_LABEL = "controller-revision-hash"
NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"


def ordinal(name: str) -> int:
    _, dash, number = name.rpartition("-")
    return int(number) if dash and number.isdigit() else -1


def pod_for(stateful: Document, index: int, revision: str, template: Document) -> Object:
    name = f"{stateful['metadata']['name']}-{index}"
    labels = {REVISION_LABEL: revision, NAME_LABEL: name, INDEX_LABEL: str(index)}
    pod = owning.pod_from(template, STATEFULSETS, stateful, labels=labels)
    metadata = {k: v for k, v in pod["metadata"].items() if k != "generateName"}
    spec = {**pod["spec"], "hostname": name}
    service = stateful["spec"].get("serviceName")
    if service:
        spec["subdomain"] = service
    claims = {c["metadata"]["name"] for c in stateful["spec"].get("volumeClaimTemplates") or ()}
    if claims:
        volumes = [v for v in spec.get("volumes") or () if v["name"] not in claims]
        volumes += [
            {"name": c, "persistentVolumeClaim": {"claimName": f"{c}-{name}"}} for c in sorted(claims)
        ]
        spec["volumes"] = volumes
    return {**pod, "metadata": {**metadata, "name": name}, "spec": spec}


class StatefulSetController(Controller[ObjectKey]):
    name = "statefulset-controller"

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._sets = kit.informers.get(STATEFULSETS)
        self._pods = kit.informers.get(PODS, indexers={"owner": owning.by_owner})
        self._revisions = kit.informers.get(CONTROLLER_REVISIONS, indexers={"owner": owning.by_owner})
        self._expected = owning.Expectations(kit.clock)
        self._sets.add_handler(
            on_add=lambda n: self.enqueue(key_of(n)),
            on_update=lambda o, n: self.enqueue(key_of(n)),
            on_delete=lambda o: self._expected.forget(key_of(o)),
        )
        self._pods.add_handler(
            on_add=self._pod_changed, on_update=lambda o, n: self._pod_changed(n), on_delete=self._pod_changed
        )

    def _pod_changed(self, pod: Document) -> None:
        owner = controller_of(pod)
        if owner is not None and owner["kind"] == "StatefulSet":
            self.enqueue(ObjectKey(pod["metadata"]["namespace"], owner["name"]))

    async def sync(self, key: ObjectKey) -> float | None:
        stateful = self._sets.get(*key)
        if stateful is None or "deletionTimestamp" in stateful["metadata"]:
            return None
        uid = stateful["metadata"]["uid"]
        known = [*self._pods.by_index("owner", uid), *self._pods.by_index("owner", f"stray:{key.namespace}")]
        test = owning.matches(stateful["spec"]["selector"])
        pods = await owning.claim_pods(self.kit.client, STATEFULSETS, stateful, known, test)
        update = await self._revision(key, stateful)
        current = (stateful.get("status") or {}).get("currentRevision") or update
        if self._expected.met(key, self._pods.by_index("owner", uid)):
            await self._manage(
                key, stateful, {ordinal(p["metadata"]["name"]): p for p in pods}, current, update
            )
        await self._report(key, stateful, pods, current, update)
        return None

    async def _revision(self, key: ObjectKey, stateful: Document) -> str:
        """The name of the present template's revision, recorded so that it can be found again."""
        template = stateful["spec"]["template"]
        digest = owning.template_hash(template)
        name = f"{key.name}-{digest}"
        known = self._revisions.by_index("owner", stateful["metadata"]["uid"])
        if not any(r["metadata"]["name"] == name for r in known):
            revision = {
                "metadata": {
                    "name": name,
                    "labels": {
                        **((template.get("metadata") or {}).get("labels") or {}),
                        REVISION_LABEL: digest,
                    },
                    "ownerReferences": [owning.owner_reference(STATEFULSETS, stateful)],
                },
                "data": {"spec": {"template": {**template, "$patch": "replace"}}},
                "revision": max((r.get("revision", 0) for r in known), default=0) + 1,
            }
            try:
                await self.kit.client.create(CONTROLLER_REVISIONS, key.namespace, revision)
            except AlreadyExists:
                return name
        return name

    def _template(self, stateful: Document, revision: str, update: str) -> Document:
        template: Document = stateful["spec"]["template"]
        if revision != update:
            for known in self._revisions.by_index("owner", stateful["metadata"]["uid"]):
                if known["metadata"]["name"] == revision:
                    kept = known["data"]["spec"]["template"]
                    return {k: v for k, v in kept.items() if k != "$patch"}
        return template

    async def _manage(
        self, key: ObjectKey, stateful: Document, pods: dict[int, Document], current: str, update: str
    ) -> None:
        spec = stateful["spec"]
        first = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(first, first + spec.get("replicas", 1))
        parallel = spec.get("podManagementPolicy") == "Parallel"
        strategy = spec.get("updateStrategy") or {}
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        min_ready = spec.get("minReadySeconds") or 0
        for index in wanted:
            pod = pods.get(index)
            if pod is not None and owning.is_finished(pod) and "deletionTimestamp" not in pod["metadata"]:
                await self._delete(key, stateful, pod)
                return
            if pod is None:
                revision = current if index < partition else update
                await self._make(key, stateful, index, revision, update)
                if not parallel:
                    return
            elif not parallel and not owning.is_available(pod, min_ready, self.kit.clock()):
                return  # the next one waits for this one
        surplus = sorted((i for i in pods if i not in wanted), reverse=True)
        for index in surplus:
            pod = pods[index]
            if "deletionTimestamp" not in pod["metadata"]:
                await self._delete(key, stateful, pod)
            if not parallel:
                return
        if strategy.get("type") == "OnDelete":
            return
        for index in sorted((i for i in wanted if i >= partition), reverse=True):
            pod = pods.get(index)
            if pod is None or "deletionTimestamp" in pod["metadata"]:
                return
            if _revision_of(pod, stateful) != update:
                await self._delete(key, stateful, pod)
                return
            if not owning.is_available(pod, min_ready, self.kit.clock()):
                return

    async def _make(self, key: ObjectKey, stateful: Document, index: int, revision: str, update: str) -> None:
        name = f"{key.name}-{index}"
        for template in stateful["spec"].get("volumeClaimTemplates") or ():
            claim = {
                "metadata": {
                    "name": f"{template['metadata']['name']}-{name}",
                    "labels": {
                        **((stateful["spec"]["selector"] or {}).get("matchLabels") or {}),
                        **(template["metadata"].get("labels") or {}),
                    },
                },
                "spec": template["spec"],
            }
            try:
                await self.kit.client.create(PERSISTENT_VOLUME_CLAIMS, key.namespace, claim)
            except AlreadyExists:
                continue
        wanted = pod_for(stateful, index, revision, self._template(stateful, revision, update))
        try:
            pod = await self.kit.client.create(PODS, key.namespace, wanted)
        except AlreadyExists:
            return  # the pod of that name is still on its way out
        self._expected.made(key, pod["metadata"]["uid"])
        message = f"create Pod {name} in StatefulSet {key.name} successful"
        self.kit.recorder.event(STATEFULSETS, dict(stateful), "Normal", "SuccessfulCreate", message)

    async def _delete(self, key: ObjectKey, stateful: Document, pod: Document) -> None:
        metadata = pod["metadata"]
        self._expected.deleted(key, metadata["uid"])
        try:
            await self.kit.client.delete(PODS, key.namespace, metadata["name"], uid=metadata["uid"])
        except NotFound:
            self._expected.seen(key, metadata["uid"])
            return
        message = f"delete Pod {metadata['name']} in StatefulSet {key.name} successful"
        self.kit.recorder.event(STATEFULSETS, dict(stateful), "Normal", "SuccessfulDelete", message)

    async def _report(
        self, key: ObjectKey, stateful: Document, pods: list[Document], current: str, update: str
    ) -> None:
        now, min_ready = self.kit.clock(), stateful["spec"].get("minReadySeconds") or 0
        there = [p for p in pods if not owning.is_finished(p)]
        ready = [p for p in there if owning.is_ready(p)]
        updated = sum(1 for p in there if _revision_of(p, stateful) == update and owning.is_active(p))
        wanted = stateful["spec"].get("replicas", 1)
        if updated == wanted == len(there) and len(ready) == wanted:
            current = update
        status: Object = {
            "replicas": len(there),
            "observedGeneration": stateful["metadata"].get("generation", 0),
        }
        available = sum(1 for p in ready if owning.is_available(p, min_ready, now))
        status["availableReplicas"] = available
        for name, count in (
            ("readyReplicas", len(ready)),
            (
                "currentReplicas",
                sum(1 for p in there if _revision_of(p, stateful) == current and owning.is_active(p)),
            ),
            ("updatedReplicas", updated),
        ):
            if count:
                status[name] = count
        status |= {"currentRevision": current, "updateRevision": update}
        status["collisionCount"] = (stateful.get("status") or {}).get("collisionCount", 0)
        if not owning.same(status, stateful.get("status") or {}):
            await self.kit.client.update_status(STATEFULSETS, key.namespace, {**stateful, "status": status})


def _revision_of(pod: Document, stateful: Document) -> str:
    label: str = (pod["metadata"].get("labels") or {}).get(REVISION_LABEL) or ""
    return label
