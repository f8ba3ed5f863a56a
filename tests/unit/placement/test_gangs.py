"""Groups of pods: placed as a whole or not at all, jointly where one after the other fails."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.placement.cache.groups import GroupCache
from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.decision import decide
from dray.placement.gangs import Composite, Gang, GroupResult, GroupScheduler, pod_message
from dray.placement.group_preemption import GroupPreemption, NoVictims, Victims, whole_groups
from dray.placement.joint_search import IMPOSSIBLE, TOO_LONG, JointSearch
from dray.placement.outcome import Bind, Outcome
from dray.placement.quirks import PlacementQuirks
from tests.support.scheduler import Harness, claim, node, pod, reservation

UPSTREAM = PlacementQuirks(searches_jointly=False, groups_preempt_devices=False)


def group(cache: GroupCache, name: str = "g", *, least: int = 2, **spec: Any) -> Any:
    policy = {"gang": {"minCount": least}} if least else {"basic": {}}
    metadata = {"name": name, "namespace": "default", "uid": f"group-{name}"}
    return cache.set_group({"metadata": metadata, "spec": {"schedulingPolicy": policy, **spec}})  # type: ignore[typeddict-item]


class Stage(Harness):
    """Nodes with devices, on which groups are placed."""

    def member(self, *claims: dict[str, Any], cpu: str = "0", name: str = "", **spec: Any) -> PodInfo:
        requests = {"cpu": cpu}
        entries = [
            {"name": f"c{i}", "resourceClaimName": c["metadata"]["name"]} for i, c in enumerate(claims)
        ]
        for one in claims:
            self.claim_cache.set_claim(one)
        return pod(
            name, requests=requests, resourceClaims=entries, schedulingGroup={"podGroupName": "g"}, **spec
        )

    def scheduler(self) -> GroupScheduler:
        def try_pod(one: PodInfo, nodes: Sequence[NodeInfo] | None) -> Outcome:
            return decide(one, self.framework, nodes=nodes, in_group=True)

        # Without a clock: a search ends by its number of trials, however busy the machine is.
        return GroupScheduler(self.framework, self.claim_cache, try_pod, monotonic=lambda: 0.0)

    def schedule(
        self, members: Sequence[PodInfo], *, least: int | None = None, scheduled: int = 0, **spec: Any
    ) -> GroupResult:
        wanted = group(self.framework.groups, least=len(members) if least is None else least, **spec)
        return self.scheduler().schedule(Gang(wanted, tuple(members), scheduled))["g"]

    def is_untouched(self) -> bool:
        """Whether nothing is assumed."""
        nothing = all(not one.pods for one in self.cluster)
        return nothing and not self.claim_cache._recorded and not self.claim_cache._pending_allocations


def sized(*sizes: int) -> list[dict[str, Any]]:
    return [{"name": f"d{i}", "attributes": {"size": {"int": size}}} for i, size in enumerate(sizes)]


def at_least(size: int) -> dict[str, Any]:
    return claim(selector=f'device.attributes["gpu.example.com"].size >= {size}')


def test_a_gang_that_fits_is_placed_and_stays_assumed():
    stage = Stage({"a": ["d0", "d1"]})
    result = stage.schedule([stage.member(claim()) for _ in range(2)])
    assert result.placed and len(stage.cluster.pods_of_group("default", "g")) == 2
    given = [reservation(outcome).plan.results[0]["devices"]["results"][0]["device"] for outcome in result.outcomes.values()]  # fmt: skip
    assert sorted(given) == ["d0", "d1"]


def test_nothing_of_a_gang_that_does_not_fit_is_held():
    stage = Stage({"a": ["d0", "d1"]})
    members = [stage.member(claim()) for _ in range(3)]
    result = stage.schedule(members)
    assert result.message == "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    assert stage.is_untouched()
    said = [pod_message(result, one.uid, before_preemption=result.message) for one in members]
    assert said[0] == f"pod group is unschedulable, {result.message}"
    assert said[2] == "0/1 nodes are available: 1 cannot allocate all claims."


def test_members_beyond_the_least_number_get_what_is_left():
    stage = Stage({"a": ["d0", "d1"]})
    result = stage.schedule([stage.member(claim()) for _ in range(3)], least=2)
    assert result.placed
    assert [isinstance(outcome, Bind) for outcome in result.outcomes.values()] == [True, True, False]


def test_members_that_have_a_node_count():
    stage = Stage({"a": ["d0"]})
    assert stage.schedule([stage.member(claim())], least=3, scheduled=2).placed
    assert not Stage({"a": ["d0"]}).schedule([stage.member(claim())], least=3, scheduled=1).placed


@pytest.mark.parametrize("jointly", [True, False])
def test_a_joint_choice_of_devices_is_found_where_one_after_the_other_fails(jointly):
    """Any device will do for the first member, which gets the big one that the second needs."""
    stage = Stage({"a": sized(8, 1)}, quirks=None if jointly else UPSTREAM)
    result = stage.schedule([stage.member(at_least(1)), stage.member(at_least(8))])
    assert result.placed is jointly
    assert stage.is_untouched() is not jointly


@pytest.mark.parametrize("jointly", [True, False])
def test_a_joint_choice_of_nodes_is_found_where_one_after_the_other_fails(jointly):
    stage = Stage({"big": [], "small": []}, quirks=None if jointly else UPSTREAM)
    stage.cluster.set_node(node("big", cpu="4"))  # type: ignore[arg-type]
    stage.cluster.set_node(node("small", cpu="2"))  # type: ignore[arg-type]
    result = stage.schedule([stage.member(cpu="1500m"), stage.member(cpu="3")])
    assert result.placed is jointly


def test_members_that_share_a_claim_go_to_one_node():
    stage = Stage({"a": ["d0"], "b": ["d1"]})
    stage.cluster.set_node(node("a", cpu="1"))  # type: ignore[arg-type]
    shared = claim("shared")
    wanted = group(stage.framework.groups, resourceClaims=[{"name": "c0", "resourceClaimName": "shared"}])
    stage.framework.claims.groups = stage.framework.groups  # type: ignore[attr-defined]
    members = [stage.member(shared, cpu="1") for _ in range(2)]
    result = stage.scheduler().schedule(Gang(wanted, tuple(members), 0))["g"]
    assert {outcome.node for outcome in result.outcomes.values() if isinstance(outcome, Bind)} == {"b"}


def test_a_topology_key_keeps_a_group_together():
    stage = Stage({"a": [], "b": [], "c": []})
    for name, rack, cpu in (("a", "r1", "1"), ("b", "r2", "1"), ("c", "r2", "1")):
        stage.cluster.set_node(node(name, cpu=cpu, labels={"rack": rack}))  # type: ignore[arg-type]
    constraint = {"topology": [{"key": "rack"}]}
    result = stage.schedule([stage.member(cpu="1") for _ in range(2)], schedulingConstraints=constraint)
    assert {outcome.node for outcome in result.outcomes.values() if isinstance(outcome, Bind)} == {"b", "c"}
    missing = stage.schedule([stage.member(cpu="1")], schedulingConstraints={"topology": [{"key": "zone"}]})
    assert missing.message == "no feasible placements found"


def test_a_composite_needs_so_many_of_its_groups():
    stage = Stage({"a": ["d0", "d1"]})
    groups = stage.framework.groups
    document: Any = {
        "metadata": {"name": "root", "namespace": "default", "uid": "u"},
        "spec": {"schedulingPolicy": {"gang": {"minGroupCount": 2}}},
    }
    gangs = [
        Gang(group(groups, name, least=1, parentCompositePodGroupName="root"), (stage.member(claim()),), 0)
        for name in ("x", "y", "z")
    ]
    root = groups.set_composite(document)
    results = stage.scheduler().schedule(Composite(root, tuple(gangs)))
    assert [result.placed for result in results.values()] == [True, True, False]
    stage = Stage({"a": ["d0"]})
    gangs = [Gang(one.group, (stage.member(claim()),), 0) for one in gangs]
    results = stage.scheduler().schedule(Composite(root, tuple(gangs)))
    assert not any(result.placed for result in results.values()) and stage.is_untouched()


def test_a_gang_preempts_no_more_than_it_needs_and_whole_groups_where_they_ask_for_it():
    stage = Stage({"a": [], "b": []}, quirks=UPSTREAM)
    low = [pod(f"low-{i}", requests={"cpu": "2"}, priority=1) for i in range(4)]
    for i, one in enumerate(low):
        stage.cluster.add_pod(one, "ab"[i % 2])
    wanted = group(stage.framework.groups, least=1, priority=10)
    gang = Gang(wanted, (stage.member(cpu="2", priority=10),), 0)
    search = GroupPreemption(stage.framework, stage.claim_cache, stage.scheduler, tuple)
    found = search.find(gang)
    assert isinstance(found, Victims) and len(found.pods) == 1
    assert all(stage.cluster.node_of(one.uid) for one in low)
    together = [
        pod(f"t{i}", requests={"cpu": "0"}, schedulingGroup={"podGroupName": "all"}) for i in range(2)
    ]
    for one in together:
        stage.cluster.add_pod(one, "a")
    group(stage.framework.groups, "all", disruptionMode={"all": {}})
    assert len(whole_groups(together[:1], stage.cluster, stage.framework.groups)) == 2
    never = GroupPreemption(stage.framework, stage.claim_cache, stage.scheduler, tuple)
    group(stage.framework.groups, least=1, priority=0)
    nobody = never.find(Gang(group(stage.framework.groups, "first", least=1, priority=0), gang.members, 0))
    assert nobody == NoVictims("No preemption victims found for incoming preemptor", final=True)


def test_a_search_that_takes_too_long_ends():
    stage = Stage({name: sized(*range(4)) for name in "abcd"})
    members = [stage.member(at_least(i % 4)) for i in range(12)]
    assert JointSearch(stage.framework, stage.claim_cache, members, None, trials=5).find(12) == TOO_LONG


# -- against brute force

SIZES = st.lists(st.integers(1, 3), max_size=3)
NODES = st.lists(st.tuples(st.integers(1, 4), SIZES), min_size=1, max_size=3)
MEMBERS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 2, 3])), min_size=1, max_size=4)


def can_be_placed(
    nodes: Sequence[tuple[int, list[int]]], members: Sequence[tuple[int, int]], least: int
) -> bool:
    """Every way to put members on nodes, and every way to give them devices there."""
    for where in itertools.product(range(-1, len(nodes)), repeat=len(members)):
        if sum(at >= 0 for at in where) < least:
            continue
        if all(
            _node_takes(nodes[i], [m for m, at in zip(members, where, strict=True) if at == i])
            for i in range(len(nodes))
        ):
            return True
    return False


def _node_takes(one: tuple[int, list[int]], members: Sequence[tuple[int, int]]) -> bool:
    cpu, sizes = one
    wanted = [size for _, size in members if size]
    if sum(needs for needs, _ in members) > cpu or len(wanted) > len(sizes):
        return False
    return any(all(have >= want for have, want in zip(given_, wanted, strict=True)) for given_ in itertools.permutations(sizes, len(wanted)))  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(NODES, MEMBERS, st.integers(0, 3))
def test_a_gang_is_placed_exactly_where_brute_force_finds_a_way(nodes, members, spare):
    stage = Stage({f"n{i}": sized(*sizes) for i, (_, sizes) in enumerate(nodes)})
    for i, (cpu, _) in enumerate(nodes):
        stage.cluster.set_node(node(f"n{i}", cpu=str(cpu)))  # type: ignore[arg-type]
    pods = [stage.member(*([at_least(size)] if size else []), cpu=str(cpu)) for cpu, size in members]
    least = max(len(members) - spare, 1)
    result = stage.schedule(pods, least=least)
    assert result.placed is can_be_placed(nodes, members, least)
    if not result.placed:
        assert stage.is_untouched() and result.searched in (IMPOSSIBLE, "")
        return
    binds = [outcome for outcome in result.outcomes.values() if isinstance(outcome, Bind)]
    assert len(binds) >= least
    devices = [
        (r["pool"], r["device"])
        for bind in binds
        for allocation in reservation(bind).plan.results
        for r in allocation["devices"]["results"]
    ]
    assert len(devices) == len(set(devices)) and all(p == b.node for b in binds for a in reservation(b).plan.results for r in a["devices"]["results"] for p in (r["pool"],))  # fmt: skip
    for i, (cpu, _) in enumerate(nodes):
        on_node = stage.cluster.get(f"n{i}")
        assert on_node is not None and on_node.requested.cpu <= cpu * 1000
