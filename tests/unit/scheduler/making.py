"""Small pods and nodes for the scheduler's tests."""

from __future__ import annotations

import itertools
from typing import Any

from dray.scheduler.nodes import Cluster
from dray.scheduler.pods import Pod

_serial = itertools.count()


def pod(name: str = "", **spec: Any) -> Pod:
    """A pod of one container; ``requests``, ``labels`` and ``status`` are shorthands."""
    serial = next(_serial)
    requests, labels, status = spec.pop("requests", {}), spec.pop("labels", {}), spec.pop("status", {})
    metadata = {
        "name": name or f"pod-{serial}",
        "namespace": spec.pop("namespace", "default"),
        "uid": f"uid-{serial}",
        "labels": labels,
        "creationTimestamp": f"2026-01-01T00:00:{serial % 60:02d}Z",
        **spec.pop("metadata", {}),
    }
    container = {"name": "main", "image": "pause", "resources": {"requests": requests}}
    return Pod({"metadata": metadata, "spec": {"containers": [container], **spec}, "status": status})


def node(name: str, *, cpu: str = "4", memory: str = "8Gi", pods: str = "110", **more: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, **more.pop("labels", {})}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": more.pop("spec", {}),
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods, **more}},
    }


def cluster(*nodes: dict[str, Any]) -> Cluster:
    made = Cluster()
    for document in nodes:
        made.set_node(document)
    return made
