"""Jobs: what their strategy prepares."""

from __future__ import annotations

from tests.unit.api.groups.strategies import create, pod


def test_jobs_know_their_pods():
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "n"}}
    job["spec"] = {"template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}}
    _, obj, errors = create(job)
    assert errors == []
    assert obj["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    assert obj["spec"]["template"]["metadata"]["labels"] == {
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": "u",
        "job-name": "j",
    }
    assert obj["metadata"]["labels"] == obj["spec"]["template"]["metadata"]["labels"]
    labelled = {**job, "metadata": {**job["metadata"], "labels": {"own": "label"}}}
    assert create(labelled)[1]["metadata"]["labels"] == {"own": "label"}
