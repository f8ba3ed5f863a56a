"""Endpoints of a Service."""

from __future__ import annotations

from typing import Any

from dray.controllers import endpoints

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


def test_pods_that_are_not_ready_are_listed_apart():
    (subset,) = endpoints.subsets_for(service(), [pod("a"), pod("b", ready=False, ip="10.0.0.2")])
    assert [a["ip"] for a in subset["addresses"]] == ["10.0.0.1"]
    assert [a["ip"] for a in subset["notReadyAddresses"]] == ["10.0.0.2"]
    eager = service(publishNotReadyAddresses=True)
    assert len(endpoints.subsets_for(eager, [pod("b", ready=False)])[0]["addresses"]) == 1
