"""Filters for remote callers: the maximum of requests in flight, and the timeout of a request.

Long-running requests such as watches are exempt from both. Callers in the same process have neither. Health checks and
the group ``system:masters`` are exempt from the maximum, and nobody else can have all of it: while half of the places
are taken, a user who has a quarter of them gets no other one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from dray.api.errors import BadRequest, Timeout, TooManyRequests
from dray.api.times import parse_duration
from dray.api.user import UserInfo
from dray.server.apiserver import APIServer
from dray.server.auth.user import MASTERS
from dray.server.endpoints.requestinfo import request_info
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responses import Response

_HEALTH: Final = ("/livez", "/readyz", "/healthz")
_READS: Final = frozenset({"get", "list", "watch"})


class RequestFilters:
    """An API as the network sees it."""

    def __init__(
        self, api: APIServer, *, read_only: int = 400, mutating: int = 400, seconds: float = 60.0
    ) -> None:
        self.api = api
        self._limits = {"readOnly": read_only, "mutating": mutating}
        self.in_flight = {"readOnly": 0, "mutating": 0}
        self.of_users: dict[str, dict[str, int]] = {kind: {} for kind in self.in_flight}
        self._alarms = _Alarms(seconds)
        api.metrics.registry.gauge(
            "apiserver_current_inflight_requests",
            "Requests that are being answered right now.",
            "request_kind",
            read=lambda: [((kind,), float(count)) for kind, count in self.in_flight.items()],
            stability="STABLE",
        )

    async def handle(self, request: Request) -> Response:
        info = request.info = request_info(request.method, request.path, request.query)
        if info.long_running:
            return await self.api.handle(request)
        if not info.resource and info.path.startswith(_HEALTH):
            return await self._in_time(request)
        place = _Place(self, "readOnly" if info.verb in _READS else "mutating")
        request.admit = place.take
        if request.receive is not None:
            request.receive = partial(place.wait_outside, request.receive)
        try:
            return await self._in_time(request)
        finally:
            place.leave()

    def has_place(self, kind: str, user: UserInfo) -> bool:
        taken, limit = self.in_flight[kind], self._limits[kind]
        if taken < limit // 2 or MASTERS in user.groups:
            return True
        return taken < limit and self.of_users[kind].get(user.name, 0) < max(limit // 4, 1)

    async def _in_time(self, request: Request) -> Response:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        alarm = _Alarm(task)
        seconds = _wanted_seconds(request)
        timer = None
        if 0 < seconds < self._alarms.seconds:
            timer = loop.call_later(seconds, alarm)
        else:
            self._alarms.set(alarm, loop)
        try:
            return await self.api.handle(request)
        except asyncio.CancelledError:
            if not alarm.rang or task.uncancel():  # somebody else wants the task to end, too
                raise
            raise Timeout(
                "Timeout: request did not complete within the allotted timeout",
                details={"retryAfterSeconds": 0},
            ) from None
        finally:
            if timer is None:
                self._alarms.stop(alarm)
            else:
                timer.cancel()


class _Place:
    """The place of one request among those in flight. It is taken once the caller is known."""

    __slots__ = ("_filters", "_kind", "_user")

    def __init__(self, filters: RequestFilters, kind: str) -> None:
        self._filters = filters
        self._kind = kind
        self._user: UserInfo | None = None

    def take(self, user: UserInfo) -> None:
        filters, kind = self._filters, self._kind
        if not filters.has_place(kind, user):
            filters.api.metrics.rejections.inc(kind)
            raise TooManyRequests(
                "the server has received too many requests and has asked us to try again later",
                details={"retryAfterSeconds": 1},
            )
        self._user = user
        filters.in_flight[kind] += 1
        users = filters.of_users[kind]
        users[user.name] = users.get(user.name, 0) + 1

    def leave(self) -> None:
        if self._user is None:
            return
        name, self._user = self._user.name, None
        self._filters.in_flight[self._kind] -= 1
        users = self._filters.of_users[self._kind]
        left = users.pop(name) - 1
        if left:
            users[name] = left

    async def wait_outside(self, receive: Callable[[], Awaitable[None]]) -> None:
        """A body may come slowly, and its request needs no place before it is there."""
        user = self._user
        self.leave()
        await receive()
        if user is not None:
            self.take(user)


class _Alarm:
    """Cancels a task whose time is up: what ``asyncio.timeout`` does, at a fifth of its price for every request."""

    __slots__ = ("_task", "rang")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self.rang = False

    def __call__(self) -> None:
        self.rang = True
        self._task.cancel()


class _Alarms:
    """Alarms that ring after the same time. One timer of the loop serves them all: a timer for each request was a
    twelfth of what creating a pod takes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._due: dict[_Alarm, float] = {}  # in order
        self._timer: asyncio.TimerHandle | None = None

    def set(self, alarm: _Alarm, loop: asyncio.AbstractEventLoop) -> None:
        self._due[alarm] = at = loop.time() + self.seconds
        if self._timer is None:
            self._timer = loop.call_at(at, self._ring)

    def stop(self, alarm: _Alarm) -> None:
        self._due.pop(alarm, None)

    def _ring(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer, now = None, loop.time()
        for alarm, at in list(self._due.items()):
            if at > now:
                self._timer = loop.call_at(at, self._ring)
                return
            del self._due[alarm]
            alarm()


def _wanted_seconds(request: Request) -> float:
    """How long the request may take at most, if its client says so; else 0."""
    if not request.query or not (text := request.query.get("timeout")):
        return 0
    try:
        return parse_duration(text) / 1e9
    except ValueError as e:
        raise BadRequest(f"invalid timeout specified in the request URL - {e}") from None
