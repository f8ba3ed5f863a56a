"""Events about pods, their PodScheduled condition and their nominatedNodeName."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from dray.allocation import Reasons
from dray.api.errors import NotFound, StatusError
from dray.client.resources import POD_GROUPS, PODS
from dray.placement.cache.pods import PodInfo
from dray.scheduler.events.pod_status import PodStatusWriter
from dray.scheduler.events.recorders import Recorder
from dray.scheduler.quirks import SchedulerQuirks

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodCondition, PodStatus
    from dray.api.types.scheduling_v1beta1 import PodGroup
    from dray.scheduler.events.pod_status import ClearedField

log = logging.getLogger(__name__)

_LONGEST_NOTE, _CUT = 1024, " ..."
#: the annotation of a FailedScheduling event with the allocator's reasons as JSON
REASONS_ANNOTATION = "dray.dev/reasons"


class Reporter:
    """Reports what becomes of pods."""

    def __init__(self, recorder: Recorder, statuses: PodStatusWriter, quirks: SchedulerQuirks) -> None:
        self._recorder = recorder
        self._statuses = statuses
        self._quirks = quirks

    # -- pods that get a node ---------------------------------------------------------------------------------------

    def scheduled(self, pod: PodInfo, node: str) -> None:
        text = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._recorder.event(PODS, pod.document, "Normal", "Scheduled", text, action="Binding")

    def binding_conditions_pending(self, pod: PodInfo, node: str) -> None:
        """Event of a pod whose devices are allocated but not ready for its node."""
        text = f"waiting for binding conditions for device on node {node}"
        self._recorder.event(
            PODS, pod.document, "Normal", "BindingConditionsPending", text, action="Scheduling"
        )

    async def set_nominated_node_name(self, pod: PodInfo, node: str) -> Pod | None:
        """Returns the written pod, or None if the write failed, which does not keep the pod from being bound."""
        try:
            return await self._statuses.patch(pod, {"nominatedNodeName": node})
        except NotFound:
            raise
        except StatusError as problem:
            log.warning("cannot nominate node %s for pod %s: %s", node, pod.key, problem)
            return None

    async def clear_nominated_node_name(self, pod: PodInfo) -> None:
        try:
            await self._statuses.patch(pod, {}, clears=("nominatedNodeName",))
        except NotFound:
            pass
        except StatusError as problem:
            log.warning("pod %s keeps its nominatedNodeName: %s", pod.key, problem)

    # -- pods that get none -----------------------------------------------------------------------------------------

    async def failed_scheduling(
        self,
        pod: PodInfo,
        *,
        reason: str,
        message: str,
        nominated: str | None,
        reasons: Mapping[str, Reasons] | None = None,
    ) -> Pod | None:
        """Event and condition of a pod that got no node. Returns the written pod, or None if nothing was written.

        ``nominated``: the new nominatedNodeName; None leaves it as it is. ``reasons``: what the allocator said.
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
        condition: PodCondition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
        }
        change: PodStatus = {}
        clears: tuple[ClearedField, ...] = ()
        updated = self._statuses.condition(pod, condition)
        if updated is not None:
            change["conditions"] = [updated]
        if nominated:
            if nominated != pod.nominated_node:
                change["nominatedNodeName"] = nominated
        elif nominated is not None and pod.nominated_node:
            clears = ("nominatedNodeName",)
        if change or clears:
            try:
                return await self._statuses.patch(pod, change, clears=clears)
            except NotFound:
                pass
            except StatusError as problem:
                log.warning("cannot update the status of pod %s: %s", pod.key, problem)
        return None

    def skipped(self, pod: PodInfo) -> None:
        """Event of a pod that is deleted when it is about to be tried."""
        text = f"skip schedule deleting pod: {pod.namespace}/{pod.name}"
        self._recorder.event(PODS, pod.document, "Warning", "FailedScheduling", text, action="Scheduling")

    def gated(self, pod: PodInfo, why: str) -> None:
        """Event of a pod that is not tried before its claims exist."""
        text = f"waiting for the claims of the pod: {why}"
        self._recorder.event(PODS, pod.document, "Warning", "FailedScheduling", text, action="Scheduling")

    def preempted(self, victim: PodInfo, text: str, *, by: PodInfo) -> None:
        """Event of a victim of preemption."""
        self._recorder.event(
            PODS,
            victim.document,
            "Normal",
            "Preempted",
            text,
            action="Preempting",
            related=(PODS, by.document) if self._quirks.refers_to_preemptor else None,
        )

    def preempted_by_group(self, victim: PodInfo, text: str, *, by: PodGroup) -> None:
        """Event of a victim of a group."""
        self._recorder.event(
            PODS, victim.document, "Normal", "Preempted", text, action="Preempting", related=(POD_GROUPS, by)
        )


def truncate_note(message: str) -> str:
    """Truncated as upstream does it: the note of an event is limited, the message of the condition is not."""
    data = message.encode()
    if len(data) <= _LONGEST_NOTE:
        return message
    return data[: _LONGEST_NOTE - len(_CUT)].decode(errors="ignore") + _CUT


_encode = msgspec.json.Encoder().encode


def _annotations(reasons: Mapping[str, Reasons]) -> dict[str, str]:
    """The allocator's reasons for each node, with every count."""
    return {REASONS_ANNOTATION: _encode({n: r.as_document() for n, r in reasons.items()}).decode()}
