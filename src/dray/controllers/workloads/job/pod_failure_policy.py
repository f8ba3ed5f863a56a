"""What a Job's podFailurePolicy says about a pod that has failed. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from dray.api.pods import phase

if TYPE_CHECKING:
    from dray.api.types.batch import (
        Job,
        PodFailurePolicyOnExitCodesRequirement,
        PodFailurePolicyOnPodConditionsPattern,
    )
    from dray.api.types.core import Pod


class PodFailureMatch(NamedTuple):
    """What a pod's failure means, and the message if it fails the job."""

    action: str = "Count"  # or Ignore, FailIndex, FailJob
    message: str = ""


def match_pod_failure_policy(job: Job, pod: Pod) -> PodFailureMatch:
    """The first rule of the failure policy that fits a failed pod; others that end early count as failures."""
    if phase(pod) != "Failed":
        return PodFailureMatch()
    who = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
    for at, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        action = rule["action"]
        if (codes := rule.get("onExitCodes")) is not None:
            fitting = _container(pod, codes)
            if fitting is not None:
                name, code = fitting
                words = f"Container {name} for pod {who} failed with exit code {code}"
                return PodFailureMatch(action, f"{words} matching {action} rule at index {at}")
        elif (patterns := rule.get("onPodConditions")) is not None:
            kind = _condition(pod, patterns)
            if kind is not None:
                return PodFailureMatch(
                    action, f"Pod {who} has condition {kind} matching {action} rule at index {at}"
                )
    return PodFailureMatch()


def _container(pod: Pod, wanted: PodFailurePolicyOnExitCodesRequirement) -> tuple[str, int] | None:
    status = pod.get("status") or {}
    for known in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        code = ((known.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
        if code and wanted.get("containerName") in (None, known["name"]):
            listed = code in (wanted.get("values") or ())
            if listed == (wanted["operator"] == "In"):
                return known["name"], code
    return None


def _condition(pod: Pod, patterns: Collection[PodFailurePolicyOnPodConditionsPattern]) -> str | None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        for pattern in patterns:
            if (condition["type"], condition["status"]) == (pattern["type"], pattern.get("status", "True")):
                return condition["type"]
    return None
