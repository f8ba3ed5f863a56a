"""When device taints drive pods away."""

from __future__ import annotations

import pytest

from dray.api.times import from_epoch
from dray.controllers.devicetainteviction.eviction import (
    Eviction,
    Pool,
    PoolID,
    TaintRuleStats,
    TrackedTaint,
    claim_eviction,
    rule_condition,
    rule_selects,
)

T = 1_800_000_000.0
POOL = PoolID("d.example.com", "n")


def taint(effect: str = "NoExecute", *, key: str = "broken", value: str = "", added: float = T) -> dict:
    return {"key": key, "value": value, "effect": effect, "timeAdded": from_epoch(added)}


def slice_(name: str, devices: dict[str, list], *, generation: int = 1) -> dict:
    listed = [{"name": d, "taints": taints} for d, taints in devices.items()]
    pool = {"name": "n", "generation": generation, "resourceSliceCount": 1}
    return {"metadata": {"name": name}, "spec": {"driver": "d.example.com", "pool": pool, "devices": listed}}


def pool(*slices: dict) -> dict[PoolID, Pool]:
    found = Pool()
    for document in slices:
        found.set(document)
    return {POOL: found}


def result(device: str, *tolerations: dict) -> dict:
    return {"driver": "d.example.com", "pool": "n", "device": device, "tolerations": list(tolerations)}


def tolerate(*, seconds: int | None = None, effect: str = "NoExecute") -> dict:
    found = {"key": "broken", "operator": "Exists", "effect": effect}
    return found if seconds is None else {**found, "tolerationSeconds": seconds}


def rule(name: str, effect: str = "NoExecute", *, added: float = T, **selector: str) -> dict:
    spec = {"deviceSelector": selector, "taint": taint(effect, added=added)}
    return {"metadata": {"name": name, "uid": name, "generation": 1}, "spec": spec}


def test_only_the_effect_that_evicts_evicts():
    tainted = pool(slice_("s", {"a": [taint("NoSchedule")], "b": [taint("None")], "c": [taint()]}))
    assert claim_eviction([result("a"), result("b")], tainted, []) is None
    assert claim_eviction([result("c")], tainted, []) == Eviction(
        T, (TrackedTaint(True, driver="d.example.com", pool="n", device="c", position=0),)
    )


@pytest.mark.parametrize(
    ("tolerations", "when"),
    [
        ([], T),
        ([tolerate()], None),
        ([tolerate(seconds=30)], T + 30),
        ([tolerate(seconds=30), tolerate(seconds=10)], T + 10),
        ([tolerate(seconds=30), tolerate()], None),
        ([tolerate(seconds=-5)], T),
        ([tolerate(effect="")], T),
        ([tolerate(effect="NoSchedule")], T),
    ],
)
def test_tolerations_that_name_the_effect_give_time(tolerations, when):
    found = claim_eviction([result("a", *tolerations)], pool(slice_("s", {"a": [taint()]})), [])
    assert (found and found.when) == when


def test_the_earliest_of_several_taints_counts_and_all_are_told():
    tainted = pool(slice_("s", {"a": [taint(added=T + 9)], "b": [taint("NoSchedule"), taint(added=T + 5)]}))
    rules = [rule("z", driver="d.example.com", added=T + 7), rule("y", driver="d.example.com", added=T + 8)]
    found = claim_eviction([result("b"), result("a")], tainted, rules)
    assert found.when == T + 5
    assert [(r.rule, r.device, r.position) for r in found.reasons] == [
        ("y", "", 0), ("z", "", 0), ("", "a", 0), ("", "b", 1),
    ]  # fmt: skip


def test_reasons_of_several_claims_are_joined():
    one, other = TrackedTaint(False, rule="a"), TrackedTaint(False, rule="b")
    assert Eviction(5, (other,)).joined(Eviction(7, (one, other))) == Eviction(5, (one, other))


def test_a_rule_selects_by_whatever_it_names():
    device = ("d.example.com", "n", "a")
    assert rule_selects(rule("r"), *device), "an empty selector means every device"
    assert rule_selects(rule("r", driver="d.example.com", pool="n", device="a"), *device)
    assert not rule_selects(rule("r", driver="other.example.com"), *device)
    assert not rule_selects({"spec": {}}, *device), "no selector means none"


def test_only_the_newest_generation_of_a_pool_counts():
    found = Pool()
    assert list(found.set(slice_("old", {"a": [taint()]}))) == ["a"]
    assert list(found.set(slice_("new", {"b": [taint()]}, generation=2))) == ["a", "b"]
    assert list(found.tainted) == ["b"]
    assert sorted(found.remove("new")) == ["a", "b"]
    assert list(found.tainted) == ["a"]
    assert found.remove("old") and not found


def test_changes_that_leave_the_taints_alone_concern_nobody():
    found = Pool()
    assert not found.set(slice_("s", {"a": [], "b": [taint("NoSchedule")]}))
    found.set(slice_("s", {"a": [taint()]}))
    assert not found.set(slice_("s", {"a": [taint(), taint("NoSchedule")], "c": []}))
    assert found.set(slice_("s", {"a": [taint(value="other")]})) == ["a"]


def text(tally: TaintRuleStats, effect: str = "NoExecute") -> tuple[str, str, str]:
    found = rule_condition(rule("r", effect), tally, now="now")
    return found["status"], found["reason"], found["message"]


def test_a_rule_tells_how_far_it_got():
    assert text(TaintRuleStats()) == ("False", "NotStarted", "")
    assert text(TaintRuleStats(1, 1)) == (
        "True",
        "PodsPendingEviction",
        "1 pod needs to be evicted in 1 namespace.",
    )
    assert text(TaintRuleStats(3, 2, evicted=1)) == (
        "True",
        "PodsPendingEviction",
        "3 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller.",
    )
    assert text(TaintRuleStats(evicted=2)) == (
        "False",
        "Completed",
        "2 pods evicted since starting the controller.",
    )


def test_a_rule_without_effect_tells_what_it_would_do():
    assert text(TaintRuleStats(1, 1, published=8, allocated=1), "None") == (
        "False",
        "NoEffect",
        "8 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the "
        "effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger "
        "an update.",
    )
    assert text(TaintRuleStats(), "NoSchedule") == (
        "False", "OtherEffect", "Eviction only happens for the NoExecute effect.",
    )  # fmt: skip


def test_a_condition_that_is_right_is_not_written_again():
    told = rule("r")
    told["status"] = {"conditions": [rule_condition(told, TaintRuleStats(1, 1), now="then")]}
    assert rule_condition(told, TaintRuleStats(1, 1), now="now") is None
    assert rule_condition(told, TaintRuleStats(2, 1), now="now")["lastTransitionTime"] == "now"
