"""Reports the status of a pod to the API server: when it has changed, and one report at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from dray.api import pods
from dray.api.errors import Conflict, NotFound, StatusError
from dray.backoff import Backoff
from dray.client.client import Client, PatchType
from dray.client.resources import PODS
from dray.kubelet_api.failpoints import failpoint

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodStatus

log = logging.getLogger(__name__)

_RETRY = Backoff(initial=0.1, factor=2.0, maximum=10.0, jitter=0.2)
#: Seconds that a report waits while more is about to change: most pods run, or are gone, by then, and one write is enough.
SETTLE_SECONDS = 0.1
#: It waits longer where reports take long, so that a server that has too much to do does not get more of them.
MOST_SETTLE_SECONDS = 1.0
_WORTH_WAITING = 3.0


class ReportTimes:
    """How long reports take at the moment: one for all pods of a node."""

    def __init__(self) -> None:
        self._last = 0.0

    def took(self, seconds: float) -> None:
        self._last = seconds

    @property
    def settle_seconds(self) -> float:
        return max(SETTLE_SECONDS, min(_WORTH_WAITING * self._last, MOST_SETTLE_SECONDS))


class StatusManager:
    """Reports one pod's status. Changes that happen during a report are in the next.

    It keeps nothing that leads back to whom it reports for: pods come and go by the thousand, and what goes in circles
    stays in memory until the garbage collector looks for it.
    """

    def __init__(self, client: Client, times: ReportTimes) -> None:
        self._client = client
        self._times = times
        self._changed = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._reported: PodStatus = {}
        self._answer: Pod | None = None  # to the last report

    def changed(self) -> None:
        self._changed.set()

    def newest_status(self, pod: Pod) -> PodStatus:
        """The status that the API server has: what a report was answered may be ahead of what the watch has brought."""
        if self._answer is not None and _revision(self._answer) > _revision(pod):
            pod = self._answer
        return pod.get("status") or {}

    async def run(
        self, pod: Pod, *, current: Callable[[], PodStatus | None], unsettled: Callable[[], bool]
    ) -> None:
        """``current`` is the status as it is now, or None when there is nothing to report. ``unsettled`` says that the
        status will most likely change soon."""
        pauses = _RETRY.pauses()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._let_settle(unsettled)
            try:
                await self.report(pod, current)
                pauses = _RETRY.pauses()
            except StatusError as e:
                log.info("status of %s: %s", pods.full_name(pod), e)
                self._changed.set()
                await asyncio.sleep(next(pauses))

    async def _let_settle(self, unsettled: Callable[[], bool]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._times.settle_seconds):
                while unsettled():
                    await self._changed.wait()
                    self._changed.clear()

    async def report(self, pod: Pod, current: Callable[[], PodStatus | None]) -> None:
        """Tells the server now what it has not been told."""
        async with self._one_at_a_time:
            status = current()
            if status is None or status == self._reported:
                return
            metadata = pod["metadata"]
            patch: Pod = {"metadata": {"uid": metadata["uid"]}, "status": status}
            began = time.monotonic()
            try:
                self._answer = await self._client.patch_status(
                    PODS, metadata["namespace"], metadata["name"], patch, type=PatchType.STRATEGIC
                )
            except (NotFound, Conflict):
                return  # it is gone, or another one of its name is there
            self._times.took(time.monotonic() - began)
            self._reported = status
            failpoint("node.pod.reported")


def _revision(pod: Pod) -> int:
    version = pod["metadata"].get("resourceVersion", "")
    return int(version) if version.isdigit() else 0
