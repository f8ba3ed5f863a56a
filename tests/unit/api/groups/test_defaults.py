"""What defaults make of objects."""

from __future__ import annotations

from tests.unit.api.groups.strategies import create, pod, read


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
