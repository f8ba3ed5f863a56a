"""Seed 1, Kubernetes 1.27: resource classes, and drivers whose controllers allocate."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.seeds.conftest import Cluster, documents
from tests.support.wait import wait_for_sync

pytestmark = pytest.mark.xdist_group("seeds-classic")
POD = "pod-with-cats"


@pytest.fixture(scope="module")
def cluster(start: Callable[..., Cluster]) -> Cluster:
    return start("--emulate", "1.27", "--feature-gates", "KubeletPodResourcesDynamicResources=true")


@pytest.fixture(scope="module")
def cats(cluster: Cluster) -> Cluster:
    """The page's manifests, applied."""
    cluster.apply("classic-1.27/cats.yaml")
    cluster.ready(POD)
    return cluster


def test_the_four_kinds_of_the_page_are_served(cluster: Cluster) -> None:
    served = cluster.kubectl("api-resources", "--api-group=resource.k8s.io", "-o", "name").split()
    assert {name.partition(".")[0] for name in served} == {
        "podschedulingcontexts", "resourceclaims", "resourceclaimtemplates", "resourceclasses",
    }  # fmt: skip


def test_each_container_sees_the_claim_that_it_names(cats: Cluster) -> None:
    seen = [cats.kubectl("exec", POD, "-c", f"container{i}", "--", "env") for i in (0, 1)]
    names = [re.findall("^CAT_NAME=(.*)", text, re.MULTILINE) for text in seen]
    assert all(len(found) == 1 for found in names) and names[0] != names[1]


def test_the_driver_marks_a_claim_as_allocated_and_says_where_it_is(cats: Cluster) -> None:
    (node,) = {cats.kubectl.get("pod", POD)["spec"]["nodeName"]}
    for claim in cats.kubectl.get("resourceclaims")["items"]:
        allocation = claim["status"]["allocation"]
        assert claim["status"]["driverName"] == "resource-driver.example.com"
        (term,) = allocation["availableOnNodes"]["nodeSelectorTerms"]
        assert [node] in [
            e["values"] for e in [*term.get("matchFields", ()), *term.get("matchExpressions", ())]
        ]


def test_the_node_tells_monitors_who_has_which_claim(cats: Cluster) -> None:
    assert cats.dynamic_resources() >= {(POD, f"container{i}", f"{POD}-cat-{i}") for i in (0, 1)}


def test_driver_and_scheduler_agree_on_a_node_over_the_scheduling_context(cats: Cluster) -> None:
    """Each node has two such cats: the second pod has to go elsewhere, and the third waits with the whole story."""
    cats.apply("classic-1.27/cats.yaml", changes=((f"name: {POD}", "name: second"),))
    first, second = cats.ready(POD), cats.ready("second")
    assert {first["spec"]["nodeName"], second["spec"]["nodeName"]} == {"node-1", "node-2"}
    cats.apply("classic-1.27/cats.yaml", changes=((f"name: {POD}", "name: third"),))

    def answered() -> bool:
        context = cats.kubectl.get("podschedulingcontexts", "third")
        answers = (context.get("status") or {}).get("resourceClaims") or ()
        excluded = [set(one.get("unsuitableNodes") or ()) for one in answers]
        return excluded == [{"node-1", "node-2"}] * 2 and bool(context["spec"]["potentialNodes"])

    wait_for_sync("the driver to exclude both nodes for both claims", answered)
    assert not cats.kubectl.get("pod", "third")["spec"].get("nodeName")  # it blocks nothing while it waits
    cats.kubectl("delete", "pod", "second", "--grace-period=1")
    assert cats.ready("third")["spec"]["nodeName"] == second["spec"]["nodeName"]
    claims = cats.kubectl.get("resourceclaims")["items"]
    used = [c["status"]["reservedFor"][0]["name"] for c in claims]
    assert sorted(used) == [POD, POD, "third", "third"]
    cats.kubectl("delete", "pod", "third", "--grace-period=1")


def test_a_pod_that_names_its_node_is_held_back_by_the_kubelet(cats: Cluster) -> None:
    spec = {
        "nodeName": "node-1",
        "containers": [{"name": "c", "image": "x", "resources": {"claims": [{"name": "cat"}]}}],
        "resourceClaims": [
            {"name": "cat", "source": {"resourceClaimTemplateName": "large-black-cat-claim-template"}}
        ],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bypass"}, "spec": spec}
    cats.kubectl("apply", "-f", "-", stdin=documents(pod))
    cats.wait_for_warning("bypass", "FailedPrepareDynamicResources")
    assert cats.kubectl.get("pod", "bypass")["status"]["phase"] == "Pending"
    cats.kubectl("delete", "pod", "bypass", "--grace-period=0", "--force")


def claim(name: str, of_class: str) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1alpha2", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"resourceClassName": of_class},
    }  # fmt: skip


def user(name: str, claim_name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"claims": [{"name": "cat"}]}}
    entry = {"name": "cat", "source": {"resourceClaimName": claim_name}}
    body = {"containers": [container], "resourceClaims": [entry], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def test_a_claim_that_cannot_be_shared_is_used_by_one_pod_alone(cats: Cluster) -> None:
    cats.kubectl(
        "apply", "-f", "-", stdin=documents(claim("mine", "resource.example.com"), user("one", "mine"))
    )
    cats.ready("one")
    cats.kubectl("apply", "-f", "-", stdin=documents(user("two", "mine")))
    cats.wait_for_warning("two", "resourceclaim in use")
    cats.kubectl("delete", "pod", "one", "--grace-period=0", "--force")
    cats.ready("two")
    cats.kubectl("delete", "pod", "two", "--grace-period=0", "--force")


def test_without_a_driver_for_them_claims_stay_pending(cats: Cluster) -> None:
    nobody = {
        "apiVersion": "resource.k8s.io/v1alpha2", "kind": "ResourceClass", "metadata": {"name": "dogs"},
        "driverName": "nobody.example.com",
    }  # fmt: skip
    cats.kubectl("apply", "-f", "-", stdin=documents(nobody, claim("dog", "dogs"), user("dog-friend", "dog")))
    cats.wait_for_warning("dog-friend", "FailedScheduling")
    assert "pending" in cats.kubectl("get", "resourceclaim", "dog")
    assert cats.kubectl.get("pod", "dog-friend")["status"]["phase"] == "Pending"
    cats.kubectl("delete", "pod", "dog-friend", "--grace-period=0", "--force")


CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: %s
"""
WITHOUT_PLUGIN = "  plugins: {multiPoint: {disabled: [{name: DynamicResources}]}}\n"


@pytest.mark.parametrize("way", ["gate", "plugin"])
def test_a_scheduler_without_the_feature_binds_the_pod_and_the_kubelet_holds_it_back(
    cats: Cluster, tmp_path: Path, way: str
) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(CONFIGURATION % way + (WITHOUT_PLUGIN if way == "plugin" else ""))
    gates = ("--feature-gates", "DynamicResourceAllocation=false") if way == "gate" else ()
    pod = user(f"without-{way}", "for-nobody", schedulerName=way)
    with cats.beside("scheduler", "--config", str(config), *gates):
        wish = documents(claim("for-nobody", "resource.example.com"), pod)
        cats.kubectl("apply", "-f", "-", stdin=wish)
        cats.wait_for_warning(f"without-{way}", "FailedPrepareDynamicResources")
    found = cats.kubectl.get("pod", f"without-{way}")
    assert found["spec"]["nodeName"] and found["status"]["phase"] == "Pending"
    assert "allocation" not in (cats.kubectl.get("resourceclaim", "for-nobody").get("status") or {})
    cats.kubectl("delete", "pod", f"without-{way}", "--grace-period=0", "--force")


def test_pods_of_a_deployment_share_one_claim_with_what_class_and_claim_say(cats: Cluster) -> None:
    cats.kubectl("delete", "pod", POD, "--grace-period=1")
    cats.apply("classic-1.27/shared/cat.yaml")
    cats.kubectl("rollout", "status", "deployment/cat-friends", "--timeout=40s")
    claim = cats.kubectl.get("resourceclaim", "cat-for-all")
    assert len(claim["status"]["reservedFor"]) == 3 and claim["status"]["allocation"]["shareable"]
    seen = cats.kubectl("exec", "deployment/cat-friends", "--", "env")
    assert "CAT_COLOR=black" in seen and "CAT_SIZE=large" in seen
