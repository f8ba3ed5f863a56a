"""What a failed binding cycle takes back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from dray.api.claims import EXTENDED_RESOURCE_ANNOTATION
from dray.api.errors import Invalid, NotFound, StatusError
from dray.scheduler.binding.claim_binding import BindingError
from tests.support.fake_client import ALLOCATION, FakeClient, binding, writer
from tests.support.scheduler import claim, pod


class Unavailable(StatusError):
    http_code = 503


def release(server: FakeClient, *, reserved_for: Sequence[str] = (), **metadata: object) -> None:
    """Bind a pod with an allocated claim c, which fails, and release its claims."""
    work, wanted = writer(server), pod("p")
    given = claim(
        "c", allocation=ALLOCATION, reservedFor=[{"resource": "pods", "uid": u} for u in reserved_for]
    )
    given["metadata"].update(metadata)
    claims = binding(work, wanted, given)

    async def play() -> None:
        claims.reserve()
        with pytest.raises(BindingError):
            await work.binder.bind(wanted, "a", claims)
        server.patched.clear()
        await claims.release()

    asyncio.run(play())


def unreserved(server: FakeClient) -> list[str]:
    return [name for name, status in server.patched if "reservedFor" in status]


def test_claims_that_were_reserved_are_unreserved_and_stay_allocated_for_the_next_attempt() -> None:
    server = FakeClient(bind=Unavailable("later"), get=Unavailable("later"))
    release(server)
    assert unreserved(server) == ["c"]
    assert server.claims[-1]["status"]["allocation"] == ALLOCATION


def test_a_pod_that_is_gone_leaves_no_allocation_behind() -> None:
    server = FakeClient(bind=NotFound("gone"), get=NotFound("gone"))
    release(server)
    assert server.claims[-1]["status"] == {"reservedFor": []}


def test_a_pod_that_is_gone_leaves_the_allocation_to_other_pods() -> None:
    server = FakeClient(bind=NotFound("gone"), get=NotFound("gone"))
    release(server, reserved_for=["other"])
    status = server.claims[-1]["status"]
    assert status["allocation"] == ALLOCATION
    assert [r["uid"] for r in status["reservedFor"]] == ["other"]


def test_the_claim_of_a_pod_that_is_gone_is_left_to_the_garbage_collector() -> None:
    server = FakeClient(bind=NotFound("gone"), get=NotFound("gone"))
    release(server, ownerReferences=[{"kind": "Pod", "name": "p", "uid": "u", "controller": True}])
    assert unreserved(server) == ["c"]


def test_a_claim_whose_reservation_was_refused_is_left_alone() -> None:
    server = FakeClient(update_status=Invalid("no"))
    release(server)
    assert unreserved(server) == []


def test_a_claim_whose_reservation_failed_in_the_server_may_be_reserved_and_is_unreserved() -> None:
    server = FakeClient(update_status=Unavailable("later"), get=Unavailable("later"))
    release(server)
    assert unreserved(server) == ["c"]


def test_a_claim_that_this_cycle_did_not_create_is_not_deleted_whatever_its_annotations() -> None:
    server = FakeClient(bind=NotFound("gone"), get=NotFound("gone"))
    release(server, annotations={EXTENDED_RESOURCE_ANNOTATION: "true"})
    assert server.deleted == []
