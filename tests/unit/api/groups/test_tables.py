"""Objects of several kinds as rows of tables."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.unit.api.groups.strategies import pod, read

BORN = "2026-01-02T03:04:05Z"
BIRTH = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()


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
