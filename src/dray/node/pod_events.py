"""Events about pods, as the kubelet records them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from dray.client.events import EventRecorder
from dray.client.resources import PODS

if TYPE_CHECKING:
    from dray.api.types.core import Pod


class PodEvents:
    """Records events. Where no programs run, only warnings are worth a write for each of thousands of containers."""

    def __init__(self, recorder: EventRecorder, *, warnings_only: bool = False) -> None:
        self._recorder = recorder
        self._warnings_only = warnings_only

    def event(self, pod: Pod, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        if kind == "Warning" or not self._warnings_only:
            self._recorder.event(PODS, pod, kind, reason, message)
