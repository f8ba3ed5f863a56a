"""Clients that write, read, list and watch through any of the servers, and write down what they did and saw."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp
import msgspec

from .history import Event, History, Listing, Operation, Outcome, Verb, Version, Watch

_DEFINITE: dict[int, Outcome] = {200: "ok", 201: "ok", 404: "not found"}
#: Refused before anything was done.
_TRY_AGAIN = (429, 401, 403)
_ATTEMPT = 5.0
_encode = msgspec.json.encode
_decode = msgspec.json.decode


@dataclass
class Client:
    """One client that stays with a server until it fails, or until it feels like another one."""

    session: aiohttp.ClientSession
    urls: Sequence[str]
    rng: random.Random
    restlessness: float = 0.02

    def __post_init__(self) -> None:
        self._url = self.rng.choice(self.urls)

    async def request(
        self, method: str, path: str, body: Any = None, *, content: str = "application/json"
    ) -> tuple[int, Any]:
        """Status and answer; 0 where there was none, and nothing is known about what was done."""
        if self.rng.random() < self.restlessness:
            self._url = self.rng.choice(self.urls)
        try:
            async with (
                asyncio.timeout(_ATTEMPT),
                self.session.request(
                    method, self._url + path, data=None if body is None else _encode(body),
                    headers={"Content-Type": content},
                ) as answer,
            ):  # fmt: skip
                return answer.status, _decode(await answer.read())
        except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError):
            self._url = self.rng.choice(self.urls)
            return 0, None

    async def insist(
        self, method: str, path: str, body: Any = None, *, content: str = "application/json"
    ) -> tuple[int, Any]:
        """Ask until there is an answer of substance. Only for requests that may be repeated."""
        while True:
            status, answer = await self.request(method, path, body, content=content)
            if 200 <= status < 300 or status in (404, 409):
                return status, answer
            await asyncio.sleep(0.1)

    async def watch(self, path: str, revision: int, *, seconds: int) -> AsyncIterator[Any]:
        """The events of one connection, which the server ends after so many seconds, with a bookmark shortly before."""
        query = (
            f"{'&' if '?' in path else '?'}watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}"
            f"&resourceVersion={revision}"
        )
        timeout = aiohttp.ClientTimeout(total=None, connect=_ATTEMPT, sock_read=20)
        try:
            async with self.session.get(self._url + path + query, timeout=timeout) as answer:
                if answer.status == 410:
                    self._url = self.rng.choice(self.urls)
                    yield {"type": "ERROR", "object": {"code": 410}}
                    return
                async for line in answer.content:
                    yield _decode(line)
        except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError):
            pass
        self._url = self.rng.choice(self.urls)


def watch_seconds(rng: random.Random) -> int:
    """How long a watch asks to last. The server sends a bookmark each minute and shortly before the end: only watches that
    are short see one between two faults."""
    return rng.randint(5, 15)


#: After so many operations the load turns to other objects, so that the history of each can be searched. The old ones
#: are deleted, or the lists of a long run would hold little else.
GENERATION = 5000


class ConfigMapLoad:
    """Operations on a few config maps, so that clients meet often."""

    PATH = "/api/v1/namespaces/default/configmaps"

    def __init__(
        self, history: History, connect: Callable[[random.Random], Client], *, keys: int, prefix: str
    ) -> None:
        self._history, self._connect = history, connect
        self._keys = keys
        self.selector = f"labelSelector=robustness%3D{prefix}"
        self._prefix = prefix
        self.done = self.succeeded = 0
        self.lasted = 0  # watches that ended at their time
        self.seen: Counter[str] = Counter()  # the newest revision that each watcher was told of
        self._generation = 0
        self._left: list[str] = []  # objects of earlier generations that nobody has deleted yet

    async def write(self, name: str, rng: random.Random, operations: Callable[[], bool]) -> None:
        """One writer, until ``operations`` says that there were enough."""
        client = self._connect(rng)
        seen: dict[str, int] = {}
        number = 0
        while operations():
            key, verb = self._next(rng)
            number += 1
            value = f"{name}-{number}"
            expected = seen.get(key, 0) if verb in ("update", "delete") and rng.random() < 0.7 else 0
            called = time.monotonic()
            status, answer = await self._send(client, verb, key, value, expected)
            outcome = _outcome(verb, status)
            if outcome is None:  # refused at the door
                await asyncio.sleep(0.05)
                continue
            given = Version(value, 0)
            if outcome == "ok" and verb != "delete":
                given = _version(answer)
                seen[key] = given.revision
            self.done += 1
            self.succeeded += outcome == "ok"
            self._history.operations.append(
                Operation(
                    client=name, key=key, verb=verb, called=called, returned=time.monotonic(), outcome=outcome,
                    value=given.value, revision=given.revision, expected=expected,
                )
            )  # fmt: skip
            if outcome == "unknown":
                await asyncio.sleep(0.1)

    def _next(self, rng: random.Random) -> tuple[str, Verb]:
        if (generation := self.done // GENERATION) > self._generation:
            self._left += (self._key(self._generation, number) for number in range(self._keys))
            self._generation = generation
        if self._left:
            return self._left.pop(), "delete"
        verb: Verb = rng.choices(("create", "update", "delete", "get"), (3, 6, 1, 6))[0]  # type: ignore[assignment]
        return self._key(generation, rng.randrange(self._keys)), verb

    def _key(self, generation: int, number: int) -> str:
        return sys.intern(f"{self._prefix}-{generation}-{number}")

    async def _send(self, client: Client, verb: Verb, key: str, value: str, expected: int) -> tuple[int, Any]:
        body: dict[str, Any] = {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": key, "labels": {"robustness": self._prefix}}, "data": {"value": value},
        }  # fmt: skip
        match verb:
            case "create":
                return await client.request("POST", self.PATH, body)
            case "update":
                if expected:
                    body["metadata"]["resourceVersion"] = str(expected)
                return await client.request("PUT", f"{self.PATH}/{key}", body)
            case "delete":
                precondition = {"preconditions": {"resourceVersion": str(expected)}} if expected else {}
                return await client.request(
                    "DELETE",
                    f"{self.PATH}/{key}",
                    {"kind": "DeleteOptions", "apiVersion": "v1", **precondition},
                )
            case "get":
                return await client.request("GET", f"{self.PATH}/{key}")

    async def list_now_and_then(self, name: str, rng: random.Random) -> None:
        client = self._connect(rng)
        while True:
            await asyncio.sleep(rng.uniform(0.2, 1))
            called = time.monotonic()
            status, answer = await client.request("GET", f"{self.PATH}?{self.selector}")
            if status == 200:
                self._history.listings.append(
                    Listing(
                        client=name, called=called, returned=time.monotonic(),
                        revision=int(answer["metadata"]["resourceVersion"]),
                        items={sys.intern(item["metadata"]["name"]): _version(item) for item in answer["items"]},
                    )
                )  # fmt: skip

    async def watch(self, name: str, rng: random.Random, start: int, *, resume: bool) -> None:
        """One watcher, connection by connection; each goes on where the last one ended, or begins again earlier."""
        client = self._connect(rng)
        revision, refused = start, 0
        while True:
            events: list[Event] = []
            self._history.watches.append(Watch(client=name, start=revision, events=events))
            began, seconds = time.monotonic(), watch_seconds(rng)
            until = began + rng.uniform(3, 15)
            async for event in client.watch(f"{self.PATH}?{self.selector}", revision, seconds=seconds):
                if event["type"] == "ERROR":
                    refused += 1
                    break
                refused = 0
                events.append(_event(event))
                self.seen[name] = max(self.seen[name], events[-1].revision)
                if time.monotonic() > until:
                    break
            self.lasted += seconds - 0.5 < time.monotonic() - began < seconds + 2
            revision = events[-1].revision if events else revision
            if not resume and len(events) > 3:
                revision = rng.choice(events).revision
            if refused > 5 * len(client.urls):  # no server has it any more
                refused = 0
                _, found = await client.insist("GET", f"{self.PATH}?{self.selector}&limit=1")
                revision = int(found["metadata"]["resourceVersion"])
            await asyncio.sleep(0.05)


def _outcome(verb: Verb, status: int) -> Outcome | None:
    if status in _TRY_AGAIN:
        return None
    if status == 409:
        return "exists" if verb == "create" else "conflict"
    known = _DEFINITE.get(status, "unknown")
    return None if verb == "get" and known == "unknown" else known


def _version(document: Any) -> Version:
    return Version(sys.intern(document["data"]["value"]), int(document["metadata"]["resourceVersion"]))


def _event(event: Any) -> Event:
    kind: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"] = event["type"]
    metadata = event["object"]["metadata"]
    revision = int(metadata["resourceVersion"])
    if kind == "BOOKMARK":
        return Event(kind, revision)
    # Long histories have every name and value many times.
    return Event(kind, revision, sys.intern(metadata["name"]), sys.intern(event["object"]["data"]["value"]))
