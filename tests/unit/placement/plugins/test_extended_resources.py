from __future__ import annotations

from typing import Any

import pytest

from dray.api.compute import ComputeResources, pod_requests
from dray.placement.cache.pods import PodInfo
from dray.placement.plugins.extended_resources import (
    ClaimRequests,
    DeviceClassResolver,
    requests,
    served_resources,
)
from tests.support.scheduler import pod


def container(name: str = "c", *, restart: str | None = None, **asked: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": name,
        "resources": {"requests": {k.replace("_", "/"): v for k, v in asked.items()}},
    }
    return {**made, "restartPolicy": restart} if restart else made


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container(cpu="1"), container(cpu="500m")]}, 1500),
        ({"containers": [container(cpu="1")], "initContainers": [container(cpu="3")]}, 3000),
        (
            {"containers": [container(cpu="1")], "initContainers": [container(cpu="2", restart="Always")]},
            3000,
        ),
        (
            {
                "containers": [container(cpu="1")],
                "initContainers": [container(cpu="1", restart="Always"), container(cpu="5")],
            },
            6000,
        ),
        ({"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "4"}}}, 4000),
    ],
)
def test_the_requests_of_a_pod_are_those_of_the_containers_that_run_at_once(
    spec: dict[str, Any], cpu: int
) -> None:
    assert pod_requests(spec) == ComputeResources(cpu=cpu)


def classes(**extended: str) -> DeviceClassResolver:
    names = DeviceClassResolver()
    for name, resource in extended.items():
        names.set({"metadata": {"name": name}, "spec": {"extendedResourceName": resource}})
    return names


def ask(p: PodInfo, known: DeviceClassResolver) -> ClaimRequests:
    return requests(p, served_resources(p, known), known.device_class_of)


def test_containers_get_requests_of_their_own() -> None:
    p = pod(containers=[container("a", example_gpu="1", cpu="1"), container("b", example_gpu="2")])
    made = ask(p, classes(gpu="example/gpu"))
    assert [(r["name"], r["exactly"]["deviceClassName"], r["exactly"]["count"]) for r in made.requests] == [
        ("container-0-request-1", "gpu", 1),
        ("container-1-request-0", "gpu", 2),
    ]
    assert [(m["containerName"], m["requestName"]) for m in made.mappings] == [
        ("a", "container-0-request-1"),
        ("b", "container-1-request-0"),
    ]


def test_an_init_container_uses_what_later_containers_will_have() -> None:
    p = pod(initContainers=[container("i", example_gpu="3")], containers=[container("c", example_gpu="2")])
    made = ask(p, classes(gpu="example/gpu"))
    assert {r["name"]: r["exactly"]["count"] for r in made.requests} == {
        "container-0-request-0": 1,
        "container-1-request-0": 2,
    }
    assert [m["requestName"] for m in made.mappings if m["containerName"] == "i"] == [
        "container-1-request-0",
        "container-0-request-0",
    ]


def test_any_class_can_be_asked_for_by_its_name() -> None:
    known = DeviceClassResolver()
    known.set({"metadata": {"name": "nic"}, "spec": {}})
    assert known.device_class_of("deviceclass.resource.kubernetes.io/nic") == "nic"
    known.remove("nic")
    assert known.device_class_of("deviceclass.resource.kubernetes.io/nic") is None


def test_the_newest_class_serves_a_resource_that_several_claim() -> None:
    known = DeviceClassResolver()
    for name, created in (("old", "2026-01-01T00:00:00Z"), ("new", "2026-02-01T00:00:00Z")):
        metadata = {"name": name, "creationTimestamp": created}
        known.set({"metadata": metadata, "spec": {"extendedResourceName": "example/gpu"}})
    assert known.device_class_of("example/gpu") == "new"
