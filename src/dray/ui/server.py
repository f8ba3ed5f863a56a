"""The dashboard's HTTP server: the page, its data, and metrics. It only reads."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import msgspec

import dray
from dray.api.errors import StatusError
from dray.api.identity import ObjectKey
from dray.client.client import Client
from dray.client.resources import EVENTS
from dray.explain.devices.states import SHOWN
from dray.explain.model.snapshot import Snapshot
from dray.placement.policies.registry import policy_names
from dray.ui import details, what_if
from dray.ui.board import Board, Viewers, encode
from dray.ui.cluster import LiveCluster
from dray.ui.guard import HEADERS, Guard
from dray.ui.informers import Readable, informed, readable
from dray.ui.metrics import Metrics
from dray.ui.reasons import Explainer, Reasons
from dray.ui.stream import EventStream
from dray.wire.http_server import HTTPServer
from dray.wire.messages import Limits, Reply, Request

if TYPE_CHECKING:
    from dray.api.types.core import Event

_LIMITS: Final = Limits(header_bytes=64 << 10, body_bytes=1 << 20, connections=500, unsent_bytes=1 << 20)
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_JSON: Final = (("Content-Type", "application/json"), *HEADERS)
_PLAIN: Final = (("Content-Type", "text/plain; charset=utf-8"), *HEADERS)
_METRICS: Final = (("Content-Type", "text/plain; version=0.0.4; charset=utf-8"), *HEADERS)
_EVENTS: Final = (("Content-Type", "text/event-stream"), ("X-Accel-Buffering", "no"), *HEADERS)
_PROBE_SECONDS: Final = 3.0

Answer = Callable[[Request], Awaitable[Reply]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """``cluster``: what is shown, in words for people. ``idle``: seconds without a viewer after which ``serve`` returns;
    None: it goes on."""

    guard: Guard
    namespace: str = "default"
    cluster: str = ""
    idle: float | None = None


def page_files() -> dict[str, tuple[str, bytes]]:
    """The files of the page by name, each with its type. Only these are served, whatever a path says."""
    found = {}
    for one in resources.files("dray.ui").joinpath("page").iterdir():
        kind = _TYPES.get(one.name.rpartition(".")[2])
        if kind is not None:
            found[one.name] = (kind, one.read_bytes())
    return found


class Dashboard:
    """Answers requests from a board. ``ready`` is set once the whole cluster has been read."""

    def __init__(self, client: Client | None, found: Readable, options: Options) -> None:
        """Without a client it shows a snapshot."""
        self._client = client
        self._found = found
        self._options = options
        self.cluster = LiveCluster(release=found.release, gates=found.gates, unread=found.unread)
        self.board = Board(self.cluster)
        self.viewers = Viewers(self.board)
        self.explainer = Explainer(self.cluster)
        self.reasons = self.board.reasons = Reasons(self.explainer, self.cluster.touched_pod)
        self.metrics = Metrics(self.board)
        self.ready = asyncio.Event()
        self._files = page_files()
        self._streams: set[EventStream] = set()
        self._reachable = ""
        self._routes: Mapping[str, Answer] = {
            "/api/stream": self._stream,
            "/api/object": self._object,
            "/api/why": self._why,
            "/api/cel": self._cel,
            "/api/attributes": self._attributes,
            "/api/attribute": self._attribute,
            "/api/whatif": self._what_if,
            "/metrics": self._metrics_text,
        }

    async def answer(self, request: Request) -> Reply:
        if request.path in ("/healthz", "/livez", "/readyz") and request.method in ("GET", "HEAD"):
            return Reply(200 if request.path != "/readyz" or self.ready.is_set() else 503, _PLAIN, b"ok")
        refused = self._options.guard.refuse(request)
        if refused is not None:
            return refused
        writes = request.path == "/api/whatif"
        if request.method != "POST" if writes else request.method not in ("GET", "HEAD"):
            return Reply(405, (*_PLAIN, ("Allow", "POST" if writes else "GET, HEAD")), b"Not that way.\n")
        if request.path in ("/", "/index.html"):
            return self._file("index.html", self._options.guard.cookie(request))
        route = self._routes.get(request.path)
        if route is not None:
            return await route(request)
        return self._file(request.path.removeprefix("/"))

    def _file(self, name: str, cookie: tuple[str, str] | None = None) -> Reply:
        if name not in self._files:
            return Reply(404, _PLAIN, b"No such page.\n")
        kind, data = self._files[name]
        return Reply(200, (("Content-Type", kind), *HEADERS, *([cookie] if cookie is not None else ())), data)

    # --- data ---

    async def _stream(self, request: Request) -> Reply:
        stream = EventStream(self.viewers, encode(self._hello()), self.ready, closed=self._streams.discard)
        self._streams.add(stream)
        if self._reachable:
            stream.say("upstream", self._reachable)
        return Reply(200, _EVENTS, stream=stream)

    def _hello(self) -> dict[str, Any]:
        return {
            "version": dray.__version__,
            "release": self._found.release,
            "cluster": self._options.cluster,
            "namespace": self._options.namespace,
            "unread": self._found.unread,
            "limited": self._found.limited,
            "policies": policy_names(),
            "states": [{"name": state.value, "colour": state.colour} for state in SHOWN],
        }

    async def _object(self, request: Request) -> Reply:
        kind, id = request.query.get("kind"), request.query.get("id")
        await self.ready.wait()
        self.viewers.publish()
        found = details.page(self.board, kind, id)
        if found is None:
            return _problem(404, f"There is no {kind} {id}.")
        namespace, uid = details.involved(self.board, kind, id)
        return _json(details.with_events(found, await self._events(namespace, uid) if uid else None))

    async def _events(self, namespace: str, uid: str) -> list[Event] | None:
        """The events about an object, asked for when they are shown; None if they may not be read."""
        if self._client is None:
            known: Iterable[Event] = self.cluster.objects["events"].values()
            return [one for one in known if (one.get("involvedObject") or {}).get("uid") == uid]
        try:
            found = await self._client.list(EVENTS, namespace, field_selector=f"involvedObject.uid={uid}")
        except StatusError:
            return None
        return list(found.items)

    async def _why(self, request: Request) -> Reply:
        kind, id = request.query.get("kind"), request.query.get("id")
        if kind not in ("pod", "claim"):
            return _problem(404, "Pods and claims can be explained.")
        await self.ready.wait()
        namespace, _, name = id.partition("/")
        found = await self.explainer.explain(kind, ObjectKey(namespace, name))
        # One that has gone while somebody looks needs no explanation; its page says that it is gone.
        return _json(found.as_document() if found is not None else None)

    async def _cel(self, request: Request) -> Reply:
        source = request.query.get("expression")
        await self.ready.wait()
        return _json(await self.explainer.ask(lambda cluster: what_if.try_selector(cluster, source)))

    async def _attributes(self, request: Request) -> Reply:
        await self.ready.wait()
        return _json(await self.explainer.ask(what_if.attribute_names))

    async def _attribute(self, request: Request) -> Reply:
        name = request.query.get("name")
        await self.ready.wait()
        return _json(await self.explainer.ask(lambda cluster: what_if.attribute_values(cluster, name)))

    async def _what_if(self, request: Request) -> Reply:
        if request.receive is not None:
            await request.receive()
        body = request.body
        try:
            wish = msgspec.json.decode(body if isinstance(body, bytes) else b"", type=what_if.Wish)
        except msgspec.DecodeError as problem:
            return _problem(400, f"This is not a question: {problem}.")
        await self.ready.wait()
        try:
            return _json(await self.explainer.ask(lambda cluster: what_if.what_if(cluster, wish)))
        except what_if.Unusable as problem:
            return _problem(422, str(problem))

    async def _metrics_text(self, request: Request) -> Reply:
        await self.ready.wait()
        self.viewers.publish()
        return Reply(200, _METRICS, self.metrics.text().encode())

    # --- the API server ---

    async def probe(self) -> None:
        """Tell viewers when the API server cannot be reached, and when it can be again."""
        while True:
            problem = ""
            if self._streams and self._client is not None:
                try:
                    await self._client.request("GET", "/version", timeout=_PROBE_SECONDS)
                except (StatusError, OSError) as error:
                    problem = str(error)
                if problem != self._reachable:
                    self._reachable = problem
                    for stream in list(self._streams):
                        stream.say("upstream", problem)
            await asyncio.sleep(_PROBE_SECONDS)


def _of_snapshot(snapshot: Snapshot) -> Readable:
    return Readable(
        rights=(), unread=snapshot.unread, limited=(), release=snapshot.release, gates=snapshot.gates
    )


def _json(document: object) -> Reply:
    return Reply(200, _JSON, encode(document))


def _problem(code: int, text: str) -> Reply:
    return Reply(code, _JSON, encode({"problem": text}))


async def serve(
    source: Client | Snapshot,
    listener: socket.socket,
    options: Options,
    *,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until cancelled, or until nobody has looked for long enough. ``ready`` is called once it listens."""
    async with dashboard(source, listener, options, ready=ready) as found:
        while True:
            await asyncio.sleep(1.0)
            idle = options.idle
            if idle is not None and not found.viewers and time.monotonic() - found.viewers.last_seen > idle:
                return


@asynccontextmanager
async def dashboard(
    source: Client | Snapshot,
    listener: socket.socket,
    options: Options,
    *,
    ready: Callable[[], None] = lambda: None,
) -> AsyncIterator[Dashboard]:
    """A dashboard that is served inside the block, which begins when the whole cluster has been read."""
    if isinstance(source, Snapshot):
        client, what = None, _of_snapshot(source)
    else:
        client, what = source, await readable(source, namespace=options.namespace)
    found = Dashboard(client, what, options)
    server = HTTPServer(found.answer, request_type=Request, limits=_LIMITS)
    await server.listen(listener)
    ready()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.drain, 0.5)
        stack.callback(found.explainer.close)
        if client is not None:
            await stack.enter_async_context(informed(client, found.cluster, what))
        elif isinstance(source, Snapshot):
            found.cluster.fill(source)
        found.board.refresh()
        found.ready.set()
        group = await stack.enter_async_context(asyncio.TaskGroup())
        tasks = [group.create_task(one()) for one in (found.viewers.run, found.reasons.run, found.probe)]
        try:
            yield found
        finally:
            for task in tasks:
                task.cancel()
