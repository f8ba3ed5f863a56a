"""EndpointSlices of a Service."""

from __future__ import annotations

from typing import Any

from dray.controllers import endpointslice

Object = dict[str, Any]


def pod(name: str, *, ready: bool = True, ip: str = "10.0.0.1", **labels: str) -> Object:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels}
    status = {"phase": "Running", "podIP": ip, "conditions": [condition]}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}, "status": status}


def service(**spec: Any) -> Object:
    ports = [{"port": 80, "protocol": "TCP"}]
    return {
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"selector": {"app": "x"}, "ports": ports, **spec},
    }


def test_services_lead_to_running_pods_with_their_labels_and_an_address():
    ended = pod("ended", app="x")
    ended["status"]["phase"] = "Failed"
    pods = [pod("b", app="x"), pod("a", app="x"), pod("c", app="y"), pod("d", ip="", app="x"), ended]
    assert [p["metadata"]["name"] for p in endpointslice.service_pods(service(), pods)] == ["a", "b"]
    assert endpointslice.service_pods(service(selector=None), pods) == []


def test_slices_hold_a_hundred_endpoints_of_one_family_each():
    pods = [pod(f"p{i:03}", ip=f"10.0.{i // 250}.{i % 250}", app="x") for i in range(150)]
    made = endpointslice.slices_for(service(), pods)
    assert [len(s["endpoints"]) for s in made] == [100, 50]
    assert {s["addressType"] for s in made} == {"IPv4"}
    assert [s["endpoints"] for s in endpointslice.slices_for(service(), [])] == [[]]
