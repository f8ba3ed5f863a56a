"""The group that a Job's pods are scheduled with."""

from __future__ import annotations

from typing import Any

from dray.controllers.workloads.job.groups import template_of


def job(*, priority: str = "", **scheduling: Any) -> Any:
    pod = {"containers": [], **({"priorityClassName": priority} if priority else {})}
    return {
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"parallelism": 4, "scheduling": scheduling, "template": {"spec": pod}},
    }


def test_a_gang_without_a_number_needs_all_pods_that_run_at_once() -> None:
    assert template_of(job(schedulingPolicy={"gang": {}})) == {
        "name": "train-pgt-0",
        "schedulingPolicy": {"gang": {"minCount": 4}},
    }


def test_what_the_job_says_of_its_group_is_in_the_template() -> None:
    said = {
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "disruptionMode": {"all": {}},
        "resourceClaims": [{"name": "fabric", "resourceClaimName": "fabric"}],
    }
    made = template_of(job(schedulingPolicy={"gang": {"minCount": 3}}, priority="high", **said))
    assert made == {
        "name": "train-pgt-0",
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "priorityClassName": "high",
        **said,
    }
