"""What people do with claims, typed with real kubectl on one cluster: scene after scene, each in its own namespace."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.kubectl import Kubectl
from tests.support.process import dray_process
from tests.support.wait import wait_for_sync

pytestmark = pytest.mark.xdist_group("scenes")

RUN = ["sh", "-c", "export; trap 'exit 0' TERM; sleep 9999 & wait"]
CLASS = "gpu.example.com"
Document = dict[str, Any]


@pytest.fixture(scope="module")
def anywhere(tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """Two nodes with four devices each."""
    base = tmp_path_factory.mktemp("scenes")
    with dray_process(base / "c", "up", "--nodes", "2", "--devices", "4", "--device-preemption") as cluster:
        yield Kubectl(tool("kubectl-1.36"), cluster, base / "cache")


class Scene:
    """A namespace, and what is done in it."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.namespace = f"scene-{uuid.uuid4().hex[:6]}"
        self._kubectl = kubectl
        kubectl("create", "namespace", self.namespace)

    def kubectl(self, *arguments: str, **more: Any) -> str:
        return self._kubectl("-n", self.namespace, *arguments, **more)

    def apply(self, *documents: Document) -> None:
        for document in documents:
            self.kubectl("apply", "-f", "-", stdin=json.dumps(document))

    def get(self, *what: str) -> Any:
        return json.loads(self.kubectl("get", *what, "-o", "json"))

    def claims(self) -> dict[str, Document]:
        return {c["metadata"]["name"]: c for c in self.get("resourceclaims")["items"]}

    def wait(self, what: str, condition: str) -> None:
        self.kubectl("wait", what, f"--for={condition}", "--timeout=50s")

    def running(self, name: str) -> Document:
        self.wait(f"pod/{name}", "jsonpath={.status.phase}=Running")
        found: Document = self.get("pod", name)
        return found

    def gpus(self, pod: str, container: str = "main") -> set[str]:
        """The devices that a container was given, as it sees them."""
        said = wait_for_sync(
            f"the log of {pod}/{container}", lambda: self.kubectl("logs", pod, "-c", container)
        )
        return {
            line.partition("=")[2].strip("'\"") for line in said.splitlines() if " GPU_DEVICE_" in line
            and line.partition("=")[0].rpartition("_")[2].isdecimal()
        }  # fmt: skip


@pytest.fixture
def scene(anywhere: Kubectl) -> Iterator[Scene]:
    made = Scene(anywhere)
    yield made
    anywhere("delete", "namespace", made.namespace, "--wait=true", "--timeout=50s")


def wants(**more: Any) -> Document:
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS, **more}}]}}


def template(name: str = "one", **more: Any) -> Document:
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name},
        "spec": {"spec": wants(**more)},
    }  # fmt: skip


def claim(name: str, **more: Any) -> Document:
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": wants(**more),
    }  # fmt: skip


def body(*sources: Document, **more: Any) -> Document:
    """The spec of a pod whose container uses all of the pod's claims."""
    claims = [{"name": f"c{i}", **source} for i, source in enumerate(sources)]
    container = {
        "name": "main", "image": "busybox", "command": RUN,
        "resources": {"claims": [{"name": c["name"]} for c in claims]},
    }  # fmt: skip
    return {"containers": [container], "resourceClaims": claims, "terminationGracePeriodSeconds": 5, **more}


def pod(name: str, spec: Document) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def workload(kind: str, replicas: int, spec: Document, **more: Any) -> Document:
    labels = {"app": "it"}
    return {
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "it"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec}, **more,
        },
    }  # fmt: skip


FROM_TEMPLATE = {"resourceClaimTemplateName": "one"}


def test_two_claims_of_one_template_and_each_container_has_its_own(scene: Scene) -> None:
    spec = body(FROM_TEMPLATE, FROM_TEMPLATE)
    (main,) = spec["containers"]
    spec["containers"] = [
        {**main, "name": f"ctr{i}", "resources": {"claims": [{"name": f"c{i}"}]}} for i in range(2)
    ]
    scene.apply(template(), pod("p", spec))
    statuses = scene.running("p")["status"]["resourceClaimStatuses"]
    assert len({s["resourceClaimName"] for s in statuses}) == 2
    first, second = scene.gpus("p", "ctr0"), scene.gpus("p", "ctr1")
    assert len(first) == len(second) == 1 and first != second


def test_the_pods_of_a_deployment_share_a_claim(scene: Scene) -> None:
    scene.apply(claim("shared"), workload("Deployment", 3, body({"resourceClaimName": "shared"})))
    scene.kubectl("rollout", "status", "deployment/it", "--timeout=50s")
    pods = scene.get("pods")["items"]
    assert len({p["spec"]["nodeName"] for p in pods}) == 1
    assert len({frozenset(scene.gpus(p["metadata"]["name"])) for p in pods}) == 1
    users = {u["name"] for u in scene.claims()["shared"]["status"]["reservedFor"]}
    assert users == {p["metadata"]["name"] for p in pods}
    assert "allocated,reserved" in scene.kubectl("get", "resourceclaim", "shared")
    scene.kubectl("scale", "deployment/it", "--replicas=0")
    wait_for_sync(
        "claim shared to be pending", lambda: "pending" in scene.kubectl("get", "resourceclaim", "shared")
    )


def test_every_pod_of_a_stateful_set_has_a_claim_of_its_own(scene: Scene) -> None:
    scene.apply(template(), workload("StatefulSet", 3, body(FROM_TEMPLATE), serviceName="it"))
    scene.kubectl("rollout", "status", "statefulset/it", "--timeout=50s")
    claims = scene.claims()
    assert sorted(name.rpartition("-")[0] for name in claims) == ["it-0-c0", "it-1-c0", "it-2-c0"]
    devices = {
        (r["pool"], r["device"])
        for c in claims.values()
        for r in c["status"]["allocation"]["devices"]["results"]
    }
    assert len(devices) == 3
    scene.kubectl("scale", "statefulset/it", "--replicas=1")
    wait_for_sync("the claim of the pod", lambda: len(scene.claims()) == 1)
    scene.kubectl("delete", "statefulset", "it")
    wait_for_sync("the claims to go", lambda: not scene.claims())


def test_a_pod_that_names_its_node_bypasses_the_scheduler(scene: Scene) -> None:
    scene.apply(claim("c"), pod("first", body({"resourceClaimName": "c"})))
    node = scene.running("first")["spec"]["nodeName"]
    scene.apply(pod("second", body({"resourceClaimName": "c"}, nodeName=node)))
    scene.running("second")
    assert {u["name"] for u in scene.claims()["c"]["status"]["reservedFor"]} == {"first", "second"}
    assert scene.gpus("first") == scene.gpus("second")
    events = scene.get("events", "--field-selector", "involvedObject.name=second")["items"]
    assert "Scheduled" not in {e["reason"] for e in events}


def test_a_node_selector_decides_where_the_device_is(scene: Scene) -> None:
    spec = body(FROM_TEMPLATE, nodeSelector={"kubernetes.io/hostname": "node-2"})
    scene.apply(template(), pod("p", spec))
    assert scene.running("p")["spec"]["nodeName"] == "node-2"
    (made,) = scene.claims().values()
    assert made["status"]["allocation"]["devices"]["results"][0]["pool"] == "node-2"


def test_describe_tells_what_to_change(scene: Scene) -> None:
    too_big = f'device.capacity["{CLASS}"].memory.compareTo(quantity("1000Gi")) >= 0'
    scene.apply(template(selectors=[{"cel": {"expression": too_big}}]), pod("p", body(FROM_TEMPLATE)))
    said = wait_for_sync(
        "pod p to say that its claims cannot be allocated",
        lambda: (
            text if "cannot allocate all claims" in (text := scene.kubectl("describe", "pod", "p")) else ""
        ),
    )
    assert "0/2 nodes are available: 2 cannot allocate all claims." in said
    assert f"wants 1 device; of 8 on 2 nodes: 8 not matching {too_big}." in said
    events = scene.get("events", "--field-selector", "reason=FailedScheduling")["items"]
    event = next(e for e in events if "cannot allocate" in e["message"])
    reasons = json.loads(event["metadata"]["annotations"]["dray.dev/reasons"])
    assert reasons["node-1"]["requests"][0]["removed"][0]["count"] == 4


def test_a_more_important_pod_takes_a_device_from_a_lesser_one(scene: Scene) -> None:
    important = {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": scene.namespace},
        "value": 1000,
    }  # fmt: skip
    scene.apply(important, template())
    scene.apply(*(pod(f"low-{i}", body(FROM_TEMPLATE)) for i in range(8)))
    for i in range(8):
        scene.running(f"low-{i}")
    scene.apply(pod("high", body(FROM_TEMPLATE, priorityClassName=scene.namespace)))
    scene.running("high")
    left = {p["metadata"]["name"] for p in scene.get("pods")["items"]}
    assert len(left) == 8 and "high" in left
    (event,) = scene.get("events", "--field-selector", "reason=Preempted")["items"]
    assert event["involvedObject"]["name"] not in left
    scene.kubectl("delete", "priorityclass", scene.namespace)


def test_scheduler_and_controllers_count_what_they_do(scene: Scene) -> None:
    scene.apply(template(), pod("p", body(FROM_TEMPLATE)))
    scene.running("p")
    counted = scene.kubectl("get", "--raw", "/metrics")
    for line in (
        'scheduler_schedule_attempts_total{result="scheduled",profile="default-scheduler"}',
        'scheduler_pending_pods{queue="active"}',
        'workqueue_adds_total{name="resource_claim"}',
        'resourceclaim_controller_creates_total{status="success",admin_access="false"}',
        'resourceclaim_controller_resource_claims{allocated="true",admin_access="false",source="resource_claim_template"}',
    ):
        assert line in counted, line
