"""What pods ask of their nodes."""

from __future__ import annotations

from dray.api.compute import pod_requests


def container(cpu: str, **more: object) -> dict:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


def test_the_overhead_of_a_runtime_class_comes_on_top():
    spec = {"containers": [container("100m")], "overhead": {"cpu": "250m", "memory": "64Mi"}}
    asked = pod_requests(spec)  # type: ignore[arg-type]
    assert (asked.cpu, asked.memory) == (350, 64 << 20)


def test_an_init_container_runs_beside_the_sidecars_that_were_started_before_it():
    spec = {
        "initContainers": [container("100m", restartPolicy="Always"), container("500m")],
        "containers": [container("200m")],
    }
    assert pod_requests(spec).cpu == 600  # type: ignore[arg-type]
