"""Explanations, worked out in a thread of their own, and the reasons of pending pods in one line each."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final, TypeVar

from dray.api.identity import ObjectKey
from dray.explain.explainer import NEEDED, explain_claim, explain_pod
from dray.explain.model.cluster import Cluster
from dray.explain.model.explanation import Explanation
from dray.ui.cluster import LiveCluster

log = logging.getLogger(__name__)

T = TypeVar("T")
#: Pods that are explained without anybody asking; the others have the scheduler's words.
_PODS: Final = 30
#: The share of one core that explanations nobody has asked for may take.
_SHARE: Final = 0.25


class Explainer:
    """Asks the cluster as it is at the moment. One thread answers, as look-ups of a cluster are made when first used."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._live = cluster
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="explain")
        self._frozen: tuple[int, Cluster] | None = None

    async def ask(self, work: Callable[[Cluster], T]) -> T:
        if self._frozen is None or self._frozen[0] != self._live.revision:
            self._frozen = self._live.revision, self._live.frozen()
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._frozen[1])

    def lacks(self, kinds: Iterable[str]) -> bool:
        """Whether one of these kinds may not be read."""
        return bool(set(kinds) & set(self._live.snapshot.unread))

    async def explain(self, kind: str, key: ObjectKey) -> Explanation | None:
        """None: there is no such pod or claim."""

        def work(cluster: Cluster) -> Explanation | None:
            if kind == "pod":
                return explain_pod(cluster, key) if key in cluster.pods else None
            return explain_claim(cluster, key) if key in cluster.claims else None

        return await self.ask(work)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


class Reasons:
    """Why pods are pending, in one line each."""

    def __init__(self, explainer: Explainer, changed: Callable[[ObjectKey], None]) -> None:
        self._explainer = explainer
        self._changed = changed
        self._known: dict[ObjectKey, str] = {}
        self._wanted: list[ObjectKey] = []
        self._wake = asyncio.Event()

    def known(self, key: ObjectKey) -> str:
        return self._known.get(key, "")

    def want(self, pending: Iterable[ObjectKey]) -> None:
        """These pods are pending now; what was known of them may have changed."""
        self._wanted = list(islice(pending, _PODS))
        self._known = {key: text for key, text in self._known.items() if key in self._wanted}
        if self._wanted:
            self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            began = time.monotonic()
            # Where nothing can be explained, the scheduler's own words say more than that.
            blind = self._explainer.lacks(NEEDED)
            wanted = sorted(self._wanted, key=lambda key: key in self._known)  # those not explained yet first
            for key in wanted:
                if key not in self._wanted:
                    continue
                try:
                    found = await self._explainer.explain("pod", key)
                except Exception:  # the scheduler's words are shown instead
                    log.exception("pod %s could not be explained", key)
                    continue
                text = "" if found is None or found.well else found.headline
                if blind and found is not None:
                    text = found.scheduler
                if text and self._known.get(key) != text:
                    self._known[key] = text
                    self._changed(key)
            await asyncio.sleep((time.monotonic() - began) * (1 / _SHARE - 1))
