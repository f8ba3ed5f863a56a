"""The plan that turns the slices that are into the slices that should be."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dray.driver.model import Capacity, Counters, Device, Pool, Slice, Taint, Version
from dray.driver.slices import Owner, Plan, plan

NODE = Owner("v1", "Node", "las1", "node-uid")
DRIVER = "gpu.example.com"


def gpus(number: int, **changes: Any) -> list[Device]:
    return [
        Device(name=f"gpu-{i}", attributes={"index": i, "model": "M", "v": Version("1.0.0")}, **changes)
        for i in range(number)
    ]


class Server:
    """Carries out plans."""

    def __init__(self) -> None:
        self.slices: dict[str, dict[str, Any]] = {}
        self._numbers = count()

    def make(self, pool: Pool | None, *, name: str = "las1", owner: Owner | None = NODE) -> Plan:
        existing = [s for s in self.slices.values() if s["spec"]["pool"]["name"] == name]
        todo = plan(driver=DRIVER, name=name, pool=pool, existing=existing, owner=owner)
        for gone in todo.delete:
            del self.slices[gone["metadata"]["name"]]
        for _, document in todo.update:
            self.slices[document["metadata"]["name"]] = document
        for _, document in todo.create:
            full = f"{document['metadata']['generateName']}{next(self._numbers):05x}"
            self.slices[full] = {**document, "metadata": {**document["metadata"], "name": full}}
        return todo

    @property
    def pools(self) -> list[tuple[int, int]]:
        return [
            (s["spec"]["pool"]["generation"], s["spec"]["pool"]["resourceSliceCount"])
            for s in self.slices.values()
        ]


def test_the_only_slice_of_a_node_is_named_after_node_and_driver() -> None:
    server = Server()
    todo = server.make(Pool.of(gpus(8)))
    [(_, created)] = todo.create
    assert created["metadata"]["generateName"] == "las1-gpu.example.com-"
    assert created["metadata"]["ownerReferences"][0]["uid"] == "node-uid"
    assert created["spec"]["nodeName"] == "las1"
    assert created["spec"]["pool"] == {"name": "las1", "generation": 1, "resourceSliceCount": 1}
    assert created["spec"]["devices"][3] == {
        "name": "gpu-3",
        "attributes": {"index": {"int": 3}, "model": {"string": "M"}, "v": {"version": "1.0.0"}},
    }


def test_publishing_the_same_again_writes_nothing() -> None:
    server = Server()
    server.make(Pool.of(gpus(8, capacity={"memory": "80Gi"})))
    assert not server.make(Pool.of(gpus(8, capacity={"memory": "81920Mi"})))


def test_one_changed_slice_is_updated_within_its_generation() -> None:
    server = Server()
    server.make(Pool.of(gpus(8)))
    todo = server.make(Pool.of(gpus(7)))
    assert (len(todo.update), todo.create, todo.delete) == (1, [], [])
    assert server.pools == [(1, 1)]


def test_several_writes_bring_a_new_generation_to_all_slices() -> None:
    server = Server()
    server.make(Pool.of(gpus(300)))
    assert server.pools == [(1, 3)] * 3
    server.make(Pool.of(gpus(300, capacity={"memory": "1"})))
    assert server.pools == [(2, 3)] * 3


def test_names_of_several_slices_keep_their_order() -> None:
    server = Server()
    server.make(Pool.of(gpus(300)))
    first = [server.slices[name]["spec"]["devices"][0]["name"] for name in sorted(server.slices)]
    assert first == ["gpu-0", "gpu-128", "gpu-256"]


def test_a_pool_that_grows_beyond_one_slice_gets_new_slices() -> None:
    server = Server()
    server.make(Pool.of(gpus(8)))
    todo = server.make(Pool.of(gpus(200)))
    assert len(todo.delete) == 1
    assert server.pools == [(2, 2)] * 2


def test_slices_of_a_pool_that_is_no_longer_published_are_deleted() -> None:
    server = Server()
    server.make(Pool.of(gpus(200)))
    server.make(None)
    assert server.slices == {}


def test_strays_and_old_generations_are_deleted_first() -> None:
    server = Server()
    server.make(Pool.of(gpus(8)))
    [name] = server.slices
    good = server.slices[name]
    stray = {"metadata": {"name": "00000-gpu.example.com-las1-abcde"}, "spec": good["spec"]}
    twin = {"metadata": {"name": "las1-gpu.example.com-zzzzz"}, "spec": good["spec"]}
    server.slices |= {s["metadata"]["name"]: s for s in (stray, twin)}
    todo = server.make(Pool.of(gpus(8)))
    assert {d["metadata"]["name"] for d in todo.delete} == {
        "00000-gpu.example.com-las1-abcde",
        "las1-gpu.example.com-zzzzz",
    }
    assert (todo.update, todo.create) == ([], [])


def test_network_attached_pools_name_no_node() -> None:
    selector = {"nodeSelectorTerms": [{"matchFields": []}]}
    todo = Server().make(Pool.of(gpus(1), node_selector=selector), name="rack", owner=None)
    [(_, created)] = todo.create
    assert created["spec"]["nodeSelector"] == selector
    assert "nodeName" not in created["spec"]
    assert created["metadata"] == {"generateName": "gpu.example.com-"}


def test_a_generation_that_the_driver_asks_for_is_reached() -> None:
    server = Server()
    server.make(Pool(slices=[Slice(devices=gpus(1))], generation=7))
    assert server.pools == [(7, 1)]


def test_counters_come_in_slices_of_their_own() -> None:
    pool = Pool.of(
        [Device(name="p", consumes=[Counters("set", {"memory": "1Gi"})])],
        counters=[Counters("set", {"memory": "8Gi"})],
    )
    server = Server()
    server.make(pool)
    counters, devices = (server.slices[n]["spec"] for n in sorted(server.slices))
    assert counters["sharedCounters"] == [{"name": "set", "counters": {"memory": {"value": "8Gi"}}}]
    assert "devices" not in counters
    assert devices["devices"][0]["consumesCounters"] == [
        {"counterSet": "set", "counters": {"memory": {"value": "1Gi"}}}
    ]


def test_rich_devices_take_more_slices() -> None:
    tainted = gpus(100, taints=[Taint("sick", "NoSchedule")])
    assert len(Pool.of(tainted).slices) == 2
    assert len(Pool.of(gpus(100)).slices) == 1


def test_the_time_of_a_taint_stays_what_the_server_made_it() -> None:
    server = Server()
    taint = Taint("sick", "NoExecute")
    server.make(Pool.of(gpus(1, taints=[taint])))
    [name] = server.slices
    stored = server.slices[name]["spec"]["devices"][0]
    stored["taints"] = [{**stored["taints"][0], "timeAdded": "2026-01-01T00:00:00Z"}]
    assert not server.make(Pool.of(gpus(1, taints=[taint])))
    server.make(Pool.of(gpus(2, taints=[taint])))
    assert server.slices[name]["spec"]["devices"][0]["taints"][0]["timeAdded"] == "2026-01-01T00:00:00Z"


def test_fields_that_the_server_dropped_are_not_written_again() -> None:
    from dray.driver.slices import content, wanted_spec

    server = Server()
    pool = Pool.of(
        [Device(name="d", many_allocations=True, capacity={"m": Capacity(value="1", default="1")})]
    )
    server.make(pool)
    [name] = server.slices
    wanted = content(wanted_spec(pool, 0))
    del server.slices[name]["spec"]["devices"][0]["allowMultipleAllocations"]
    existing = list(server.slices.values())
    again = plan(driver=DRIVER, name="las1", pool=pool, existing=existing, owner=NODE)
    assert len(again.update) == 1
    accepted = {0: (wanted, content(existing[0]["spec"]))}
    assert not plan(driver=DRIVER, name="las1", pool=pool, existing=existing, owner=NODE, accepted=accepted)


@given(st.lists(st.lists(st.integers(0, 400), max_size=2), min_size=1, max_size=6))
def test_any_sequence_of_changes_ends_in_a_complete_pool_of_one_generation(steps: list[list[int]]) -> None:
    server = Server()
    for sizes in steps:
        number = sum(sizes)
        server.make(Pool.of(gpus(number)))
        assert not server.make(Pool.of(gpus(number)))
        assert len(set(server.pools)) == 1
        assert server.pools[0][1] == len(server.slices)
        names = [
            d["name"] for n in sorted(server.slices) for d in server.slices[n]["spec"].get("devices", [])
        ]
        assert names == [f"gpu-{i}" for i in range(number)]
