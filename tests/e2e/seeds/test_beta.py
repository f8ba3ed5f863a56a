"""Seed 3, Kubernetes 1.32: device classes, and devices that the scheduler allocates."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.seeds.conftest import Cluster, documents
from tests.support.kubectl import Kubectl
from tests.support.process import dray_process
from tests.support.wait import wait_for_sync

pytestmark = pytest.mark.xdist_group("seeds-beta")
POD, GROUP, GPU = "pod-with-cats", "resource.k8s.io/v1beta1", "gpu.example.com"
GPUS = {
    "apiVersion": GROUP, "kind": "DeviceClass", "metadata": {"name": GPU},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{GPU}'"}}]},
}  # fmt: skip
GATES = "DRAAdminAccess=true,DRAResourceClaimDeviceStatus=true,KubeletPodResourcesDynamicResources=true"


@pytest.fixture(scope="module")
def cluster(start: Callable[..., Cluster]) -> Iterator[Cluster]:
    """The page's manifests, applied; beside the cats two nodes with eight GPUs each, whose drivers report their status."""
    running = start("--emulate", "1.32", "--feature-gates", GATES, "--drivers", "cats")
    with contextlib.ExitStack() as stack:
        for place in running.data.glob("nodes/*"):
            paths = ("--root", str(place / "kubelet"), "--cdi", str(place / "cdi"))
            stack.enter_context(
                running.beside("driver", "gpu", "--node", place.name, "--device-status", *paths)
            )
        running.kubectl("apply", "-f", "-", stdin=documents(GPUS))
        wait_for_sync("the GPUs of both nodes", lambda: len(gpu_slices(running)) == 2)
        running.apply("beta-1.32/cats.yaml")
        running.ready(POD)
        yield running


def gpu_slices(cluster: Cluster) -> list[Any]:
    return list(cluster.kubectl.get("resourceslices", "--field-selector", f"spec.driver={GPU}")["items"])


def claim(name: str, **request: Any) -> dict[str, Any]:
    spec = {"devices": {"requests": [{"name": "r", **request}]}}
    return {"apiVersion": GROUP, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def template(name: str, **request: Any) -> dict[str, Any]:
    made = claim(name, **request)
    return {**made, "kind": "ResourceClaimTemplate", "spec": {"spec": made["spec"]}}


def results(claim: dict[str, Any]) -> list[tuple[str, str]]:
    """The devices that a claim has: pool and name."""
    allocation = (claim.get("status") or {}).get("allocation") or {"devices": {"results": ()}}
    return [(r["pool"], r["device"]) for r in allocation["devices"]["results"]]


def workload(kind: str, name: str, entry: dict[str, str], **spec: Any) -> dict[str, Any]:
    body = pod(name, "")["spec"] | {"resourceClaims": [{"name": "cat", **entry}]}
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": body},
            **spec,
        },
    }  # fmt: skip


def pod(name: str, claim_name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"claims": [{"name": "cat"}]}}
    entry = {"name": "cat", "resourceClaimName": claim_name}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [container], "resourceClaims": [entry], "terminationGracePeriodSeconds": 0, **spec},
    }  # fmt: skip


def test_the_four_kinds_of_the_page_are_served(cluster: Cluster) -> None:
    served = cluster.kubectl("api-resources", "--api-group=resource.k8s.io", "-o", "name").split()
    assert {name.partition(".")[0] for name in served} >= {
        "deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices",
    }  # fmt: skip


def test_the_pod_of_the_page_has_two_claims_and_each_container_a_cat(cluster: Cluster) -> None:
    claims = cluster.kubectl.get("resourceclaims")["items"]
    cats = [c["status"]["allocation"]["devices"]["results"][0] for c in claims]
    assert {r["driver"] for r in cats} == {"resource-driver.example.com"}
    assert len({r["device"] for r in cats}) == 2
    assert all(c["status"]["reservedFor"][0]["name"] == POD for c in claims)
    seen = [cluster.kubectl("exec", POD, "-c", f"container{i}", "--", "env") for i in (0, 1)]
    assert all(text.count("CAT_NAME=") == 1 for text in seen) and seen[0] != seen[1]


def test_the_node_tells_monitors_who_has_which_claim(cluster: Cluster) -> None:
    shown = {(name, container) for name, container, _ in cluster.dynamic_resources()}
    assert shown >= {(POD, "container0"), (POD, "container1")}


def test_every_request_names_a_device_class(cluster: Cluster) -> None:
    said = cluster.kubectl("apply", "-f", "-", stdin=documents(claim("classless")), code=1, merged=True)
    assert "spec.devices.requests[0]" in said and "Required value" in said


def test_a_pod_that_names_its_node_runs_once_its_claim_was_allocated_for_another(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=documents(
        claim("shared", deviceClassName="gpu.example.com"), pod("bypass", "shared", nodeName="node-2"),
    ))  # fmt: skip
    cluster.wait_for_warning("bypass", "FailedPrepareDynamicResources")
    assert cluster.kubectl.get("pod", "bypass")["status"]["phase"] == "Pending"
    there = {"nodeSelector": {"kubernetes.io/hostname": "node-2"}}
    cluster.kubectl("apply", "-f", "-", stdin=documents(pod("scheduled", "shared", **there)))
    assert cluster.ready("scheduled")["spec"]["nodeName"] == "node-2"
    cluster.ready("bypass")  # the kubelet looks again
    used = cluster.kubectl.get("resourceclaim", "shared")["status"]["reservedFor"]
    assert {one["name"] for one in used} == {"bypass", "scheduled"}
    cluster.kubectl("delete", "pod", "bypass", "scheduled")


def test_administrators_get_devices_in_use_where_the_policies_allow_it(cluster: Cluster) -> None:
    cluster.apply("beta-1.32/admin-access-policies.yaml")
    cluster.apply("beta-1.32/admin-access-template.yaml", namespace="cat-admins")
    wish = claim("spy", deviceClassName="gpu.example.com", adminAccess=True, allocationMode="All")
    cluster.kubectl("create", "namespace", "others")
    said = ""
    for _ in range(100):  # a new policy takes a moment, upstream too
        said = cluster.kubectl(
            "create", "-n", "others", "-f", "-", stdin=json.dumps(wish), code=None, merged=True
        )
        if "created" not in said:
            break
        cluster.kubectl("delete", "-n", "others", "resourceclaim", "spy")
    assert "admin access to devices not enabled" in said or "admin access" in said, said
    there = {"nodeSelector": {"kubernetes.io/hostname": "node-1"}}
    used = claim("in-use", deviceClassName=GPU)
    cluster.kubectl("apply", "-f", "-", stdin=documents(used, pod("busy", "in-use", **there)))
    cluster.ready("busy")
    spy = pod("spy", "spy", **there)
    cluster.kubectl("apply", "-n", "cat-admins", "-f", "-", stdin=documents(wish, spy))
    cluster.kubectl("wait", "-n", "cat-admins", "--for=condition=Ready", "pod/spy", "--timeout=40s")
    found = cluster.kubectl.get("resourceclaim", "-n", "cat-admins", "spy")
    devices = found["status"]["allocation"]["devices"]["results"]
    assert len(devices) == 8 and all(r["adminAccess"] for r in devices)
    assert results(cluster.kubectl.get("resourceclaim", "in-use"))[0] in results(found)
    cluster.kubectl("delete", "pod", "busy")
    cluster.kubectl("delete", "-n", "cat-admins", "pod", "spy")


def test_claims_of_a_template_are_made_and_deleted_with_their_pod(cluster: Cluster) -> None:
    one = template("fleeting", deviceClassName=GPU)
    user = pod("fleeting", "") | {}
    user["spec"]["resourceClaims"] = [{"name": "cat", "resourceClaimTemplateName": "fleeting"}]
    cluster.kubectl("apply", "-f", "-", stdin=documents(one, user))
    [made] = cluster.ready("fleeting")["status"]["resourceClaimStatuses"]
    owner = cluster.kubectl.get("resourceclaim", made["resourceClaimName"])["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("Pod", "fleeting")
    cluster.kubectl("delete", "pod", "fleeting")
    cluster.kubectl("wait", "--for=delete", f"resourceclaim/{made['resourceClaimName']}", "--timeout=40s")


def test_configuration_is_handed_to_the_driver_as_it_is(cluster: Cluster) -> None:
    sharing = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}
    given = {"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "GpuConfig", "sharing": sharing}
    wish = claim("configured", deviceClassName=GPU)
    wish["spec"]["devices"]["config"] = [{"opaque": {"driver": GPU, "parameters": given}}]
    cluster.kubectl("apply", "-f", "-", stdin=documents(wish, pod("configured", "configured")))
    cluster.ready("configured")
    [config] = cluster.kubectl.get("resourceclaim", "configured")["status"]["allocation"]["devices"]["config"]
    assert config["opaque"]["parameters"] == given
    assert "TIMESLICE_INTERVAL=Long" in cluster.kubectl("exec", "configured", "--", "env")
    cluster.kubectl("delete", "pod", "configured")


def test_drivers_report_the_status_of_allocated_devices(cluster: Cluster) -> None:
    cluster.kubectl(
        "apply", "-f", "-", stdin=documents(claim("told", deviceClassName=GPU), pod("told", "told"))
    )
    cluster.ready("told")
    wait_for_sync(
        "the driver to write about the GPU",
        lambda: cluster.kubectl.get("resourceclaim", "told")["status"].get("devices"),
    )
    found = cluster.kubectl.get("resourceclaim", "told")
    assert [(d["pool"], d["device"]) for d in found["status"]["devices"]] == results(found)
    assert found["status"]["devices"][0]["data"]["model"] == {"string": "LATEST-GPU-MODEL"}
    cluster.kubectl("delete", "pod", "told")


def test_the_pods_of_a_deployment_share_a_claim_and_with_a_template_each_has_its_own(
    cluster: Cluster,
) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=documents(
        claim("common", deviceClassName=GPU), template("each", deviceClassName=GPU),
        workload("Deployment", "sharing", {"resourceClaimName": "common"}),
        workload("StatefulSet", "apart", {"resourceClaimTemplateName": "each"}, serviceName="apart"),
    ))  # fmt: skip
    for one in ("deployment/sharing", "statefulset/apart"):
        cluster.kubectl("rollout", "status", one, "--timeout=50s")
    assert len(cluster.kubectl.get("resourceclaim", "common")["status"]["reservedFor"]) == 3
    claims = cluster.kubectl.get("resourceclaims")["items"]
    apart = [results(c) for c in claims if c["metadata"]["name"].startswith("apart-")]
    assert len(apart) == 3 and len({device for [device] in apart}) == 3
    cluster.kubectl("delete", "deployment/sharing", "statefulset/apart")
    cluster.kubectl("delete", "resourceclaim", "common")


def test_containers_share_what_they_both_name_and_have_the_rest_alone(cluster: Cluster) -> None:
    user = pod("several", "both")
    names = {"left": ("both", "own"), "right": ("both",)}
    user["spec"]["containers"] = [
        {"name": name, "image": "x", "resources": {"claims": [{"name": c} for c in claims]}} for name, claims in names.items()
    ]  # fmt: skip
    user["spec"]["resourceClaims"] = [{"name": n, "resourceClaimName": n} for n in ("both", "own")]
    wishes = [claim(name, deviceClassName=GPU) for name in ("both", "own")]
    cluster.kubectl("apply", "-f", "-", stdin=documents(*wishes, user))
    cluster.ready("several")

    def gpus(container: str) -> set[str]:
        seen = cluster.kubectl("exec", "several", "-c", container, "--", "env")
        return set(re.findall(r"^GPU_DEVICE_\d+=(.*)$", seen, re.MULTILINE))

    both, own = (results(cluster.kubectl.get("resourceclaim", name))[0][1] for name in ("both", "own"))
    assert gpus("left") == {both, own} and gpus("right") == {both}
    cluster.kubectl("delete", "pod", "several")
    cluster.kubectl("delete", "resourceclaim", "both", "own")


def test_selectors_look_at_attributes_and_capacity_and_constraints_bind_devices(cluster: Cluster) -> None:
    chosen = (
        f'device.attributes["{GPU}"].index == 7 && '
        f'device.capacity["{GPU}"].memory.compareTo(quantity("80Gi")) == 0'
    )
    one = claim("seventh", deviceClassName=GPU, selectors=[{"cel": {"expression": chosen}}])
    pair = claim("twins", deviceClassName=GPU, count=2)
    pair["spec"]["devices"]["constraints"] = [{"matchAttribute": f"{GPU}/uuid"}]  # no two have the same
    alike = claim("alike", deviceClassName=GPU, count=2)
    alike["spec"]["devices"]["constraints"] = [{"matchAttribute": f"{GPU}/model"}]
    cluster.kubectl("apply", "-f", "-", stdin=documents(
        one, pair, alike, pod("seventh", "seventh"), pod("twins", "twins"), pod("alike", "alike"),
    ))  # fmt: skip
    cluster.ready("seventh")
    cluster.ready("alike")
    assert [device for _, device in results(cluster.kubectl.get("resourceclaim", "seventh"))] == ["gpu-7"]
    assert len(results(cluster.kubectl.get("resourceclaim", "alike"))) == 2
    cluster.wait_for_warning("twins", "FailedScheduling")
    cluster.kubectl("delete", "pod", "seventh", "alike", "twins")


def test_no_device_that_a_claim_has_is_given_to_another(cluster: Cluster) -> None:
    """Five claims of four GPUs: sixteen GPUs are enough for four of them, and none gets what another has."""
    everything = [template("four", deviceClassName=GPU, count=4)]
    for number in range(5):
        user = pod(f"greedy-{number}", "")
        user["spec"]["resourceClaims"] = [{"name": "cat", "resourceClaimTemplateName": "four"}]
        everything.append(user)
    wait_for_sync("sixteen free GPUs", lambda: not given(cluster))
    cluster.kubectl("apply", "-f", "-", stdin=documents(*everything))
    wait_for_sync("all GPUs to be given away", lambda: len(given(cluster)) == 16)
    assert len(set(given(cluster))) == 16
    cluster.kubectl("delete", "pod", *(f"greedy-{number}" for number in range(5)))


def given(cluster: Cluster) -> list[tuple[str, str]]:
    """The GPUs that claims have."""
    claims = cluster.kubectl.get("resourceclaims")["items"]
    return [device for c in claims for device in results(c) if device[1].startswith("gpu-")]


def test_pods_of_the_control_plane_are_made_anew_when_their_flags_have_changed(
    tool: Callable[[str], str], tmp_path: Path
) -> None:
    seen = []
    for gates in ("DRAAdminAccess=false", "DRAAdminAccess=true"):
        options = ("--emulate", "1.32", "--nodes", "1", "--drivers", "none", "--feature-gates", gates)
        with dray_process(tmp_path / "c", "up", *options) as cluster:
            kubectl = Kubectl(tool("kubectl-1.36"), cluster, tmp_path / "cache")

            def shown(kubectl: Kubectl = kubectl, gates: str = gates) -> str:
                """The pod's uid, once it shows the flag."""
                for found in kubectl.get("pods", "-n", "kube-system", "-l", "component=kube-apiserver")[
                    "items"
                ]:
                    if any(gates in word for word in found["spec"]["containers"][0]["command"]):
                        return str(found["metadata"]["uid"])
                return ""

            seen.append(wait_for_sync(f"the API server's pod with {gates}", shown))
    assert seen[0] != seen[1]


def test_fields_of_features_that_are_off_are_dropped(tool: Callable[[str], str], tmp_path: Any) -> None:
    off = "DRAAdminAccess=false,DRAResourceClaimDeviceStatus=false"
    with dray_process(tmp_path / "s", "server", "--emulate", "1.32", "--feature-gates", off) as server:
        kubectl = Kubectl(tool("kubectl-1.36"), server, tmp_path / "cache")
        kubectl("apply", "-f", "-", stdin=documents(claim("c", deviceClassName="x", adminAccess=True)))
        found = kubectl.get("resourceclaim", "c")
        assert "adminAccess" not in found["spec"]["devices"]["requests"][0]
        result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "a"}
        status = {
            "allocation": {"devices": {"results": [result]}},
            "devices": [{"driver": "d.example.com", "pool": "p", "device": "a", "data": {"ip": "192.0.2.1"}}],
        }
        kubectl(
            "patch",
            "resourceclaim",
            "c",
            "--subresource=status",
            "--type=merge",
            "-p",
            json.dumps({"status": status}),
        )
        kept = kubectl.get("resourceclaim", "c")["status"]
        assert "allocation" in kept and "devices" not in kept
