"""Pods that a node must refuse although they were bound to it."""

from __future__ import annotations

from typing import Any

import pytest

from dray.node.admission import rejection, resize_obstacle

NODE = {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "2"}


def pod(requests: dict[str, str] | None = None, *ports: dict[str, Any]) -> Any:
    return {
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests or {}}, "ports": ports}]}
    }


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"cpu": "2"}, None),
        ({"cpu": "3"}, "OutOfcpu"),
        ({"memory": "9Gi"}, "OutOfmemory"),
        ({"example.com/gpu": "2"}, "OutOfexample.com/gpu"),
        ({"example.com/fpga": "2"}, None),  # may come from a claim
    ],
)
def test_a_pod_needs_what_the_others_leave(asked: dict[str, str], reason: str | None) -> None:
    found = rejection(pod(asked), [pod({"cpu": "2", "example.com/gpu": "1"})], NODE)
    assert (found and found.reason) == reason


@pytest.mark.parametrize(
    ("port", "taken", "refused"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, True),
        ({"hostPort": 80, "protocol": "UDP"}, {"hostPort": 80}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "0.0.0.0"}, True),
        ({"containerPort": 80}, {"containerPort": 80}, False),
    ],
)
def test_a_port_of_the_host_belongs_to_one_pod(port: Any, taken: Any, refused: bool) -> None:
    found = rejection(pod(None, port), [pod(None, taken)], NODE)
    assert (found is not None and found.reason == "NodePorts") == refused


def test_a_resize_waits_for_others_or_can_never_be() -> None:
    others = [pod({"cpu": "2"})]
    assert resize_obstacle(pod({"cpu": "2"}), others, NODE) is None
    later, never = (resize_obstacle(pod({"cpu": cpu}), others, NODE) for cpu in ("3", "5"))
    assert (later and later.reason, never and never.reason) == ("Deferred", "Infeasible")


def test_an_extended_resource_that_a_claim_serves_is_not_taken_from_the_node():
    """A device plugin that was removed leaves the count 0 behind, on a node whose driver now serves the resource."""
    served = pod({"example.com/gpu": "1"})
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
    served["status"] = {
        "extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": [mapping]}
    }
    counts_none = {**NODE, "example.com/gpu": "0"}
    assert rejection(served, [], counts_none) is None
    assert rejection(pod({"example.com/gpu": "1"}), [], counts_none) is not None
    assert rejection(pod({"example.com/gpu": NODE["example.com/gpu"]}), [served], NODE) is None
