"""What quotas say is used: when it is counted anew."""

from __future__ import annotations

from typing import Any

import pytest

from dray.client.resources import PODS
from dray.controllers.resourcequota import is_replenished


def pod(phase: str = "Running", cpu: str = "1", **spec: Any) -> dict[str, Any]:
    given = {"requests": {"cpu": cpu}}
    status = {"phase": phase, "containerStatuses": [{"name": "c", "resources": given}]}
    return {"metadata": {"name": "p"}, "spec": {"containers": [], **spec}, "status": status}


@pytest.mark.parametrize("after", [pod(activeDeadlineSeconds=5), pod(cpu="500m")], ids=["scope", "size"])
def test_a_pod_that_falls_under_other_quotas_or_was_given_less_counts_since_some_time(after):
    assert is_replenished(PODS, pod(), after, now=0.0)
    assert not is_replenished(PODS, pod(), after, now=0.0, all_changes=False)


def test_the_end_of_a_pod_counts_and_its_start_does_not():
    assert is_replenished(PODS, pod(), pod("Succeeded"), now=0.0, all_changes=False)
    unstarted = {**pod("Pending"), "status": {"phase": "Pending"}}
    assert not is_replenished(PODS, unstarted, pod(), now=0.0)
