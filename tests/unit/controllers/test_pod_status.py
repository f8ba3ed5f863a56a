"""Patches of the status of pods."""

from __future__ import annotations

from typing import Any

from dray.api.scheme.kinds import Object
from dray.controllers.pod_status import disruption_target_patch, failed_phase_patch


def pod(name: str = "p", phase: str = "Running", *, node: str = "n", **metadata: Any) -> Object:
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"name": name, "uid": name, **metadata}, "spec": spec, "status": {"phase": phase}}


def test_a_pod_is_failed_once():
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "r", "message": "m"}
    patch = failed_phase_patch(pod(generation=3), condition=condition, now="now")
    assert patch["metadata"] == {"uid": "p"}
    assert patch["status"]["phase"] == "Failed"
    assert patch["status"]["observedGeneration"] == 3
    assert patch["status"]["conditions"] == [
        {**condition, "observedGeneration": 3, "lastTransitionTime": "now"}
    ]
    assert failed_phase_patch(pod(phase="Succeeded"), now="now") is None


def test_a_reason_is_told_once_and_after_the_conditions_that_are_there():
    told = pod()
    told["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    patch = disruption_target_patch(told, reason="r", message="m", now="now")
    assert patch["status"]["$setElementOrder/conditions"] == [{"type": "Ready"}, {"type": "DisruptionTarget"}]
    told["status"]["conditions"] += patch["status"]["conditions"]
    assert disruption_target_patch(told, reason="r", message="m", now="later") is None
    again = disruption_target_patch(told, reason="other", message="m", now="later")
    assert again["status"]["conditions"][0]["lastTransitionTime"] == "now", "it was true all the time"
