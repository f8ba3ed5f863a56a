"""A small API server in memory for the client's tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dray.api import errors
from dray.api.scheme.kinds import Object
from dray.client.client import Client
from dray.client.transport import Reply, WatchEvent, WatchStream


class FakeServer:
    """A transport and the server behind it: objects by path, versions, watches that can be made to fail."""

    def __init__(self) -> None:
        self.version = 10
        self.objects: dict[str, Object] = {}
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.failures: list[Exception] = []  # raised one by one, by the next requests and watches
        self.history: list[tuple[int, str, WatchEvent]] = []
        self.oldest = 0
        self.streams: set[asyncio.Queue[list[WatchEvent] | Exception | None]] = set()
        self.page_limit = 0

    # Changing things behind the client's back

    def put(self, path: str, obj: Object) -> Object:
        self.version += 1
        collection, _, name = path.rpartition("/")
        known = path in self.objects
        metadata = {**obj.get("metadata", {}), "name": name, "resourceVersion": str(self.version)}
        self.objects[path] = {**obj, "metadata": metadata}
        self._tell(collection, WatchEvent("MODIFIED" if known else "ADDED", self.objects[path]))
        return self.objects[path]

    def remove(self, path: str) -> Object:
        self.version += 1
        gone = self.objects.pop(path)
        gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
        self._tell(path.rpartition("/")[0], WatchEvent("DELETED", gone))
        return gone

    def bookmark(self) -> None:
        self.version += 1
        self._send([WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})])

    def end_watches(self, error: Exception | None = None) -> None:
        for stream in self.streams:
            stream.put_nowait(error)

    def forget_history(self) -> None:
        self.oldest = self.version

    def _tell(self, collection: str, event: WatchEvent) -> None:
        self.history.append((self.version, collection, event))
        self._send([event])

    def _send(self, events: list[WatchEvent]) -> None:
        for stream in self.streams:
            stream.put_nowait(events)

    # The transport

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = None,
    ) -> Reply:
        await asyncio.sleep(0)
        self.requests.append((method, path, dict(query or {}), body))
        if self.failures:
            raise self.failures.pop(0)
        return Reply(200, {}, self._answer(method, path, dict(query or {}), body))

    def _answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Object:
        name = path.rpartition("/")[2]
        match method:
            case "GET" if path in self.objects:
                return self.objects[path]
            case "GET" if (
                not any(key.rpartition("/")[0] == path for key in self.objects) and "limit" not in query
            ):
                raise errors.not_found("things", "", name)
            case "GET":
                return self._list(path, query)
            case "POST":
                target = f"{path}/{body['metadata']['name']}"
                if target in self.objects:
                    raise errors.already_exists("things", "", body["metadata"]["name"])
                return self.put(target, body)
            case "PUT":
                current = self.objects.get(path)
                if current is None:
                    raise errors.not_found("things", "", name)
                if body["metadata"].get("resourceVersion") not in (
                    None,
                    current["metadata"]["resourceVersion"],
                ):
                    raise errors.conflict("things", "", name, "the object has been modified")
                return self.put(path, body)
            case "PATCH":
                if path not in self.objects:
                    raise errors.not_found("things", "", name)
                return self.put(path, {**self.objects[path], **body})
            case "DELETE":
                if path not in self.objects:
                    raise errors.not_found("things", "", name)
                return self.remove(path)
        raise errors.MethodNotAllowed(method)

    def _list(self, path: str, query: dict[str, str]) -> Object:
        items = [obj for key, obj in sorted(self.objects.items()) if key.rpartition("/")[0] == path]
        start = int(query.get("continue", 0))
        if start and self.oldest == self.version:
            raise errors.Expired("the continue token is too old")
        limit = int(query.get("limit", 0)) or len(items)
        metadata = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            metadata["continue"] = str(start + limit)
        return {"kind": "List", "metadata": metadata, "items": items[start : start + limit]}

    @asynccontextmanager
    async def watch(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[WatchStream]:
        query = dict(query or {})
        self.requests.append(("WATCH", path, query, None))
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        stream: asyncio.Queue[list[WatchEvent] | Exception | None] = asyncio.Queue()
        if query.get("sendInitialEvents") == "true":
            listed = self._list(path, {})
            end = {"resourceVersion": str(self.version), "annotations": {"k8s.io/initial-events-end": "true"}}
            stream.put_nowait([WatchEvent("ADDED", obj) for obj in listed["items"]])
            stream.put_nowait([WatchEvent("BOOKMARK", {"metadata": end})])
        else:
            after = int(query["resourceVersion"])
            if after < self.oldest:
                raise errors.Expired("too old resource version")
            missed = [event for version, where, event in self.history if version > after and where == path]
            if missed:
                stream.put_nowait(missed)
        self.streams.add(stream)
        try:
            yield _batches(stream)
        finally:
            self.streams.discard(stream)

    async def close(self) -> None:
        pass


async def _batches(stream: asyncio.Queue[list[WatchEvent] | Exception | None]) -> WatchStream:
    while (item := await stream.get()) is not None:
        if isinstance(item, Exception):
            raise item
        yield item


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def client(server: FakeServer) -> Client:
    return Client(server)  # type: ignore[arg-type]


class FakeTimers:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self._calls: list[tuple[float, int, _Call]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> _Call:
        call = _Call(callback, args)
        self._calls.append((self.now + delay, len(self._calls), call))
        return call

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = sorted(entry for entry in self._calls if entry[0] <= self.now + 1e-9)
        self._calls = [entry for entry in self._calls if entry not in due]
        for _, _, call in due:
            call()


class _Call:
    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._callback, self._args, self._cancelled = callback, args, False

    def cancel(self) -> None:
        self._cancelled = True

    def __call__(self) -> None:
        if not self._cancelled:
            self._callback(*self._args)


@pytest.fixture
def timers() -> FakeTimers:
    return FakeTimers()
