"""Pods and their owner: finding, adopting, making and counting them; and not acting twice on old news."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dray.api.claims import controller_of
from dray.api.errors import Invalid, NotFound
from dray.api.kinds import Object
from dray.api.selectors import label_selector
from dray.client.client import Client, PatchType
from dray.client.resources import PODS, Resource

Document = Mapping[str, Any]
_SAFE = "bcdfghjklmnpqrstvwxz2456789"  # letters and digits that spell no words
_encode = msgspec.json.Encoder(order="deterministic").encode


def matches(selector: Document | None) -> Callable[[Document], bool]:
    """Whether an object's labels satisfy a workload's selector. An empty one selects nothing."""
    if not selector or not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return lambda obj: False
    test = label_selector(dict(selector))
    return lambda obj: test.matches(obj["metadata"].get("labels") or {})


def template_hash(template: Document, collisions: int = 0) -> str:
    """A short name for a pod template; collisions draw another one."""
    digest = hashlib.blake2s(_encode(template) + collisions.to_bytes(4, "big"), digest_size=4).digest()
    return safe(str(int.from_bytes(digest, "big")))


def safe(text: str) -> str:
    return "".join(_SAFE[ord(c) % len(_SAFE)] for c in text)


def owner_reference(resource: Resource, owner: Document) -> Object:
    metadata = owner["metadata"]
    return {
        "apiVersion": resource.api_version, "kind": resource.kind, "name": metadata["name"], "uid": metadata["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip


def pod_from(
    template: Document, resource: Resource, owner: Document, *, labels: Document | None = None
) -> Object:
    """A pod of the owner's template, named after it."""
    wanted = template.get("metadata") or {}
    metadata: Object = {
        "generateName": f"{owner['metadata']['name'][:58]}-",
        "labels": {**(wanted.get("labels") or {}), **(labels or {})},
        "ownerReferences": [owner_reference(resource, owner)],
    }
    for name in ("annotations", "finalizers"):
        if wanted.get(name):
            metadata[name] = wanted[name]
    return {"metadata": metadata, "spec": template["spec"]}


def is_active(pod: Document) -> bool:
    return not is_finished(pod) and "deletionTimestamp" not in pod["metadata"]


def is_finished(pod: Document) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def phase(pod: Document) -> str:
    return (pod.get("status") or {}).get("phase") or "Pending"


def condition(obj: Document, kind: str) -> Document | None:
    for one in (obj.get("status") or {}).get("conditions") or ():
        if one["type"] == kind:
            found: Document = one
            return found
    return None


def is_ready(pod: Document) -> bool:
    ready = condition(pod, "Ready")
    return ready is not None and ready["status"] == "True"


def is_available(pod: Document, min_ready: int, now: float) -> bool:
    ready = condition(pod, "Ready")
    if ready is None or ready["status"] != "True":
        return False
    return not min_ready or seconds(ready.get("lastTransitionTime")) + min_ready <= now


def seconds(text: str | None) -> float:
    if not text:
        return 0.0
    import calendar

    return float(calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")))


def timestamp(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def cheapest_first(pods: Iterable[Document]) -> list[Document]:
    """Which pods to give up first: without a node, not running, not ready, cheaper to delete, younger."""

    def rank(pod: Document) -> tuple[Any, ...]:
        annotations = pod["metadata"].get("annotations") or {}
        try:
            cost = int(annotations.get("controller.kubernetes.io/pod-deletion-cost", "0"))
        except ValueError:
            cost = 0
        return (
            bool(pod["spec"].get("nodeName")),
            {"Pending": 0, "Unknown": 1}.get(phase(pod), 2),
            is_ready(pod),
            cost,
            -seconds(pod["metadata"].get("creationTimestamp")),
            pod["metadata"]["name"],
        )

    return sorted(pods, key=rank)


def same(a: Any, b: Any) -> bool:
    return bool(_encode(a) == _encode(b))


@dataclass(slots=True)
class Expectations:
    """Pods that were made or deleted but have not been seen so yet; until then the owner is not counted again."""

    clock: Callable[[], float]
    _making: dict[Any, dict[str, float]] = field(default_factory=dict)
    _deleting: dict[Any, dict[str, float]] = field(default_factory=dict)

    def made(self, key: Any, uid: str) -> None:
        self._making.setdefault(key, {})[uid] = self.clock()

    def deleted(self, key: Any, uid: str) -> None:
        self._deleting.setdefault(key, {})[uid] = self.clock()

    def met(self, key: Any, pods: Iterable[Document]) -> bool:
        """Whether the news has caught up; after five minutes it is given up on."""
        by_uid = {p["metadata"]["uid"]: p for p in pods}
        late = self.clock() - 300
        making, deleting = self._making.get(key, {}), self._deleting.get(key, {})
        for uid in [u for u, when in making.items() if u in by_uid or when < late]:
            del making[uid]
        for uid, when in list(deleting.items()):
            pod = by_uid.get(uid)
            if pod is None or "deletionTimestamp" in pod["metadata"] or when < late:
                del deleting[uid]
        if not making:
            self._making.pop(key, None)
        if not deleting:
            self._deleting.pop(key, None)
        return not making and not deleting

    def seen(self, key: Any, uid: str) -> None:
        for kept in (self._making, self._deleting):
            if key in kept:
                kept[key].pop(uid, None)

    def forget(self, key: Any) -> None:
        self._making.pop(key, None)
        self._deleting.pop(key, None)


async def claim_pods(
    client: Client,
    resource: Resource,
    owner: Document,
    pods: Iterable[Document],
    test: Callable[[Document], bool],
) -> list[Document]:
    """The owner's pods: strays that match are adopted, own ones that no longer match are let go."""
    mine: list[Document] = []
    uid = owner["metadata"]["uid"]
    leaving = "deletionTimestamp" in owner["metadata"]
    for pod in pods:
        controller = controller_of(pod)
        if controller is not None:
            if controller["uid"] != uid:
                continue
            if test(pod):
                mine.append(pod)
            elif not leaving:
                await _let_go(client, pod, uid)
        elif test(pod) and is_active(pod) and not leaving:
            references = [*(pod["metadata"].get("ownerReferences") or ()), owner_reference(resource, owner)]
            patch = {"metadata": {"uid": pod["metadata"]["uid"], "ownerReferences": references}}
            try:
                mine.append(
                    await client.patch(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], patch)
                )
            except (NotFound, Invalid):
                continue
    return mine


async def _let_go(client: Client, pod: Document, owner: str) -> None:
    patch = {
        "metadata": {"uid": pod["metadata"]["uid"], "ownerReferences": [{"$patch": "delete", "uid": owner}]}
    }
    try:
        await client.patch(
            PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], patch, type=PatchType.STRATEGIC
        )
    except (NotFound, Invalid):
        return


def by_owner(obj: Object) -> list[str]:
    """Index: the uid of an object's controller, or its namespace for strays."""
    controller = controller_of(obj)
    return [controller["uid"] if controller is not None else f"stray:{obj['metadata']['namespace']}"]
