from __future__ import annotations

from dray.api import on_demand
from dray.explain import Snapshot
from tests.support.explain import DRIVER, Doc, device, device_class, node, slice_


def announcement() -> Doc:
    return {"kind": "ConfigMap", **on_demand.announcement(DRIVER, [device("a")])}


def pools(snapshot: Snapshot) -> list[str]:
    return [one["spec"]["pool"]["name"] for one in snapshot.slices]


def test_announced_devices_are_there_once_a_class_names_their_driver() -> None:
    there = Snapshot().with_objects([node("n"), node("m"), announcement()])
    assert pools(there) == []
    assert pools(there.with_objects([device_class(source='device.driver == "other"')])) == []
    assert pools(there.with_objects([device_class()])) == ["n", "m"]


def test_announced_devices_do_not_replace_published_ones() -> None:
    there = Snapshot().with_objects([node("n"), node("m"), announcement(), slice_("n", device("a"))])
    assert pools(there.with_objects([device_class()])) == ["n"]


def test_other_configmaps_announce_nothing() -> None:
    other = announcement()
    del other["metadata"]["labels"]
    assert pools(Snapshot().with_objects([node("n"), other, device_class()])) == []


def test_a_manifest_for_a_pod_that_runs_leaves_identity_status_and_node_alone() -> None:
    metadata = {"name": "p", "namespace": "default"}
    running = {
        "kind": "Pod",
        "metadata": {**metadata, "uid": "u"},
        "spec": {"nodeName": "n", "priority": 1},
        "status": {"phase": "Running"},
    }
    manifest = {"kind": "Pod", "metadata": {**metadata, "labels": {"a": "b"}}, "spec": {"priority": 2}}
    (pod,) = Snapshot().with_objects([running]).applied([manifest]).pods
    assert pod["metadata"] == {**metadata, "uid": "u", "labels": {"a": "b"}}
    assert (pod["spec"], pod["status"]) == ({"nodeName": "n", "priority": 2}, {"phase": "Running"})
    assert Snapshot().applied([manifest]).pods == (manifest,)
