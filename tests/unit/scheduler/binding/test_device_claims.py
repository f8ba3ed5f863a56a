"""What a failed binding cycle takes back."""

from __future__ import annotations

import asyncio

import pytest

from dray.api.claims import EXTENDED_RESOURCE_ANNOTATION
from dray.api.errors import Invalid, NotFound, StatusError
from dray.scheduler.binding.claim_binding import BindingError
from tests.support.fake_client import ALLOCATION, FakeClient, binding, writer
from tests.support.scheduler import claim, pod


class Unavailable(StatusError):
    http_code = 503


def release(server: FakeClient, **metadata: object) -> None:
    """Bind a pod with an allocated claim c, which fails, and release its claims."""
    work, wanted = writer(server), pod("p")
    given = claim("c", allocation=ALLOCATION)
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


def test_claims_that_were_reserved_are_unreserved() -> None:
    server = FakeClient(bind=NotFound("gone"), get=NotFound("gone"))
    release(server)
    assert unreserved(server) == ["c"]


def test_a_claim_whose_reservation_was_refused_is_left_alone() -> None:
    server = FakeClient(update_status=Invalid("no"))
    release(server)
    assert unreserved(server) == []


def test_a_claim_whose_reservation_failed_in_the_server_may_be_reserved_and_is_unreserved() -> None:
    server = FakeClient(update_status=Unavailable("later"), get=NotFound("gone"))
    release(server)
    assert unreserved(server) == ["c"]


def test_a_claim_that_this_cycle_did_not_create_is_not_deleted_whatever_its_annotations() -> None:
    server = FakeClient(bind=NotFound("gone"), get=NotFound("gone"))
    release(server, annotations={EXTENDED_RESOURCE_ANNOTATION: "true"})
    assert unreserved(server) == ["c"]
    assert server.deleted == []
