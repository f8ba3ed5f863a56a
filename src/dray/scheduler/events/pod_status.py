"""Patches of the status of pods. A patch names the uid of the pod, and a condition is written only if it changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, cast

from dray.api import pods
from dray.api.fields import Patch
from dray.client.client import Client, PatchType
from dray.client.resources import PODS
from dray.placement.cache.pods import PodInfo
from dray.scheduler.quirks import SchedulerQuirks

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodCondition, PodStatus
    from dray.api.types.meta import ObjectMeta

ClearedField = Literal["nominatedNodeName", "nodeAllocatableResourceClaimStatuses"]


class PodStatusWriter:
    """Writes the status of pods."""

    def __init__(
        self, client: Client, quirks: SchedulerQuirks, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._quirks = quirks
        self._clock = clock

    async def patch(
        self, pod: PodInfo, status: PodStatus, *, clears: Iterable[ClearedField] = (), version: str = ""
    ) -> Pod:
        """Write some fields of the status and clear others. ``version``: refused if the pod has changed since."""
        metadata: ObjectMeta = {"uid": pod.uid, "resourceVersion": version} if version else {"uid": pod.uid}
        fields: dict[str, object] = {**status}
        fields.update(dict.fromkeys(clears))
        patch: Patch[Pod] = Patch({"metadata": metadata, "status": fields})
        return await self._client.patch_status(PODS, pod.namespace, pod.name, patch, type=PatchType.STRATEGIC)

    def condition(self, pod: PodInfo, condition: PodCondition) -> PodCondition | None:
        """The condition with its times, to be written by ``patch``; None when the pod has it already."""
        now = timestamp(self._clock())
        generation = pod.document["metadata"].get("generation") if self._quirks.observes_generation else None
        since = now
        known = pods.condition(pod.document, condition["type"])
        if known is not None:
            if known.items() >= condition.items():
                return None
            if known.get("status") == condition["status"]:
                since = known.get("lastTransitionTime") or now
        made: PodCondition = {
            **condition,
            "lastProbeTime": cast("str", None),  # null, as upstream writes it
            "lastTransitionTime": since,
        }
        if generation:
            made["observedGeneration"] = generation
        return made


def timestamp(seconds: float) -> str:
    return _timestamp(int(seconds))


@lru_cache(maxsize=1)  # thousands may be needed within a second
def _timestamp(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
