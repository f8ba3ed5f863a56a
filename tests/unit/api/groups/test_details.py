"""Schedules, durations, cells of tables, quality of service, image names, and what defaults make of an object."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dray.api.groups.batch.cron import Schedule
from dray.api.groups.core.pod import bind, check_binding
from dray.api.groups.core.pod.images import is_latest
from dray.api.groups.core.pod.resources import qos_class
from dray.api.scheme import printers
from tests.unit.api.groups.test_objects import CONTEXT, create, read

BORN = "2026-01-02T03:04:05Z"
BIRTH = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "moment", "following"),
    [
        ("* * * * *", "2026-01-02T03:04:05", "2026-01-02T03:05:00"),
        ("*/15 * * * *", "2026-01-02T03:04:05", "2026-01-02T03:15:00"),
        ("0 0 1 * *", "2026-01-02T03:04:05", "2026-02-01T00:00:00"),
        ("30 4 * * mon-fri", "2026-01-02T05:00:00", "2026-01-05T04:30:00"),
        ("0 0 29 2 *", "2026-01-02T03:04:05", "2028-02-29T00:00:00"),
        ("0 0 13 * 5", "2026-01-02T03:04:05", "2026-01-09T00:00:00"),
        ("5,10 3 * jan ?", "2026-01-02T03:05:00", "2026-01-02T03:10:00"),
        ("@daily", "2026-01-02T03:04:05", "2026-01-03T00:00:00"),
        ("@every 90s", "2026-01-02T03:04:05", "2026-01-02T03:05:35"),
        ("0 0 31 2 *", "2026-01-02T03:04:05", None),
    ],
)
def test_schedules_know_what_comes_next(text, moment, following):
    found = Schedule.parse(text).after(datetime.fromisoformat(moment).replace(tzinfo=UTC))
    assert (found and found.replace(tzinfo=None).isoformat()) == following


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("@never", "unrecognized descriptor: @never"),
    ],
)
def test_broken_schedules_are_explained(text, problem):
    with pytest.raises(ValueError, match=r".*") as failed:
        Schedule.parse(text)
    assert str(failed.value) == problem


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (179, "2m59s"), (600, "10m"),
        (3 * 3600, "3h"), (3 * 3600 + 60, "3h1m"), (8 * 3600, "8h"), (47 * 3600, "47h"), (48 * 3600, "2d"),
        (50 * 3600, "2d2h"), (8 * 86400, "8d"), (729 * 86400, "729d"), (730 * 86400, "2y"),
        (800 * 86400, "2y70d"), (8 * 365 * 86400, "8y"),
    ],
)  # fmt: skip
def test_durations_are_short(seconds, text):
    assert printers.human_duration(seconds) == text


@pytest.mark.parametrize(
    ("image", "latest"),
    [
        ("nginx", True), ("nginx:latest", True), ("nginx:1", False), ("a.b:5000/c/d", True), ("a.b:5000/c:2", False),
        ("c@sha256:" + "a" * 64, False), ("c:latest@sha256:" + "a" * 64, True), ("Upper", False), ("", False),
        ("0" * 64, False),
    ],
)  # fmt: skip
def test_image_names(image, latest):
    assert is_latest(image) is latest


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        (
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}}],
            "Guaranteed",
        ),
        (
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}, {}],
            "Burstable",
        ),
        ([{"limits": {"example.com/a": "1"}}], "BestEffort"),
    ],
)
def test_quality_of_service(resources, quality):
    assert qos_class({"containers": [{"resources": r} for r in resources]}) == quality


def pod(**spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def cells(document, status=None, now=BIRTH + 60):
    kind, obj = read(document)
    obj["metadata"]["creationTimestamp"] = BORN
    obj["status"] = status or {}
    return dict(zip([c.name for c in kind.printer.columns], kind.printer.cells(obj, now), strict=True))


def test_a_pod_in_a_table():
    running = {
        "phase": "Running",
        "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {"name": "c", "ready": True, "restartCount": 2, "state": {"running": {}},
             "lastState": {"terminated": {"finishedAt": BORN, "exitCode": 1}}}
        ],
    }  # fmt: skip
    found = cells(pod(nodeName="n1"), running)
    assert [found[k] for k in ("Name", "Ready", "Status", "Restarts", "Age", "IP", "Node")] == [
        "p", "1/1", "Running", "2 (60s ago)", "60s", "10.0.0.1", "n1",
    ]  # fmt: skip
    waiting = {
        "phase": "Pending",
        "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}],
    }
    assert cells(pod(), waiting)["Status"] == "ImagePullBackOff"
    done = {"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 3}}}]}
    assert cells(pod(), done)["Status"] == "ExitCode:3"
    assert cells(pod(schedulingGates=[{"name": "x"}]), {"phase": "Pending"})["Ready"] == "0/1"
    dying = pod()
    dying["metadata"]["deletionTimestamp"] = BORN
    assert cells(dying, {"phase": "Running"})["Status"] == "Terminating"


def test_others_in_tables():
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n"}}
    found = cells(
        {
            **service,
            "spec": {"clusterIPs": ["10.0.0.1"], "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]},
        }
    )
    assert [found[k] for k in ("Type", "Cluster-IP", "External-IP", "Port(s)")] == [
        "ClusterIP", "10.0.0.1", "<none>", "80/TCP,53/UDP",
    ]  # fmt: skip
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/x": ""}},
    }
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.36.0"}}
    found = cells({**node, "spec": {"unschedulable": True}}, ready)
    assert [found[k] for k in ("Status", "Roles", "Version")] == ["Ready,SchedulingDisabled", "x", "v1.36.0"]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "n"}}
    job["spec"] = {
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    }
    found = cells(
        job, {"succeeded": 1, "startTime": BORN, "conditions": [{"type": "Complete", "status": "True"}]}
    )
    assert [found[k] for k in ("Status", "Completions")] == ["Complete", "1/1"]


def test_defaults_are_upstreams():
    _, obj = read(pod(volumes=[{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}]))
    spec = obj["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["volumes"] == [
        {"name": "v", "emptyDir": {}},
        {"name": "s", "secret": {"secretName": "x", "defaultMode": 0o644}},
    ]
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    _, obj = read(
        pod(
            containers=[{"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]
        )
    )
    assert obj["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert obj["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}}
    deployment["spec"] = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    _, obj = read(deployment)
    assert obj["spec"]["strategy"] == {
        "type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }  # fmt: skip
    assert (obj["spec"]["replicas"], obj["spec"]["revisionHistoryLimit"]) == (1, 10)


def test_a_new_pod_waits():
    _, obj, errors = create(pod(schedulingGates=[{"name": "x"}]))
    assert errors == []
    assert obj["status"]["phase"] == "Pending"
    assert obj["status"]["qosClass"] == "BestEffort"
    assert obj["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert obj["metadata"]["generation"] == 1


def test_pods_are_bound_once():
    _, obj, _ = create(pod())
    binding = {"metadata": {"name": "p", "annotations": {"a": "b"}}, "target": {"kind": "Node", "name": "n1"}}
    assert list(check_binding(binding)) == []
    bound = bind(obj, binding, CONTEXT)
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"a": "b"}
    assert [(c["type"], c["status"]) for c in bound["status"]["conditions"]] == [("PodScheduled", "True")]
    assert "nodeName" not in obj["spec"]
    with pytest.raises(Exception, match="already assigned to node"):
        bind(bound, binding, CONTEXT)
    assert [e.field for e in check_binding({"metadata": {}, "target": {"kind": "Pod"}})] == [
        "target.kind", "target.name",
    ]  # fmt: skip


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
