"""Which devices a container gets, without a plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.kubelet_api.checkpoint import CorruptCheckpoint
from dray.node.deviceplugins.allocation import (
    Allocated,
    Allocations,
    DeviceKey,
    choose,
    is_plugin_resource,
    reusable,
    wanted,
)

GPU = "example.com/gpu"


def container(name: str, gpus: int = 1, **changes: Any) -> Any:
    return {"name": name, "resources": {"limits": {GPU: str(gpus), "cpu": "1"}}, **changes}


def test_only_names_with_a_domain_of_others_are_resources_of_plugins() -> None:
    names = [GPU, "gpu", "kubernetes.io/gpu", "a.kubernetes.io/gpu", "example.com/", "../../x", "a/b/c", ""]
    assert [name for name in names if is_plugin_resource(name)] == [GPU]


def test_what_the_scheduler_took_from_a_claim_is_not_asked_of_a_plugin() -> None:
    made: Any = {"metadata": {"uid": "u"}, "spec": {"containers": [container("c", 2)]}}
    assert list(wanted(made, container("c", 2), {GPU: 1})) == [(GPU, 2)]
    assert list(wanted(made, container("c", 2), {})) == []
    mapping = {"containerName": "c", "resourceName": GPU, "requestName": "r"}
    made["status"] = {"extendedResourceClaimStatus": {"requestMappings": [mapping]}}
    assert list(wanted(made, container("c", 2), {GPU: 1})) == []


def test_containers_reuse_what_init_containers_had_but_not_what_sidecars_have() -> None:
    side = container("side", restartPolicy="Always")
    spec = {"initContainers": [container("init", 2), side], "containers": [container("main")]}
    made: Any = {"metadata": {"uid": "u"}, "spec": spec}
    given = {DeviceKey("u", "init", GPU): Allocated(("a", "b"), b"")}
    assert reusable(made, side, GPU, given) == {"a", "b"}
    given[DeviceKey("u", "side", GPU)] = Allocated(("a",), b"")
    assert reusable(made, container("main"), GPU, given) == {"b"}


def test_reused_devices_come_first_then_preferred_ones() -> None:
    assert choose(3, first={"x"}, free={"a", "b", "c"}, preferred=("c",)) == ["x", "c", "a"]
    assert choose(3, first=set(), free={"a"}) is None


def test_allocations_outlive_the_agent_and_a_spoilt_file_is_not_guessed_at(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    made = Allocations.load(file)
    made.resources.add(GPU)
    made.entries[DeviceKey("u", "c", GPU)] = Allocated(("a",), b"\x00answer")
    made.save()
    assert Allocations.load(file) == made
    file.write_text("{")
    with pytest.raises(CorruptCheckpoint, match="drain the node"):
        Allocations.load(file)
