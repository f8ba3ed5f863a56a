"""What people are told about pods: events, the condition of a pod without a node, and the node that it may count on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

from dray.allocation import Reasons
from dray.api.errors import NotFound, StatusError
from dray.client.resources import PODS, Resource
from dray.placement.cache.pods import PodInfo
from dray.scheduler.events.pod_status import PodStatusWriter

log = logging.getLogger(__name__)

Document = Mapping[str, Any]
_LONGEST_NOTE, _CUT = 1024, " ..."
#: the annotation of a FailedScheduling event with the allocator's reasons, counted
REASONS_ANNOTATION = "dray.dev/reasons"


class Recorder(Protocol):
    """Where events about pods go."""

    def event(
        self,
        resource: Resource[Any],
        obj: Any,
        type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        *,
        action: str = "",
        related: tuple[Resource[Any], Any] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None: ...


class Reporter:
    """``names_preemptor``: the event of a pod that had to go refers to the one it had to go for."""

    def __init__(
        self, recorder: Recorder, statuses: PodStatusWriter, *, names_preemptor: bool = True
    ) -> None:
        self._recorder = recorder
        self._statuses = statuses
        self._names_preemptor = names_preemptor

    # -- pods that get a node ---------------------------------------------------------------------------------------

    def scheduled(self, pod: PodInfo, node: str) -> None:
        text = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._recorder.event(PODS, pod.document, "Normal", "Scheduled", text, action="Binding")

    def binding_conditions_pending(self, pod: PodInfo, node: str) -> None:
        """Event of a pod that has its devices, but they are not ready for its node."""
        text = f"waiting for binding conditions for device on node {node}"
        self._recorder.event(
            PODS, pod.document, "Normal", "BindingConditionsPending", text, action="Scheduling"
        )

    async def set_nominated_node_name(self, pod: PodInfo, node: str) -> Document | None:
        """Say where the pod will be. That it cannot be said keeps nobody from binding it."""
        try:
            return await self._statuses.patch(pod, {"nominatedNodeName": node})
        except NotFound:
            raise
        except StatusError as problem:
            log.warning("cannot nominate node %s for pod %s: %s", node, pod.key, problem)
            return None

    async def clear_nominated_node_name(self, pod: PodInfo) -> None:
        """Take back what a pod was told about the node that it will be on."""
        try:
            await self._statuses.patch(pod, {"nominatedNodeName": None})
        except NotFound:
            pass
        except StatusError as problem:
            log.warning("pod %s keeps the node it was promised: %s", pod.key, problem)

    # -- pods that get none -----------------------------------------------------------------------------------------

    async def failed_scheduling(
        self,
        pod: PodInfo,
        *,
        reason: str,
        message: str,
        nominated: str | None,
        reasons: Mapping[str, Reasons] | None = None,
    ) -> Document | None:
        """Event and condition of a pod that got no node; the pod as it is then, if that changed it.

        ``nominated``: None leaves the promise as it is. ``reasons``: what the allocator said about some nodes.
        """
        self._recorder.event(
            PODS,
            pod.document,
            "Warning",
            "FailedScheduling",
            truncate_note(message),
            action="Scheduling",
            annotations=_annotations(reasons) if reasons else None,
        )
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        change: dict[str, Any] = {}
        updated = self._statuses.condition(pod, condition)
        if updated is not None:
            change["conditions"] = [updated]
        if nominated is not None and nominated != pod.nominated_node:
            change["nominatedNodeName"] = nominated or None
        if change:
            try:
                return await self._statuses.patch(pod, change)
            except NotFound:
                pass
            except StatusError as problem:
                log.warning("cannot update the status of pod %s: %s", pod.key, problem)
        return None

    def skipped(self, pod: PodInfo) -> None:
        """Event of a pod that was about to be tried when it was deleted."""
        text = f"skip schedule deleting pod: {pod.namespace}/{pod.name}"
        self._recorder.event(PODS, pod.document, "Warning", "FailedScheduling", text, action="Scheduling")

    def gated(self, pod: PodInfo, why: str) -> None:
        """Event of a pod that is not tried before its claims are there."""
        text = f"waiting for the claims of the pod: {why}"
        self._recorder.event(PODS, pod.document, "Warning", "FailedScheduling", text, action="Scheduling")

    def preempted(self, victim: PodInfo, text: str, *, by: PodInfo) -> None:
        """Event of a pod that had to make room for another one."""
        self._recorder.event(
            PODS,
            victim.document,
            "Normal",
            "Preempted",
            text,
            action="Preempting",
            related=(PODS, by.document) if self._names_preemptor else None,
        )


def truncate_note(message: str) -> str:
    """Cut where upstream cuts: an event's note has its limit, the pod's condition has none."""
    data = message.encode()
    if len(data) <= _LONGEST_NOTE:
        return message
    return data[: _LONGEST_NOTE - len(_CUT)].decode(errors="ignore") + _CUT


_encode = msgspec.json.Encoder().encode


def _annotations(reasons: Mapping[str, Reasons]) -> dict[str, str]:
    """The allocator's reasons, node by node and with every count, for those who want more than a sentence."""
    return {REASONS_ANNOTATION: _encode({n: r.as_document() for n, r in reasons.items()}).decode()}
