"""A live cluster says the same as one that is read anew, whatever came and went before."""

from __future__ import annotations

import random
from functools import cached_property
from typing import Any

import msgspec

from dray.api.identity import ObjectKey
from dray.explain import Cluster, list_devices
from dray.explain.classic import list_instances
from dray.ui.board import Board
from dray.ui.cluster import LiveCluster
from dray.ui.details.parts import timeline
from tests.support import explain as given

FIELDS = {
    "Node": "nodes",
    "Pod": "pods",
    "DeviceClass": "classes",
    "ResourceSlice": "slices",
    "ResourceClaim": "claims",
    "DeviceTaintRule": "taint_rules",
}


def put(cluster: LiveCluster, *documents: Any) -> None:
    for one in documents:
        cluster.put(FIELDS[one["kind"]], one)


def remove(cluster: LiveCluster, *documents: Any) -> None:
    for one in documents:
        cluster.remove(FIELDS[one["kind"]], one)


def taint_rule(name: str, device: str) -> dict[str, Any]:
    taint = {"key": "broken", "effect": "NoSchedule"}
    return {
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": {"driver": given.DRIVER, "device": device}, "taint": taint},
    }


def shared(name: str) -> dict[str, Any]:
    return given.device(name, allowMultipleAllocations=True, capacity={"memory": {"value": "80Gi"}})


def states(cluster: LiveCluster) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    return {
        str(view.id): (view.state.value, view.note, tuple(map(str, view.holders)))
        for pool in cluster.pools.values()
        for view in cluster.devices(pool)
    }


def states_anew(cluster: LiveCluster) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    return {
        str(view.id): (view.state.value, view.note, tuple(map(str, view.holders)))
        for view in list_devices(cluster.frozen())
    }


def unhealthy_pod() -> dict[str, Any]:
    pod = given.pod("runs", "c1", nodeName="n1")
    report = {"name": "claim:c1", "resources": [{"resourceID": "x", "health": "Unhealthy", "message": "hot"}]}
    pod["status"]["containerStatuses"] = [{"name": "c", "allocatedResourcesStatus": [report]}]
    return pod


def test_states_follow_every_change():
    documents = [
        given.node("n1"),
        given.slice_("n1", given.device("a"), given.device("b"), shared("c")),
        given.slice_("n2", given.device("a"), count=2),
        given.device_class(),
        given.claim("c1", taken=("n1/a",)),
        given.claim("c2"),
        unhealthy_pod(),
        given.pod("waits", "c2"),
        taint_rule("rule", "b"),
    ]
    choice = random.Random(7)
    cluster, there = LiveCluster(release="1.36"), []
    board = Board(cluster)
    for _ in range(200):
        if there and choice.random() < 0.4:
            remove(cluster, there.pop(choice.randrange(len(there))))
        else:
            one = choice.choice(documents)
            there = [other for other in there if other is not one] + [one]
            put(cluster, one)
        if choice.random() < 0.5:
            board.refresh()
            assert states(cluster) == states_anew(cluster)
            assert board.totals.states.total() == len(states(cluster))


def test_every_look_up_of_the_snapshot_is_live():
    """A live cluster has no snapshot to look things up in."""
    looked_up = {name for name, member in vars(Cluster).items() if isinstance(member, cached_property)}
    settings = {"version", "gates", "features", "fixed_names"}  # they do not change
    assert looked_up - settings - {"_slices_by_pool"} <= vars(LiveCluster()).keys()


def test_each_state_is_told():
    cluster = LiveCluster(release="1.36")
    put(cluster, given.slice_("n1", given.device("a"), given.device("b")), given.claim("c1", taken=("n1/a",)))
    put(cluster, taint_rule("rule", "b"), given.slice_("n2", given.device("x"), count=2))
    cluster.take_touched()
    assert {id.partition("/")[2]: state for id, (state, _, _) in states(cluster).items()} == {
        "n1/a": "allocated",
        "n1/b": "tainted",
        "n2/x": "withheld",
    }
    put(cluster, unhealthy_pod())
    assert states(cluster)[f"{given.DRIVER}/n1/a"][:2] == ("unhealthy", "hot")


def test_a_change_of_one_claim_makes_one_pool_anew():
    cluster = LiveCluster()
    put(cluster, *(given.slice_(f"n{i}", given.device("a")) for i in range(50)), given.claim("c"))
    board = Board(cluster)
    board.refresh()
    put(cluster, given.claim("c", taken=("n7/a",)))
    update = board.refresh()
    assert {name: len(changed) for name, changed in update.rows.items()} == {"pools": 1, "claims": 1}
    assert not board.refresh().rows


def test_what_is_there_at_the_start_is_not_told_as_new_but_what_follows_is():
    cluster, board = LiveCluster(), None
    put(cluster, given.slice_("n1", given.device("a")), given.claim("c"))
    board = Board(cluster)
    assert board.refresh().happenings == []
    put(cluster, given.claim("c", taken=("n1/a",)))
    assert [one.text for one in board.refresh().happenings] == [
        "claim default/c is allocated: gpu.example.com/n1/a"
    ]
    remove(cluster, given.claim("c"))
    assert [one.text for one in board.refresh().happenings] == ["claim default/c is gone"]
    assert [one.state for one in board.happenings.timeline("claim", "default/c")] == [
        "pending",
        "allocated",
        "gone",
    ]


def dated(document: dict[str, Any], second: int, **more: Any) -> dict[str, Any]:
    return {**document, **more, "metadata": {**document["metadata"], "creationTimestamp": moment(second)}}


def moment(second: int) -> str:
    return f"1970-01-01T00:00:{second:02}Z"


def test_what_happened_before_the_start_is_told_by_the_timestamps_of_the_objects():
    cluster = LiveCluster()
    allocated: Any = dated(given.claim("allocated", taken=("n1/a",)), 2)
    allocated["status"]["allocation"]["allocationTimestamp"] = moment(9)
    undated = dated(given.claim("undated", taken=("n1/b",)), 3)
    running = {
        "phase": "Running",
        "containerStatuses": [{"name": "m", "state": {"running": {"startedAt": moment(8)}}}],
    }
    bound: Any = dated(given.pod("running", "undated"), 4, status=running)
    bound["spec"] = {**bound["spec"], "nodeName": "n1"}
    put(cluster, given.slice_("n1", given.device("a"), given.device("b")), allocated, undated, bound)
    put(cluster, dated(given.pod("waits"), 5), dated(given.claim("pending"), 7))
    board = Board(cluster, clock=lambda: 100.0)
    board.refresh()
    assert [(one.at, one.text) for one in board.happenings.newest if one.kind != "pool"] == [
        (5, "pod default/waits is Pending"),
        (7, "claim default/pending is pending"),
        (8, "pod default/running is Running on n1"),
        (9, "claim default/allocated is allocated: gpu.example.com/n1/a"),
    ]

    def told(name: str) -> Any:
        key = ObjectKey("default", name)
        return timeline(board, "claim", str(key), cluster.claims[key]).moments

    assert told("allocated") == [(2, "created", False), (9, "allocated", False)]
    assert told("undated") == [(3, "created", False), (100, "allocated", True)]
    assert told("pending") == [(7, "pending", False)]


def test_capacity_that_may_be_shared_is_shown_before_anybody_has_a_share():
    cluster = LiveCluster()
    put(cluster, given.slice_("n1", shared("a"), given.device("b", capacity={"memory": {"value": "80Gi"}})))
    board = Board(cluster)
    board.refresh()
    row = msgspec.json.decode(board.rows["pools"][f"{given.DRIVER}/n1"])
    assert [one.get("c") for one in row["devices"]] == [[["memory", 0.0, "0 of 80Gi"]], None]


def named_slice(name: str, node: str, *instances: str) -> dict[str, Any]:
    attributes = [{"name": "size", "string": "large"}]
    return {
        "metadata": {"name": name},
        "nodeName": node,
        "driverName": given.DRIVER,
        "namedResources": {"instances": [{"name": one, "attributes": attributes} for one in instances]},
    }


def structured_claim(name: str, *instances: str) -> dict[str, Any]:
    results = [{"namedResources": {"name": one}} for one in instances]
    handle = {"driverName": given.DRIVER, "structuredData": {"nodeName": "n1", "results": results}}
    status = {"allocation": {"resourceHandles": [handle]}} if instances else {}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"resourceClassName": "cat"},
        "status": status,
    }


def test_named_resources_of_structured_parameters_are_devices():
    cluster = LiveCluster(release="1.30")
    board = Board(cluster)

    def shown() -> dict[str, tuple[str, str, tuple[str, ...]]]:
        board.refresh()
        again = cluster.frozen()
        assert states(cluster) == {
            str(view.id): (view.state.value, view.note, tuple(map(str, view.holders)))
            for view in list_instances(again)
        }
        return states(cluster)

    cluster.put("classic_slices", named_slice("first", "n1", "tom"))
    cluster.put("classic_slices", named_slice("second", "n1", "felix"))
    cluster.put("classic_claims", structured_claim("c", "felix"))
    assert {id.rpartition("/")[2]: state for id, (state, _, _) in shown().items()} == {
        "tom": "free",
        "felix": "allocated",
    }
    assert board.rows["slices"].keys() == {"first", "second"}
    assert b'"devices":["gpu.example.com/n1/felix"]' in board.rows["claims"]["default/c"]
    cluster.put("classic_claims", structured_claim("c"))
    cluster.remove("classic_slices", named_slice("first", "n1", "tom"))
    assert {id.rpartition("/")[2]: state for id, (state, _, _) in shown().items()} == {"felix": "free"}
    cluster.remove("classic_slices", named_slice("second", "n1", "felix"))
    assert shown() == {}
    assert not board.rows["pools"] and not board.rows["slices"]


def test_changes_that_no_row_shows_are_told_once_in_a_while():
    cluster, now = LiveCluster(), 100.0
    put(cluster, given.node("n1"))
    board = Board(cluster, clock=lambda: now)
    board.refresh()
    told = []
    for beat in range(20):
        now += 0.1
        put(cluster, {**given.node("n1"), "status": {"heartbeat": beat}})
        update = board.refresh()
        assert not update.rows
        told.append(bool(update.revision))
    assert 1 <= sum(told) <= 2
    put(cluster, given.node("n2"))
    assert board.refresh().revision
