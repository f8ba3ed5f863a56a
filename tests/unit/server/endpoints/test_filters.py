from __future__ import annotations

import asyncio

import pytest

from dray.api.errors import BadRequest, Timeout, TooManyRequests
from dray.api.user import UserInfo
from dray.server.apiserver import text_not_found
from dray.server.endpoints.filters import RequestFilters
from dray.server.endpoints.requestinfo import RequestInfo
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responses import Response
from dray.wire.messages import Query
from tests.support.apiserver import ROOT, make_server

MAPS = "/api/v1/namespaces/default/configmaps"


class Known:
    """Takes everybody for the same user."""

    def __init__(self, user: UserInfo) -> None:
        self.user = user

    def authenticate(self, request: Request) -> UserInfo:
        return self.user


def get(query: str = "") -> Request:
    return Request("GET", MAPS, Query(query), user=ROOT)


async def test_beyond_the_bound_clients_are_asked_to_come_back():
    server = await make_server()
    server.api.authenticator = Known(UserInfo("a"))  # type: ignore[assignment]
    limited = RequestFilters(server.api, read_only=1)
    limited.in_flight["readOnly"] = 1
    with pytest.raises(TooManyRequests) as refused:
        await limited.handle(Request("GET", MAPS))
    assert refused.value.details == {"retryAfterSeconds": 1}
    assert (await limited.handle(Request("GET", MAPS, Query("watch=1")))).code == 200
    assert (await limited.handle(Request("GET", "/livez"))).code == 200
    assert (await limited.handle(Request("POST", MAPS, body={"metadata": {"name": "a"}}))).code == 201
    assert limited.in_flight == {"readOnly": 1, "mutating": 0}


async def test_one_user_cannot_take_every_place():
    server = await make_server()
    known = Known(UserInfo("hog"))
    server.api.authenticator = known  # type: ignore[assignment]
    limited = RequestFilters(server.api, read_only=40)
    go_on = asyncio.Event()

    async def wait(request: Request, info: RequestInfo) -> Response:
        await go_on.wait()
        return text_not_found()

    server.api.path_handlers["/slow"] = wait
    waiting = [asyncio.create_task(limited.handle(Request("GET", "/slow"))) for _ in range(60)]
    await asyncio.sleep(0.05)
    refused = [task for task in waiting if task.done()]
    assert limited.in_flight["readOnly"] == 20
    assert {type(task.exception()) for task in refused} == {TooManyRequests}
    for user in (UserInfo("other"), ROOT):
        known.user = user
        assert (await limited.handle(Request("GET", MAPS))).code == 200
    go_on.set()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert limited.in_flight["readOnly"] == 0
    assert not limited.of_users["readOnly"]


async def test_a_request_that_takes_too_long_is_given_up():
    server = await make_server()

    async def never(request: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    limited = RequestFilters(server.api)
    server.api.handle = never  # type: ignore[method-assign]
    with pytest.raises(Timeout, match="request did not complete within the allotted timeout"):
        await limited.handle(get("timeout=10ms"))
    assert limited.in_flight["readOnly"] == 0


async def test_a_request_whose_client_is_gone_is_not_told_of_a_timeout():
    server = await make_server()
    began = asyncio.Event()

    async def never(request: Request) -> Response:
        began.set()
        await asyncio.Event().wait()
        raise AssertionError

    limited = RequestFilters(server.api)
    server.api.handle = never  # type: ignore[method-assign]
    serving = asyncio.create_task(limited.handle(get()))
    await began.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert limited.in_flight["readOnly"] == 0


async def test_a_timeout_must_be_a_duration():
    limited = RequestFilters((await make_server()).api)
    with pytest.raises(BadRequest, match="invalid timeout specified in the request URL"):
        await limited.handle(get("timeout=soon"))


async def test_a_request_that_takes_longer_than_all_may_is_ended_whatever_became_of_others():
    server = await make_server()
    filters = RequestFilters(server.api, seconds=0.05)
    ended: list[str] = []

    async def handle(request: Request) -> Response:
        if request.path == MAPS:
            try:
                await asyncio.sleep(30)
            finally:
                ended.append(request.path)
        return text_not_found()

    server.api.handle = handle  # type: ignore[method-assign]
    for _ in range(2):  # the second time after the timer of the first has rung
        quick = asyncio.create_task(filters.handle(Request("GET", "/apis/apps/v1/deployments", user=ROOT)))
        slow = [asyncio.create_task(filters.handle(get())) for _ in range(2)]
        await asyncio.sleep(0.02)
        slow.append(asyncio.create_task(filters.handle(get())))
        assert (await quick).code == 404
        for task in slow:
            with pytest.raises(Timeout):
                await asyncio.wait_for(task, 5)
    assert len(ended) == 6
