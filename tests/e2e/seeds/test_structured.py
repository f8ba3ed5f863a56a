"""Seed 2, Kubernetes 1.30: structured parameters, which the scheduler allocates itself, beside the classic ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.seeds.conftest import Cluster, documents
from tests.support.unset_node_name import unset_node_name_webhook
from tests.support.wait import wait_for_sync

pytestmark = pytest.mark.xdist_group("seeds-structured")
POD, GROUP, DRIVER = "pod-with-cats", "resource.k8s.io/v1alpha2", "resource-driver.example.com"


@pytest.fixture(scope="module")
def cluster(start: Callable[..., Cluster]) -> Cluster:
    """Manifests of the page in their structured form, applied."""
    running = start("--emulate", "1.30", "--feature-gates", "KubeletPodResourcesDynamicResources=true")
    running.apply("structured-1.30/cats.yaml")
    running.ready(POD)
    return running


def pod(name: str, template: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"claims": [{"name": "cat"}]}}
    entry = {"name": "cat", "source": {"resourceClaimTemplateName": template}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [container], "resourceClaims": [entry], "terminationGracePeriodSeconds": 0, **spec},
    }  # fmt: skip


def template(name: str, of_class: str, parameters: dict[str, str] | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {"resourceClassName": of_class}
    if parameters:
        spec["parametersRef"] = parameters
    return {
        "apiVersion": GROUP, "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": {"spec": spec},
    }  # fmt: skip


def allocated(cluster: Cluster, pod_name: str) -> list[str]:
    """The named resources that the pod's claims have."""
    claims = [
        c for c in cluster.kubectl.get("resourceclaims")["items"]
        if (c["metadata"].get("ownerReferences") or [{}])[0].get("name") == pod_name
    ]  # fmt: skip
    handles = [h for c in claims for h in c["status"]["allocation"]["resourceHandles"]]
    return [r["namedResources"]["name"] for h in handles for r in h["structuredData"]["results"]]


def test_the_seven_kinds_of_the_page_are_served(cluster: Cluster) -> None:
    served = cluster.kubectl("api-resources", "--api-group=resource.k8s.io", "-o", "name").split()
    assert {name.partition(".")[0] for name in served} == {
        "podschedulingcontexts", "resourceclaimparameters", "resourceclaims", "resourceclaimtemplates",
        "resourceclasses", "resourceclassparameters", "resourceslices",
    }  # fmt: skip


def test_the_scheduler_allocates_from_slices_without_asking_the_driver(cluster: Cluster) -> None:
    assert sorted(allocated(cluster, POD)) == ["panther", "sylvester"]  # the black ones of the node's slice
    assert not cluster.kubectl.get("podschedulingcontexts")["items"]
    slices = cluster.kubectl.get("resourceslices")["items"]
    assert {s["nodeName"] for s in slices if s["driverName"] == DRIVER} == {"node-1", "node-2"}
    (claim, *_) = cluster.kubectl.get("resourceclaims")["items"]
    data = claim["status"]["allocation"]["resourceHandles"][0]["structuredData"]
    assert data["nodeName"] == cluster.kubectl.get("pod", POD)["spec"]["nodeName"]


def test_the_driver_turns_its_own_kind_into_what_the_scheduler_reads(cluster: Cluster) -> None:
    wish = {
        "apiVersion": "cats.resource.example.com/v1", "kind": "ClaimParameters", "metadata": {"name": "mine"},
        "spec": {"color": "black"},
    }  # fmt: skip
    cluster.kubectl("apply", "-f", "-", stdin=documents(wish))

    def generated() -> list[str]:
        made = cluster.kubectl.get("resourceclaimparameters")["items"]
        mine = [one for one in made if (one.get("generatedFrom") or {}).get("name") == "mine"]
        return [one["driverRequests"][0]["requests"][0]["namedResources"]["selector"] for one in mine]

    wait_for_sync("generated parameters", lambda: generated() == ['attributes.string["color"] == "black"'])


def test_users_may_write_what_the_scheduler_reads(cluster: Cluster) -> None:
    selector = {"namedResources": {"selector": 'attributes.string["color"] == "white"'}}
    own = {
        "apiVersion": GROUP, "kind": "ResourceClaimParameters", "metadata": {"name": "white"},
        "driverRequests": [{"driverName": DRIVER, "requests": [selector]}],
    }  # fmt: skip
    reference = {"apiGroup": "resource.k8s.io", "kind": "ResourceClaimParameters", "name": "white"}
    of_class = cluster.kubectl.get("resourceclasses")["items"][0]["metadata"]["name"]
    made = documents(own, template("white", of_class, reference), pod("white", "white"))
    cluster.kubectl("apply", "-f", "-", stdin=made)
    cluster.ready("white")
    assert allocated(cluster, "white") == ["snowball"]
    cluster.kubectl("delete", "pod", "white")


def test_parameters_of_a_class_restrict_its_claims(cluster: Cluster) -> None:
    small = {
        "apiVersion": "cats.resource.example.com/v1", "kind": "ClaimParameters", "metadata": {"name": "small"},
        "spec": {"size": "small"},
    }  # fmt: skip
    reference = {
        "apiGroup": "cats.resource.example.com", "kind": "ClaimParameters", "name": "small", "namespace": "default",
    }  # fmt: skip
    of_class = {
        "apiVersion": GROUP, "kind": "ResourceClass", "metadata": {"name": "small-cats"}, "driverName": DRIVER,
        "structuredParameters": True, "parametersRef": reference,
    }  # fmt: skip
    made = documents(small, of_class, template("small", "small-cats"), pod("small", "small"))
    cluster.kubectl("apply", "-f", "-", stdin=made)
    cluster.ready("small")
    assert allocated(cluster, "small") == ["snowball"]
    cluster.kubectl("delete", "pod", "small")


def test_a_node_selector_for_one_host_goes_through_the_scheduler(cluster: Cluster) -> None:
    structured = {
        "apiVersion": GROUP, "kind": "ResourceClass", "metadata": {"name": "cats-of-a-host"}, "driverName": DRIVER,
        "structuredParameters": True,
    }  # fmt: skip
    there = pod("there", "of-a-host", nodeSelector={"kubernetes.io/hostname": "node-2"})
    cluster.kubectl(
        "apply", "-f", "-", stdin=documents(structured, template("of-a-host", "cats-of-a-host"), there)
    )
    assert cluster.ready("there")["spec"]["nodeName"] == "node-2"
    assert len(allocated(cluster, "there")) == 1
    cluster.kubectl("delete", "pod", "there")


def test_admission_turns_a_node_name_into_a_node_selector(cluster: Cluster) -> None:
    structured = {
        "apiVersion": GROUP, "kind": "ResourceClass", "metadata": {"name": "cats-by-webhook"}, "driverName": DRIVER,
        "structuredParameters": True,
    }  # fmt: skip
    named = pod("named", "by-webhook", nodeName="node-2")
    cluster.kubectl(
        "apply", "-f", "-", stdin=documents(structured, template("by-webhook", "cats-by-webhook"))
    )
    with unset_node_name_webhook(cluster.kubectl):
        cluster.kubectl("apply", "-f", "-", stdin=documents(named))
    found = cluster.ready("named")
    assert found["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "node-2"}
    assert found["spec"]["nodeName"] == "node-2" and len(allocated(cluster, "named")) == 1
    cluster.kubectl("delete", "pod", "named")


def test_the_controllers_help_a_pod_that_bypassed_the_scheduler_unless_parameters_are_structured(
    cluster: Cluster,
) -> None:
    classic = {
        "apiVersion": GROUP, "kind": "ResourceClass", "metadata": {"name": "classic-cats"}, "driverName": DRIVER,
    }  # fmt: skip
    structured = {**classic, "metadata": {"name": "named-cats"}, "structuredParameters": True}
    made = documents(
        classic, structured, template("classic", "classic-cats"), template("named", "named-cats"),
        pod("helped", "classic", nodeName="node-1"), pod("stuck", "named", nodeName="node-1"),
    )  # fmt: skip
    cluster.kubectl("apply", "-f", "-", stdin=made)
    cluster.ready("helped")
    cluster.wait_for_warning("stuck", "FailedPrepareDynamicResources")
    assert cluster.kubectl.get("pod", "stuck")["status"]["phase"] == "Pending"
    cluster.kubectl("delete", "pod", "helped", "stuck", "--grace-period=0", "--force")


def test_the_node_tells_monitors_who_has_which_claim(cluster: Cluster) -> None:
    def containers() -> set[str]:
        return {container for name, container, _ in cluster.dynamic_resources() if name == POD}

    wait_for_sync("both containers to show", lambda: containers() == {"container0", "container1"})
