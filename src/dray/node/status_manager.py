"""Reports the status of a pod to the API server: when it has changed, and one report at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
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
#: Seconds that the first report of a pod waits: most pods run by then, and one write is enough.
FIRST_STATUS_DELAY = 0.1


class StatusManager:
    """Reports one pod's status. Changes that happen during a report are in the next."""

    def __init__(
        self,
        client: Client,
        *,
        current: Callable[[], PodStatus | None],
        unsettled: Callable[[], bool] = lambda: False,
    ) -> None:
        """``current`` is the status as it is now, or None when there is nothing to report. ``unsettled``
        says that the status will most likely change soon."""
        self._client = client
        self._current = current
        self._unsettled = unsettled
        self._changed = asyncio.Event()
        self._reported: PodStatus = {}

    def changed(self) -> None:
        self._changed.set()

    async def run(self, pod: Pod) -> None:
        pauses = _RETRY.pauses()
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not self._reported:
                await self._let_settle()
            try:
                await self.report(pod)
                pauses = _RETRY.pauses()
            except StatusError as e:
                log.info("status of %s: %s", pods.full_name(pod), e)
                self._changed.set()
                await asyncio.sleep(next(pauses))

    async def _let_settle(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_STATUS_DELAY):
                while self._unsettled():
                    await self._changed.wait()
                    self._changed.clear()

    async def report(self, pod: Pod) -> None:
        """Tells the server now what it has not been told."""
        status = self._current()
        if status is None or status == self._reported:
            return
        metadata = pod["metadata"]
        patch: Pod = {"metadata": {"uid": metadata["uid"]}, "status": status}
        try:
            await self._client.patch_status(
                PODS, metadata["namespace"], metadata["name"], patch, type=PatchType.STRATEGIC
            )
        except (NotFound, Conflict):
            return  # it is gone, or another one of its name is there
        self._reported = status
        failpoint("node.pod.reported")
