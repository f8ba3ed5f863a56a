"""What is written and said while a pod is bound, and when that fails."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from dray.api.errors import Conflict, Forbidden, Invalid, NotFound
from dray.client.client import Client
from dray.client.resources import PODS
from dray.scheduler.binding import BindingError, Nominate, Writer
from dray.scheduler.deciding import Bind
from dray.scheduler.ledger import Ledger
from dray.scheduler.metrics import Metrics
from dray.scheduler.preemption import Preempt

from .making import claim, pod


class Server:
    """Answers a writer's calls; ``refuse`` says which of them end in an error."""

    def __init__(self, **refuse: Exception) -> None:
        self.refuse = refuse
        self.patched: list[tuple[str, dict[str, Any]]] = []
        self.deleted: list[str] = []
        self.claims: list[dict[str, Any]] = []

    async def patch_status(self, resource: Any, namespace: str, name: str, patch: Any, **_: Any) -> Any:
        self._perhaps("patch_status")
        self.patched.append((name, patch["status"]))
        return {"metadata": {"name": name}}

    async def update(self, resource: Any, namespace: str, document: Any, **_: Any) -> Any:
        self._perhaps("update")
        return document

    async def update_status(self, resource: Any, namespace: str, document: Any, **_: Any) -> Any:
        self._perhaps("update_status")
        self.claims.append(document)
        return document

    async def get(self, resource: Any, namespace: str, name: str) -> Any:
        self._perhaps("get")
        raise AssertionError("not asked for")

    async def bind(self, namespace: str, name: str, node: str, *, uid: str) -> None:
        self._perhaps("bind")

    async def delete(self, resource: Any, namespace: str, name: str, **_: Any) -> None:
        self._perhaps("delete")
        self.deleted.append(name)

    def _perhaps(self, verb: str) -> None:
        if verb in self.refuse:
            raise self.refuse[verb]


class Told:
    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self.messages: list[str] = []
        self.something = asyncio.Event()

    def event(self, resource: Any, obj: Any, type: str, reason: str, message: str, **more: Any) -> None:
        self.events.append((reason, more.get("related")))
        self.messages.append(message)
        self.something.set()


def writer(server: Server, told: Told | None = None, ledger: Ledger | None = None, **options: Any) -> Writer:
    return Writer(
        cast(Client, server), ledger or Ledger(), told or Told(), binding_conditions=True, nominate=Nominate.ALWAYS,
        metrics=Metrics(), **options,
    )  # fmt: skip


def failure(server: Server, decision: Bind) -> str:
    with pytest.raises(BindingError) as caught:
        asyncio.run(writer(server).bind(pod("p"), decision, binding_timeout=1.0))
    return str(caught.value)


ALLOCATION = {"devices": {"results": []}, "allocationTimestamp": "2026-01-01T00:00:00Z"}


def test_what_a_claim_fails_with_is_put_down_to_the_plugin_for_claims() -> None:
    decision = Bind("a", claims=[claim("c", allocation=ALLOCATION)])
    said = failure(Server(update_status=Invalid("too many")), decision)
    assert said == 'running PreBind plugin "DynamicResources": add reservation to claim default/c: too many'


def test_what_the_binding_itself_fails_with_is_put_down_to_the_binder() -> None:
    said = failure(Server(bind=NotFound('pods "p" not found')), Bind("a"))
    assert said == 'running Bind plugin "DefaultBinder": pods "p" not found'


def test_a_claim_that_cannot_be_read_after_a_conflict_is_named() -> None:
    server = Server(update_status=Conflict("changed"), get=Forbidden("no"))
    said = failure(server, Bind("a", claims=[claim("c", allocation=ALLOCATION)]))
    assert said.endswith('"DynamicResources": get updated claim default/c after conflict: no')


def test_a_node_that_cannot_be_announced_is_bound_to_all_the_same() -> None:
    told = Told()
    server = Server(patch_status=Conflict("later"))
    decision = Bind("a", claims=[claim("c", allocation=ALLOCATION)])
    asyncio.run(writer(server, told).bind(pod("p"), decision, binding_timeout=1.0))
    assert [reason for reason, _ in told.events] == ["Scheduled"]


@pytest.mark.parametrize("tracks", [True, False])
def test_conditions_tell_the_generation_they_are_about_where_that_is_tracked(tracks: bool) -> None:
    server = Server()
    wanted = pod("p", metadata={"generation": 3})
    told = writer(server, observes_generation=tracks)
    asyncio.run(told.report(wanted, reason="Unschedulable", message="no", nominated=None))
    [(_, status)] = server.patched
    assert status["conditions"][0].get("observedGeneration") == (3 if tracks else None)


@pytest.mark.parametrize("names", [True, False])
def test_whoever_is_preempted_is_referred_to_the_preemptor(names: bool) -> None:
    told = Told()
    mighty, victim = pod("mighty"), pod("victim")
    work = writer(Server(), told, names_preemptor=names).preempt(
        mighty, Preempt("a", (victim,)), scheduler="default-scheduler"
    )
    asyncio.run(work)
    assert told.events == [("Preempted", (PODS, mighty.document) if names else None)]


def test_less_important_pods_lose_the_node_that_is_taken_from_under_them() -> None:
    server = Server()
    work = writer(server).preempt(
        pod("mighty"), Preempt("a", ()), scheduler="default-scheduler", displaced=[pod("humble")]
    )
    asyncio.run(work)
    assert server.patched == [("humble", {"nominatedNodeName": None})]


def conditional(**status: Any) -> dict[str, Any]:
    """A claim whose device has to be made ready for its node."""
    result = {
        "driver": "d", "pool": "p", "device": "x", "request": "r",
        "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"],
    }  # fmt: skip
    return claim("c", allocation={**ALLOCATION, "devices": {"results": [result]}}, **status)


@pytest.mark.parametrize("calls_back", [True, False])
def test_a_pod_that_waits_for_its_devices_loses_its_place_but_not_its_life(calls_back: bool) -> None:
    told, server, humble = Told(), Server(), pod("humble")
    work = writer(server, told, calls_back=calls_back)

    async def play() -> str:
        binding = asyncio.create_task(
            work.bind(humble, Bind("a", claims=[conditional()]), binding_timeout=1e9)
        )
        await told.something.wait()
        await work.preempt(pod("mighty"), Preempt("a", (humble,)), scheduler="default-scheduler")
        if not calls_back:
            binding.cancel()
        [outcome] = await asyncio.gather(binding, return_exceptions=True)
        return str(outcome)

    outcome = asyncio.run(play())
    assert told.messages[-1].endswith("on node a (in kube-scheduler memory).") is calls_back
    assert ("humble" in server.deleted) is not calls_back
    if calls_back:
        assert outcome == 'running PreBind plugin "DynamicResources": preempted by DefaultPreemption'


def test_what_a_driver_says_of_a_failure_is_quoted() -> None:
    conditions = [{"type": "broken", "status": "True", "reason": "Oops", "message": 'it "broke"\n'}]
    failed = conditional(devices=[{"driver": "d", "pool": "p", "device": "x", "conditions": conditions}])
    assert failure(Server(), Bind("a", claims=[failed])) == (
        'running PreBind plugin "DynamicResources": device binding failed: claim=c, reason=Oops, '
        'message="it \\"broke\\"\\n"'
    )


@pytest.mark.parametrize("dates_all", [True, False])
def test_an_allocation_of_somebody_else_is_dated_only_as_in_1_36(dates_all: bool) -> None:
    server = Server()
    undated = claim("c", allocation={"devices": {"results": []}})
    work = writer(server, dates_all=dates_all)
    asyncio.run(work.bind(pod("p"), Bind("a", claims=[undated]), binding_timeout=1.0))
    assert ("allocationTimestamp" in server.claims[0]["status"]["allocation"]) is dates_all


def test_a_failed_binding_tells_what_it_has_made_of_the_pod() -> None:
    server = Server(update_status=Invalid("no"))
    work = writer(server).bind(
        pod("p"), Bind("a", claims=[claim("c", allocation=ALLOCATION)]), binding_timeout=1.0
    )
    with pytest.raises(BindingError) as caught:
        asyncio.run(work)
    assert caught.value.announced == {"metadata": {"name": "p"}}


def test_a_claim_that_goes_while_its_devices_are_waited_for_is_named() -> None:
    told, ledger = Told(), Ledger()
    work = writer(Server(), told, ledger=ledger)
    waiting = conditional()

    async def play() -> None:
        binding = asyncio.create_task(work.bind(pod("p"), Bind("a", claims=[waiting]), binding_timeout=1e9))
        await told.something.wait()
        ledger.remove_claim(waiting)
        work.claims_changed()
        await binding

    with pytest.raises(BindingError, match='DynamicResources": could not find ResourceClaim "default/c"'):
        asyncio.run(play())
