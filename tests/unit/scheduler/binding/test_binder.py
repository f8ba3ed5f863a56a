"""What is written and said while a pod is bound, and when that fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dray.api.errors import Conflict, Forbidden, Invalid, NotFound
from dray.placement.cache.claims import ClaimCache
from dray.scheduler.binding.claim_binding import BindingError
from dray.scheduler.writers import Writers
from tests.support.fake_client import ALLOCATION, FakeClient, FakeRecorder, binding, conditional, writer
from tests.support.scheduler import claim, pod


def bind(writers: Writers, *claims: dict[str, Any]) -> None:
    asyncio.run(writers.binder.bind(pod("p"), "a", binding(writers, pod("p"), *claims)))


def failure(server: FakeClient, *claims: dict[str, Any]) -> BindingError:
    with pytest.raises(BindingError) as caught:
        bind(writer(server), *claims)
    return caught.value


def test_the_error_of_a_claim_names_the_prebind_plugin() -> None:
    said = str(failure(FakeClient(update_status=Invalid("too many")), claim("c", allocation=ALLOCATION)))
    assert said == 'running PreBind plugin "DynamicResources": add reservation to claim default/c: too many'


def test_the_error_of_the_binding_names_the_bind_plugin() -> None:
    said = failure(FakeClient(bind=NotFound('pods "p" not found')))
    assert str(said) == 'running Bind plugin "DefaultBinder": pods "p" not found'


def test_the_error_names_a_claim_that_cannot_be_read_after_a_conflict() -> None:
    server = FakeClient(update_status=Conflict("changed"), get=Forbidden("no"))
    said = failure(server, claim("c", allocation=ALLOCATION))
    assert str(said).endswith('"DynamicResources": get updated claim default/c after conflict: no')


def test_a_pod_is_bound_even_if_its_nominated_node_name_cannot_be_set() -> None:
    told = FakeRecorder()
    server = FakeClient(patch_status=Conflict("later"))
    bind(writer(server, told), claim("c", allocation=ALLOCATION))
    assert [reason for reason, _ in told.events] == ["Scheduled"]


def test_the_message_of_a_failed_binding_condition_is_quoted() -> None:
    conditions = [{"type": "broken", "status": "True", "reason": "Oops", "message": 'it "broke"\n'}]
    failed = conditional(devices=[{"driver": "d", "pool": "p", "device": "x", "conditions": conditions}])
    assert str(failure(FakeClient(), failed)) == (
        'running PreBind plugin "DynamicResources": device binding failed: claim=c, reason=Oops, '
        'message="it \\"broke\\"\\n"'
    )


@pytest.mark.parametrize("dated", [True, False])
def test_an_allocation_of_somebody_else_is_dated_only_if_a_release_is_emulated(dated: bool) -> None:
    server = FakeClient()
    undated = claim("c", allocation={"devices": {"results": []}})
    bind(writer(server, dates_foreign_allocations=dated), undated)
    assert ("allocationTimestamp" in server.claims[0]["status"]["allocation"]) is dated


def test_the_error_of_a_failed_binding_carries_the_patched_pod() -> None:
    server = FakeClient(update_status=Invalid("no"))
    assert failure(server, claim("c", allocation=ALLOCATION)).patched_pod == {"metadata": {"name": "p"}}


def test_the_error_names_a_claim_that_is_deleted_while_its_devices_are_waited_for() -> None:
    told, claim_cache = FakeRecorder(), ClaimCache()
    work = writer(FakeClient(), told, claim_cache=claim_cache)
    waiting = conditional()

    async def play() -> None:
        claims = binding(work, pod("p"), waiting, binding_timeout=1e9)
        bound = asyncio.create_task(work.binder.bind(pod("p"), "a", claims))
        await told.something.wait()
        claim_cache.remove_claim(waiting)
        work.waiter.claims_changed()
        await bound

    with pytest.raises(BindingError, match='DynamicResources": could not find ResourceClaim "default/c"'):
        asyncio.run(play())
