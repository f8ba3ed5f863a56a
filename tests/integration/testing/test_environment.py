"""A cluster inside a test: what its users write."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from dray import testing
from dray.client.resources import NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.driver import Device, Driver, Edits
from dray.testing import ClusterError, Settings


@pytest.fixture(scope="module")
def cluster() -> Iterator[testing.Cluster]:
    with testing.cluster() as started:
        yield started


def test_three_nodes_with_eight_devices_each_are_there(cluster: testing.Cluster) -> None:
    assert cluster.nodes == ["node-1", "node-2", "node-3"]
    assert len(cluster.client.list(NODES)) == 3
    devices = [len(s["spec"].get("devices") or ()) for s in cluster.client.list(RESOURCE_SLICES)]
    assert devices == [8, 8, 8]


def test_a_pod_with_a_claim_runs_on_a_device(cluster: testing.Cluster) -> None:
    with cluster.namespace() as namespace:
        cluster.apply(
            testing.claim_template("one-gpu"),
            testing.pod("train", templates={"gpu": "one-gpu"}),
            namespace=namespace,
        )
        cluster.wait_for_pod("train", namespace)
        [claim] = cluster.client.list(RESOURCE_CLAIMS, namespace)
        assert claim["status"]["allocation"]["devices"]["results"][0]["driver"] == "gpu.example.com"


def test_a_wait_that_fails_says_what_explain_says(cluster: testing.Cluster) -> None:
    with cluster.namespace() as namespace:
        cluster.apply(
            testing.claim("many", count=9), testing.pod("train", claims={"gpu": "many"}), namespace=namespace
        )
        with pytest.raises(AssertionError, match="to be Running") as failed:
            cluster.wait_for_pod("train", namespace, seconds=0.3)
        assert "8" in str(failed.value) and "gpu.example.com" in str(failed.value)


def test_any_wait_that_fails_explains_the_pods_that_are_pending(cluster: testing.Cluster) -> None:
    with cluster.namespace() as namespace:
        cluster.apply(
            testing.claim("many", count=9), testing.pod("train", claims={"gpu": "many"}), namespace=namespace
        )
        with pytest.raises(AssertionError, match="for a miracle") as failed:
            cluster.wait_for("a miracle", lambda: False, namespace=namespace, seconds=0.3)
        assert "train" in str(failed.value) and "gpu.example.com" in str(failed.value)


def test_objects_of_a_namespace_go_with_it(cluster: testing.Cluster) -> None:
    with cluster.namespace() as namespace:
        cluster.apply(testing.pod("p"), namespace=namespace)
    names = lambda: {n["metadata"]["name"] for n in cluster.client.list(NAMESPACES)}  # noqa: E731
    testing.wait_for("the namespace to go", lambda: namespace not in names())
    assert cluster.client.list(PODS, namespace) == []


def test_what_a_client_returns_belongs_to_the_test(cluster: testing.Cluster) -> None:
    found = cluster.client.get(NODES, "", "node-1")
    found["metadata"]["name"] = "changed"
    assert cluster.client.get(NODES, "", "node-1")["metadata"]["name"] == "node-1"


def test_a_node_with_devices_that_nobody_runs(cluster: testing.Cluster) -> None:
    fast = testing.device("fast-0", attributes={"fast": True, "lanes": 16}, capacity={"memory": "80Gi"})
    cluster.apply(
        testing.node("bare"),
        testing.resource_slice("bare", [fast], driver="fast.example.com"),
        testing.device_class("fast", expression="device.attributes['fast.example.com'].fast"),
    )
    with cluster.namespace() as namespace:
        cluster.apply(
            testing.claim("fast", device_class="fast"),
            testing.pod("p", claims={"f": "fast"}),
            namespace=namespace,
        )
        pod = testing.wait_for(
            "the pod to be bound", lambda: cluster.client.get(PODS, namespace, "p")["spec"].get("nodeName")
        )
        assert pod == "bare"


def test_a_setting_that_makes_no_sense_is_one_line() -> None:
    with pytest.raises(ClusterError, match=r"^release 9\.9|9\.9"), testing.cluster(release="9.9"):
        pass


def test_a_release_is_emulated() -> None:
    with testing.cluster(nodes=1, release="1.34") as old:
        assert old.kubectl is not None
        version = old.run(old.admin.request("GET", "/version")).object
        assert version["minor"] == "34"


class Cats(Driver):
    name = "cats.example.com"

    def devices(self, node: str) -> list[Device]:
        return [Device(name=f"cat-{i}") for i in range(2)]

    def edits(self, claim: object, device: object) -> Edits:
        return Edits(env={"CAT": "tom"})


def test_a_driver_that_crashes_while_preparing_is_asked_again() -> None:
    with testing.cluster(nodes=1, drivers=("none",), runtime="process") as own:
        cats = own.start_driver(Cats(), "node-1")
        own.apply(
            testing.device_class("cats.example.com"),
            testing.claim("cat", device_class="cats.example.com"),
        )
        cats.crash_at("prepare", "after")
        own.apply(testing.pod("p", claims={"cat": "cat"}))
        testing.wait_for("the driver to crash", lambda: cats.crashes == 1)
        cats.start()
        own.wait_for_pod("p", seconds=20)


def test_an_agent_that_is_killed_while_preparing_takes_up_the_pod_again() -> None:
    with testing.cluster(nodes=1, drivers=("none",), runtime="process") as own:
        cats = own.start_driver(Cats(), "node-1")
        own.apply(
            testing.device_class("cats.example.com"),
            testing.claim("cat", device_class="cats.example.com"),
        )
        cats.kill_agent_at("prepare", "after")
        own.apply(testing.pod("p", claims={"cat": "cat"}))
        testing.wait_for("the agent to be gone", lambda: not own.node_agents.running("node-1"))
        assert own.client.get(PODS, "default", "p")["status"]["phase"] == "Pending"
        own.node_agents.start("node-1")
        own.wait_for_pod("p", seconds=20)


def test_time_that_is_moved_forward_evicts_the_pods_of_a_node_that_is_gone() -> None:
    with testing.cluster(nodes=2, devices=1, fake_clock=True) as own:
        own.apply(testing.claim_template("one"), testing.pod("p", templates={"gpu": "one"}))
        node = own.wait_for_pod("p")["spec"]["nodeName"]
        own.advance(600)  # the lease is renewed: nothing happens
        own.wait_for_pod("p")
        own.node_agents.kill(node)
        own.advance(60)
        taints = own.client.get(NODES, "", node)["spec"]["taints"]
        assert ("node.kubernetes.io/unreachable", "NoExecute") in {(t["key"], t["effect"]) for t in taints}
        assert [p["metadata"]["name"] for p in own.client.list(PODS, "default")] == [
            "p"
        ]  # tolerated for 300 s
        own.advance(320)
        testing.wait_for("the pod to be evicted", lambda: not own.client.list(PODS, "default"))


def test_only_a_fake_clock_is_moved(cluster: testing.Cluster) -> None:
    with pytest.raises(ClusterError, match="fake_clock=True"):
        cluster.advance(1)


class TestWithUnittest(testing.ClusterTestCase):
    settings = Settings(nodes=1, devices=1)

    def test_its_own_namespace(self) -> None:
        self.assertEqual(self.cluster.client.list(PODS, self.namespace), [])


def test_a_second_cluster_starts_and_stops_for_less_than_a_hundred_namespaces_cost(
    cluster: testing.Cluster,
) -> None:
    """Both are cheap. Processor time is compared, which does not depend on what else the machine does."""
    began = time.process_time()
    with testing.cluster():
        pass
    one_cluster = time.process_time() - began
    began = time.process_time()
    for _ in range(100):
        with cluster.namespace():
            pass
    assert one_cluster < time.process_time() - began
