"""Small clusters for the tools' tests."""

from __future__ import annotations

from typing import Any

from dray.explain import Cluster, Snapshot

DRIVER = "gpu.example.com"
Doc = dict[str, Any]


def node(name: str, **more: Any) -> Doc:
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": more,
        "status": {"allocatable": allocatable},
    }


def device(name: str, model: str = "A100", **more: Any) -> Doc:
    return {"name": name, "attributes": {"model": {"string": model}}, **more}


def slice_(node_name: str, *devices: Doc, count: int = 1, **spec: Any) -> Doc:
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": count}
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-slice"},
        "spec": {"driver": DRIVER, "nodeName": node_name, "pool": pool, "devices": list(devices), **spec},
    }


def device_class(name: str = "gpu", source: str = f'device.driver == "{DRIVER}"') -> Doc:
    return {
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": source}}]},
    }


def claim(name: str, *sources: str, count: int = 1, taken: tuple[str, ...] = (), **exactly: Any) -> Doc:
    """A claim for ``count`` devices; ``taken`` are devices of its pool, as ``node/device``, that it has."""
    request = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": source}} for source in sources],
        **exactly,
    }
    made: Doc = {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": request}]}},
    }
    if taken:
        results = [
            {"request": "r", "driver": DRIVER, "pool": one.split("/")[0], "device": one.split("/")[1]}
            for one in taken
        ]
        made["status"] = {"allocation": {"devices": {"results": results}}}
    return made


def pod(name: str, *claims: str, cpu: str = "1", **spec: Any) -> Doc:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            "resourceClaims": [{"name": one, "resourceClaimName": one} for one in claims],
            **spec,
        },
        "status": {"phase": "Running" if "nodeName" in spec else "Pending"},
    }


def cluster(*documents: Doc) -> Cluster:
    return Cluster(Snapshot().with_objects(documents), filters_nodes=True)
