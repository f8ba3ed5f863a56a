"""Writing into the status of pods: patches that hold for one pod alone, and conditions only if they say something new."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from dray.client.client import Client, PatchType
from dray.client.resources import PODS
from dray.placement.cache.pods import PodInfo

Document = Mapping[str, Any]


class PodStatusWriter:
    """``observes_generation``: conditions tell which generation of the pod they are about."""

    def __init__(
        self, client: Client, *, observes_generation: bool = True, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._observes_generation = observes_generation
        self._clock = clock

    async def patch(self, pod: PodInfo, status: dict[str, Any], *, version: str = "") -> Document:
        metadata = {"uid": pod.uid, "resourceVersion": version} if version else {"uid": pod.uid}
        patch = {"metadata": metadata, "status": status}
        return await self._client.patch_status(PODS, pod.namespace, pod.name, patch, type=PatchType.STRATEGIC)

    def condition(self, pod: PodInfo, condition: dict[str, Any]) -> dict[str, Any] | None:
        """The condition with its times, or None when the pod says so already."""
        now = timestamp(self._clock())
        generation = pod.document["metadata"].get("generation") if self._observes_generation else None
        about = {"observedGeneration": generation} if generation else {}
        for known in (pod.document.get("status") or {}).get("conditions") or ():
            if known.get("type") == condition["type"]:
                if all(known.get(k) == v for k, v in condition.items()):
                    return None
                since = known.get("lastTransitionTime") if known.get("status") == condition["status"] else now
                return {**condition, **about, "lastProbeTime": None, "lastTransitionTime": since or now}
        return {**condition, **about, "lastProbeTime": None, "lastTransitionTime": now}


def timestamp(seconds: float) -> str:
    return _timestamp(int(seconds))


@lru_cache(maxsize=1)  # within a second thousands may be asked for
def _timestamp(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
