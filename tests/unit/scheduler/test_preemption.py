"""What becomes of pods that have to make room for another one."""

from __future__ import annotations

import asyncio

import pytest

from dray.client.resources import PODS
from dray.placement.preemption import Candidate
from tests.support.fake_client import FakeClient, FakeRecorder, binding, conditional, writer
from tests.support.scheduler import pod


@pytest.mark.parametrize("names", [True, False])
def test_the_event_of_a_victim_refers_to_the_preemptor(names: bool) -> None:
    told = FakeRecorder()
    mighty, victim = pod("mighty"), pod("victim")
    work = writer(FakeClient(), told, refers_to_preemptor=names).preemption.preempt(
        mighty, Candidate("a", (victim,)), scheduler="default-scheduler"
    )
    asyncio.run(work)
    assert told.events == [("Preempted", (PODS, mighty.document) if names else None)]


def test_pods_of_lower_priority_lose_their_nomination_to_the_node() -> None:
    server = FakeClient()
    work = writer(server).preemption.preempt(
        pod("mighty"), Candidate("a", ()), scheduler="default-scheduler", lower_nominated=[pod("humble")]
    )
    asyncio.run(work)
    assert server.patched == [("humble", {"nominatedNodeName": None})]


@pytest.mark.parametrize("cancels_waiting_pods", [True, False])
def test_a_victim_that_waits_for_binding_conditions_is_cancelled_and_not_deleted(
    cancels_waiting_pods: bool,
) -> None:
    told, server, humble = FakeRecorder(), FakeClient(), pod("humble")
    work = writer(server, told, cancels_waiting_pods=cancels_waiting_pods)

    async def play() -> str:
        bound = asyncio.create_task(
            work.binder.bind(humble, "a", binding(work, humble, conditional(), binding_timeout=1e9))
        )
        await told.something.wait()
        await work.preemption.preempt(pod("mighty"), Candidate("a", (humble,)), scheduler="default-scheduler")
        if not cancels_waiting_pods:
            bound.cancel()
        [outcome] = await asyncio.gather(bound, return_exceptions=True)
        return str(outcome)

    outcome = asyncio.run(play())
    assert told.messages[-1].endswith("on node a (in kube-scheduler memory).") is cancels_waiting_pods
    assert ("humble" in server.deleted) is not cancels_waiting_pods
    if cancels_waiting_pods:
        assert outcome == 'running PreBind plugin "DynamicResources": preempted by DefaultPreemption'
