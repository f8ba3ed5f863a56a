"""What becomes of pods that have to make room for another one."""

from __future__ import annotations

import asyncio

import pytest

from dray.client.resources import PODS
from dray.scheduler.deciding import Bind
from dray.scheduler.preemption import Preempt

from .making import pod
from .writing import Server, Told, conditional, writer


@pytest.mark.parametrize("names", [True, False])
def test_whoever_is_preempted_is_referred_to_the_preemptor(names: bool) -> None:
    told = Told()
    mighty, victim = pod("mighty"), pod("victim")
    work = writer(Server(), told, names_preemptor=names).evictions.preempt(
        mighty, Preempt("a", (victim,)), scheduler="default-scheduler"
    )
    asyncio.run(work)
    assert told.events == [("Preempted", (PODS, mighty.document) if names else None)]


def test_less_important_pods_lose_the_node_that_is_taken_from_under_them() -> None:
    server = Server()
    work = writer(server).evictions.preempt(
        pod("mighty"), Preempt("a", ()), scheduler="default-scheduler", displaced=[pod("humble")]
    )
    asyncio.run(work)
    assert server.patched == [("humble", {"nominatedNodeName": None})]


@pytest.mark.parametrize("calls_back", [True, False])
def test_a_pod_that_waits_for_its_devices_loses_its_place_but_not_its_life(calls_back: bool) -> None:
    told, server, humble = Told(), Server(), pod("humble")
    work = writer(server, told, calls_back=calls_back)

    async def play() -> str:
        binding = asyncio.create_task(
            work.binder.bind(humble, Bind("a", claims=[conditional()]), binding_timeout=1e9)
        )
        await told.something.wait()
        await work.evictions.preempt(pod("mighty"), Preempt("a", (humble,)), scheduler="default-scheduler")
        if not calls_back:
            binding.cancel()
        [outcome] = await asyncio.gather(binding, return_exceptions=True)
        return str(outcome)

    outcome = asyncio.run(play())
    assert told.messages[-1].endswith("on node a (in kube-scheduler memory).") is calls_back
    assert ("humble" in server.deleted) is not calls_back
    if calls_back:
        assert outcome == 'running PreBind plugin "DynamicResources": preempted by DefaultPreemption'
