"""kill -9 of a classic driver's controller at every step of allocating and deallocating.

Nothing is ever given to two claims, nothing stays held by a claim that is gone, and no claim is stuck: the pod ends up
running, then gone with its claims.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.node import NodeUnderTest
from tests.support.process import DrayProcess, dray_process
from tests.support.wait import wait_for_sync

ALLOCATE = [
    *("negotiate.answered", "allocate.protected", "allocate.protected:2", "allocate.driver"),
    *("allocate.written", "allocate.written:2"),
]
DEALLOCATE = ["deallocate.driver", "deallocate.cleared", "deallocate.done", "deallocate.driver:2"]
RESOURCE = "/apis/resource.k8s.io/v1alpha2"
CLAIMS = f"{RESOURCE}/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrayProcess]:
    """API server, scheduler and controllers of 1.30, with a class and a template of the driver's."""
    directory = tmp_path_factory.mktemp("classic")
    options = ("--emulate", "1.30", "--store", "memory", "--disable-admission-plugins", "ServiceAccount")
    with dray_process(directory / "data", "server", *options) as server:
        world = NodeUnderTest(server, directory, "-", runtime="1.30")
        try:
            world.start("control")
            server.request(
                "POST",
                f"{RESOURCE}/resourceclasses",
                {"metadata": {"name": "kennel"}, "driverName": "kennel.example.com"},
            )
            template = {"metadata": {"name": "t"}, "spec": {"spec": {"resourceClassName": "kennel"}}}
            server.request("POST", f"{RESOURCE}/namespaces/default/resourceclaimtemplates", template)
            yield server
        finally:
            world.stop()


@pytest.fixture
def world(cluster: DrayProcess, tmp_path: Path) -> Iterator[NodeUnderTest]:
    made = NodeUnderTest(cluster, tmp_path, "-")
    yield made
    made.stop()


def make_pod(server: DrayProcess, name: str) -> None:
    entries = [{"name": f"d{i}", "source": {"resourceClaimTemplateName": "t"}} for i in range(2)]
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": e["name"]} for e in entries]}}
    spec = {"containers": [container], "resourceClaims": entries, "terminationGracePeriodSeconds": 0}
    server.request("POST", PODS, {"metadata": {"name": name}, "spec": spec})


def claims(server: DrayProcess) -> list[Any]:
    return list(server.request("GET", CLAIMS)["items"])


def given(server: DrayProcess) -> list[str]:
    """The devices of all allocated claims."""
    allocations = [(claim.get("status") or {}).get("allocation") or {} for claim in claims(server)]
    return [handle["data"] for a in allocations for handle in a.get("resourceHandles") or ()]


def held(world: NodeUnderTest) -> list[str]:
    return sorted(p.name for p in world.directory.glob("dev-*"))


def check(world: NodeUnderTest, devices: int) -> None:
    """What the API says is given away is what the driver holds, each device for one claim."""
    devices_given = given(world.server)
    assert len(devices_given) == len(set(devices_given)) == devices
    assert sorted(devices_given) == held(world)


def finish(world: NodeUnderTest, *pods: str) -> None:
    for pod in pods:
        world.delete(pod)
    wait_for_sync("all claims to go", lambda: not claims(world.server))
    wait_for_sync("no device to be held", lambda: not held(world))
    journal = (world.directory / "journal").read_text()
    assert "VIOLATION" not in journal, journal


@pytest.mark.parametrize("where", ALLOCATE)
def test_a_crash_while_allocating(world: NodeUnderTest, where: str) -> None:
    driver = world.start("kennel", faults=where)
    make_pod(world.server, "first")
    driver.wait_killed()
    make_pod(world.server, "second")
    world.start("kennel")
    wait_for_sync("both pods to run", lambda: world.phase("first") == world.phase("second") == "Running")
    check(world, 4)
    finish(world, "first", "second")


@pytest.mark.parametrize("where", DEALLOCATE)
def test_a_crash_while_deallocating(world: NodeUnderTest, where: str) -> None:
    driver = world.start("kennel", faults=where)
    make_pod(world.server, "first")
    wait_for_sync("pod first to run", lambda: world.phase("first") == "Running")
    world.delete("first")
    driver.wait_killed()
    make_pod(world.server, "second")
    world.start("kennel")
    wait_for_sync("pod second to run", lambda: world.phase("second") == "Running")
    wait_for_sync("two claims", lambda: len(claims(world.server)) == 2)
    check(world, 2)
    finish(world, "second")


@pytest.mark.parametrize("where", ["allocate.protected", "allocate.driver", "allocate.written"])
def test_a_crash_during_immediate_allocation(world: NodeUnderTest, where: str) -> None:
    driver = world.start("kennel", faults=where)
    spec = {"resourceClassName": "kennel", "allocationMode": "Immediate"}
    for name in ("one", "two"):
        world.server.request("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})
    driver.wait_killed()
    world.start("kennel")
    wait_for_sync("two allocated claims", lambda: len(given(world.server)) == 2)
    check(world, 2)
    for name in ("one", "two"):
        world.server.request("DELETE", f"{CLAIMS}/{name}")
    finish(world)


def test_a_pod_that_goes_while_the_driver_is_down_leaves_nothing(world: NodeUnderTest) -> None:
    driver = world.start("kennel", faults="allocate.driver")
    make_pod(world.server, "first")
    driver.wait_killed()
    world.delete("first")
    wait_for_sync("pod first to go", lambda: world.pod("first") is None)
    assert len(held(world)) == 2 and not given(world.server)
    world.start("kennel")
    finish(world)
