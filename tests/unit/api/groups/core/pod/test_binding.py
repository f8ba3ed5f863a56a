"""Bindings of pods to nodes."""

from __future__ import annotations

import pytest

from dray.api.groups.core.pod import bind, check_binding
from tests.unit.api.groups.strategies import CONTEXT, create, pod


def test_pods_are_bound_once():
    _, obj, _ = create(pod())
    binding = {"metadata": {"name": "p", "annotations": {"a": "b"}}, "target": {"kind": "Node", "name": "n1"}}
    assert list(check_binding(binding)) == []
    bound = bind(obj, binding, CONTEXT)
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"a": "b"}
    assert [(c["type"], c["status"]) for c in bound["status"]["conditions"]] == [("PodScheduled", "True")]
    assert "nodeName" not in obj["spec"]
    with pytest.raises(Exception, match="already assigned to node"):
        bind(bound, binding, CONTEXT)
    assert [e.field for e in check_binding({"metadata": {}, "target": {"kind": "Pod"}})] == [
        "target.kind", "target.name",
    ]  # fmt: skip
