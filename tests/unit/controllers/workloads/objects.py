"""Pods for the tests of workloads."""

from __future__ import annotations

from typing import Any

from dray.controllers.workloads import history

Object = dict[str, Any]
READY = [{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}]


def pod(
    name: str, *, ready: bool = True, phase: str = "Running", node: str = "", revision: str = "r1"
) -> Object:
    metadata: Object = {"name": name, "uid": name, "labels": {history.REVISION_HASH_LABEL: revision}}
    status = {"phase": phase, "conditions": READY if ready else []}
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": status}


def terminating(one: Object) -> Object:
    return {**one, "metadata": {**one["metadata"], "deletionTimestamp": "1970-01-01T00:00:00Z"}}


def names(pods: Any) -> list[str]:
    return [p["metadata"]["name"] for p in pods]
