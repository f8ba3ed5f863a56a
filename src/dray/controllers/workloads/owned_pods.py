"""What controllers of workloads do with the pods they own: create them from a template, and rank them for deletion."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dray.api.pods import condition as pod_condition
from dray.api.pods import is_terminal, phase
from dray.api.times import to_epoch
from dray.client.resources import Resource, T
from dray.controllers.controller import for_each
from dray.controllers.workloads.controller_ref import owner_reference

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Pod, PodTemplateSpec
    from dray.api.types.meta import ObjectMeta


_AT_ONCE: Final = 64
_LONGEST_NAME: Final = 253
_encode = msgspec.json.Encoder(order="deterministic").encode


def pod_from_template(
    template: PodTemplateSpec,
    resource: Resource[Any],
    owner: Object,
    *,
    labels: Mapping[str, str] | None = None,
) -> Pod:
    """A pod of the owner's template, named after it."""
    wanted = template.get("metadata") or {}
    metadata: ObjectMeta = {
        "generateName": _prefix(owner["metadata"]["name"]),
        "labels": {**(wanted.get("labels") or {}), **(labels or {})},
        "ownerReferences": [owner_reference(resource, owner)],
    }
    for name in ("annotations", "finalizers"):
        if wanted.get(name):
            metadata[name] = wanted[name]
    return {"metadata": metadata, "spec": template["spec"]}


def _prefix(name: str) -> str:
    """With a dash, unless that makes it too long for a name."""
    return f"{name}-" if len(name) < _LONGEST_NAME else name


def is_terminating(pod: Pod) -> bool:
    """Deleted, and not over yet."""
    return "deletionTimestamp" in pod["metadata"] and not is_terminal(pod)


def is_available(pod: Pod, min_ready: int, now: float) -> bool:
    ready = pod_condition(pod, "Ready")
    if ready is None or ready["status"] != "True":
        return False
    return not min_ready or seconds(ready.get("lastTransitionTime")) + min_ready <= now


def seconds(text: str | None) -> float:
    return to_epoch(text) if text else 0.0


def ranked_for_deletion(pods: Iterable[Pod], pods_per_node: Mapping[str, int] | None = None) -> list[Pod]:
    """Which pods to give up first.

    Those without a node, then those that do not run, are not ready, share their node with many (``crowd``, by node),
    have not been ready for long, restart often; at last the youngest. With a crowd, pods may declare themselves cheap.
    """

    def rank(pod: Pod) -> tuple[Any, ...]:
        ready = pod_condition(pod, "Ready")
        since = seconds(ready.get("lastTransitionTime")) if ready and ready["status"] == "True" else None
        node = pod["spec"].get("nodeName")
        return (
            bool(node),
            {"Pending": 0, "Unknown": 1}.get(phase(pod), 2),
            since is not None,
            _deletion_cost(pod) if pods_per_node is not None else 0,
            -pods_per_node.get(node or "", 0) if pods_per_node else 0,
            -since if since is not None else 0,
            -_restarts(pod),
            -seconds(pod["metadata"].get("creationTimestamp")),
            pod["metadata"]["name"],
        )

    return sorted(pods, key=rank)


def _deletion_cost(pod: Pod) -> int:
    annotations = pod["metadata"].get("annotations") or {}
    try:
        return int(annotations.get("controller.kubernetes.io/pod-deletion-cost", "0"))
    except ValueError:
        return 0


def _restarts(pod: Pod) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((status.get("restartCount", 0) for status in statuses), default=0)


def semantic_equal(a: object, b: object) -> bool:
    return bool(_encode(a) == _encode(b))


def newer_of(seen: T | None, written: T | None) -> T | None:
    """The later of what was seen and what was written by ourselves; what is gone or new under its name is as seen."""
    if seen is None or written is None or seen["metadata"]["uid"] != written["metadata"]["uid"]:
        return seen
    first, second = (int(x["metadata"]["resourceVersion"]) for x in (seen, written))
    return written if second > first else seen


async def slow_start_batch(count: int, make: Callable[[], Awaitable[None]]) -> None:
    """Make so many, at first few at once: where the first fail, the others are not tried."""
    batch = 1
    while count > 0:
        await for_each([None] * min(batch, count), lambda _: make(), at_once=batch)
        count -= batch
        batch = min(batch * 2, _AT_ONCE)
