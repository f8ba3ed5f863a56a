from __future__ import annotations

import pytest

from dray.cel import CompileError
from dray.explain.devices.states import DeviceState, DeviceView, by_class, list_devices, selected_by
from dray.explain.model.snapshot import Snapshot, parse
from tests.support.explain import claim, cluster, device, device_class, node, pod, slice_


def states(*documents: dict[str, object]) -> dict[str, DeviceView]:
    return {view.id.device: view for view in list_devices(cluster(*documents))}


def test_device_is_free_until_a_claim_has_it() -> None:
    holder = claim("c", taken=("n/a",))
    holder["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    found = states(node("n"), slice_("n", device("a"), device("b")), holder, pod("p", "c", nodeName="n"))
    assert found["a"].state is DeviceState.ALLOCATED
    assert str(found["a"].holders[0]) == "default/c (default/p)"
    assert found["b"].state is DeviceState.FREE


def test_shared_device_shows_the_capacity_left() -> None:
    shared = device("a", allowMultipleAllocations=True, capacity={"memory": {"value": "80Gi"}})
    holder = claim("c", taken=("n/a",))
    result = holder["status"]["allocation"]["devices"]["results"][0]
    result |= {"shareID": "s", "consumedCapacity": {"memory": "30Gi"}}
    found = states(node("n"), slice_("n", shared), holder)
    assert found["a"].state is DeviceState.SHARED
    assert found["a"].note == "memory: 50Gi of 80Gi left"


def test_taint_rule_taints_devices_of_its_pool() -> None:
    rule = {
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"pool": "n"}, "taint": {"key": "k", "effect": "NoSchedule"}},
    }
    found = states(node("n"), slice_("n", device("a")), slice_("m", device("b")), rule)
    assert found["a"].state is DeviceState.TAINTED
    assert found["b"].state is DeviceState.FREE


def test_partition_is_blocked_while_another_consumes_its_counters() -> None:
    def part(name: str, amount: str) -> dict[str, object]:
        return device(name, consumesCounters=[{"counterSet": "s", "counters": {"m": {"value": amount}}}])

    counters = slice_("n", count=2, sharedCounters=[{"name": "s", "counters": {"m": {"value": "2"}}}])
    counters["metadata"]["name"] = "counters"
    parts = slice_("n", part("whole", "2"), part("half", "1"), part("other", "1"), count=2)
    found = states(node("n"), counters, parts, claim("c", taken=("n/half",)))
    assert found["whole"].state is DeviceState.BLOCKED
    assert found["whole"].note == "counter s/m: 2 needed, 1 left"
    assert found["other"].state is DeviceState.FREE


def test_devices_of_an_incomplete_pool_are_withheld() -> None:
    found = states(node("n"), slice_("n", device("a"), count=2))
    assert found["a"].state is DeviceState.WITHHELD


def test_device_that_the_kubelet_reports_unhealthy_is_unhealthy() -> None:
    user = pod("p", "c", nodeName="n")
    report = {"name": "claim:c", "resources": [{"resourceID": "x", "health": "Unhealthy"}]}
    user["status"]["containerStatuses"] = [{"name": "c", "allocatedResourcesStatus": [report]}]
    found = states(node("n"), slice_("n", device("a")), claim("c", taken=("n/a",)), user)
    assert found["a"].state is DeviceState.UNHEALTHY


def test_expression_filters_devices_and_must_compile() -> None:
    world = cluster(node("n"), slice_("n", device("a"), device("b", "H100")))
    wanted = selected_by('device.attributes["gpu.example.com"].model == "H100"', world.features)
    assert [view.id.device for view in list_devices(world, wanted=[wanted])] == ["b"]
    with pytest.raises(CompileError):
        selected_by("device.nothing", world.features)


def test_summary_by_class_counts_a_device_in_each_of_its_classes() -> None:
    world = cluster(
        slice_("n", device("a"), device("b")), device_class("gpu"), device_class("all", "true"),
        device_class("none", "false"),
    )  # fmt: skip
    found = {one.name: one.total for one in by_class(world, list_devices(world))}
    assert found == {"gpu": 2, "all": 2}


def test_snapshot_is_equal_after_saving_and_loading() -> None:
    snapshot = Snapshot(nodes=(node("n"),), release="1.36", gates=frozenset({"DRAAdminAccess"}))
    assert parse(snapshot.dump()) == snapshot
