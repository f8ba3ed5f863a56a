"""Nodes that look the same share one answer, and it is the one each of them would give."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.identity import ObjectKey
from dray.explain.explainer import explain_pod
from dray.explain.nodes import trial as nodes_trial
from dray.explain.nodes.trial import DeviceOutcome, Trial, evaluate_nodes
from tests.support.explain import Doc, claim, cluster, device, device_class, node, pod, slice_

MODEL = 'device.attributes["gpu.example.com"].model'
SELECTORS = (f'{MODEL} == "A100"', f'{MODEL} != "A100"', 'device.driver == "gpu.example.com"')


@st.composite
def worlds(draw: st.DrawFn) -> list[Doc]:
    """Some nodes with a few devices each, alike or not; some devices taken, tainted, or without a model."""
    made: list[Doc] = [device_class()]
    for n in range(draw(st.integers(1, 6))):
        devices = []
        for d in range(draw(st.integers(1, 3))):
            one = device(f"d{d}", draw(st.sampled_from(["A100", "L4"])))
            one["attributes"]["root"] = {"int": draw(st.integers(0, 1))}
            one["attributes"]["uuid"] = {"string": f"{n}-{d}"}
            match draw(st.sampled_from(["plain", "plain", "tainted", "nameless", "taken"])):
                case "tainted":
                    one["taints"] = [
                        {"key": "k", "effect": "NoSchedule", "timeAdded": f"2026-01-0{n + 1}T00:00:00Z"}
                    ]
                case "nameless":
                    del one["attributes"]["model"]
                case "taken":
                    made.append(claim(f"taken-{n}-{d}", taken=(f"n{n}/d{d}",)))
            devices.append(one)
        made += [node(f"n{n}"), slice_(f"n{n}", *devices, count=draw(st.sampled_from([1, 1, 1, 2])))]
    sources = draw(st.lists(st.sampled_from(SELECTORS), max_size=2, unique=True))
    wanted = claim("c", *sources, count=draw(st.integers(1, 3)))
    if draw(st.booleans()):
        wanted["spec"]["devices"]["constraints"] = [{"matchAttribute": "gpu.example.com/root"}]
    return [*made, wanted, pod("p", "c")]


def essence(answer: DeviceOutcome) -> Any:
    """What an answer says apart from the names of devices, claims and pools."""
    if answer.reasons is None:
        return answer.plan is not None, bool(answer.error)
    requests = [
        (r.usable, r.considered, sorted((one.cause.value, one.count) for one in r.removals))
        for r in answer.reasons.requests
    ]
    return answer.plan is not None, bool(answer.error), requests, answer.reasons.together


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_equivalent_nodes_have_the_outcome_each_has_by_itself(documents: list[Doc]) -> None:
    world = cluster(*documents)
    trial = Trial(world, world.pods[ObjectKey("default", "p")], [world.claims[ObjectKey("default", "c")]])
    for outcome in evaluate_nodes(world, trial):
        own = trial.evaluate(world.nodes[outcome.node], world.usage)
        assert (essence(outcome.device_outcome), outcome.fits) == (essence(own.device_outcome), own.fits)


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_devices_of_the_whole_cluster_are_counted_once_each(documents: list[Doc]) -> None:
    found = explain_pod(cluster(*documents), ObjectKey("default", "p"))
    devices = sum(len(d["spec"]["devices"]) for d in documents if d["kind"] == "ResourceSlice")
    for story in found.requests:
        assert story.considered == devices
        assert story.usable + sum(removed.count for removed in story.removed) == devices


def test_equivalent_nodes_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = 0
    allocate = nodes_trial.allocate

    def counting(*arguments: Any, **options: Any) -> Any:
        nonlocal searches
        searches += 1
        return allocate(*arguments, **options)

    monkeypatch.setattr(nodes_trial, "allocate", counting)
    world = [d for i in range(200) for d in (node(f"n{i}"), slice_(f"n{i}", device("a"), device("b", "L4")))]
    wanted = claim("c", count=2)
    wanted["spec"]["devices"]["constraints"] = [{"matchAttribute": "gpu.example.com/model"}]
    found = explain_pod(cluster(*world, device_class(), wanted, pod("p", "c")), ObjectKey("default", "p"))
    assert [group.count for group in found.nodes] == [200]
    assert "constraint #0 over gpu.example.com/model cannot be met" in found.headline
    assert searches <= 2  # one for all, and one for the node that is told about
