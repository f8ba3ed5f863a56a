"""``/healthz``, ``/livez`` and ``/readyz``: named checks, one by one or all together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dray.metrics.registry import Registry
from dray.server.apiserver import APIServer, text_not_found
from dray.server.endpoints.requestinfo import RequestInfo
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responses import RawBody, Response

#: Upstream's --etcd-healthcheck-timeout.
_STORE_SECONDS = 2.0
_TEXT = "text/plain; charset=utf-8"

Check = Callable[[], Awaitable[None]]


class Health:
    """A check passes by returning and fails by raising."""

    def __init__(self, api: APIServer) -> None:
        self._api = api
        self._checks: dict[str, tuple[Check, frozenset[str]]] = {}
        self.shutting_down = False
        everywhere = ("healthz", "livez", "readyz")
        self.add("ping", _pass, *everywhere)
        self.add("log", _pass, *everywhere)
        self.add("etcd", self._store, *everywhere)
        self.add("etcd-readiness", self._writable, "readyz")
        self.add("informer-sync", self._caches, "readyz")
        self.add("shutdown", self._shutdown, "readyz")
        self._results: dict[tuple[str, str], bool] = {}  # by check and endpoint
        self._slis = Registry()
        self._total = self._slis.counter(
            "kubernetes_healthchecks_total",
            "This metric records the results of all healthcheck.",
            *("name", "type", "status"),
            stability="STABLE",
        )
        self._slis.gauge(
            "kubernetes_healthcheck",
            "This metric records the result of a single healthcheck.",
            *("name", "type"),
            read=lambda: [(key, float(good)) for key, good in self._results.items()],
            stability="STABLE",
        )

    def add(self, name: str, check: Check, *endpoints: str) -> None:
        self._checks[name] = (check, frozenset(endpoints))

    def started(self, *hooks: str) -> None:
        """Steps of the start that are done, by upstream's names for them."""
        for hook in hooks:
            self.add(hook, _pass, "healthz", "livez", "readyz")

    def install(self) -> None:
        self._api.path_handlers["/metrics/slis"] = self.slis
        for endpoint in ("healthz", "livez", "readyz"):
            self._api.path_handlers[f"/{endpoint}"] = self.handle
            self._api.prefix_handlers[f"/{endpoint}/"] = self.handle

    async def _store(self) -> None:
        """The store answers."""
        async with asyncio.timeout(_STORE_SECONDS):
            await self._api.store.current_revision()

    async def _caches(self) -> None:
        """What is served from memory is what the store holds."""
        try:
            async with asyncio.timeout(_STORE_SECONDS):
                await self._api.store.wait_until_fresh()
        except TimeoutError:
            raise RuntimeError("the watch cache is behind the store") from None

    async def _writable(self) -> None:
        async with asyncio.timeout(_STORE_SECONDS):
            await self._api.store.check_writable()

    async def _shutdown(self) -> None:
        if self.shutting_down:
            raise RuntimeError("process is shutting down")

    async def handle(self, request: Request, info: RequestInfo) -> Response:
        endpoint, _, name = request.path.strip("/").partition("/")
        if name:
            if name not in self._checks or endpoint not in self._checks[name][1]:
                return text_not_found()
            failed = await self._run(name, endpoint)
            if failed is not None:
                return Response(500, RawBody(f"internal server error: {failed}\n".encode(), _TEXT))
            return Response(200, RawBody(b"ok", _TEXT))
        return await self._all(request, endpoint)

    async def _all(self, request: Request, endpoint: str) -> Response:
        excluded = set(request.query.all("exclude"))
        lines, failed = [], []
        known = [n for n, (_, endpoints) in self._checks.items() if endpoint in endpoints]
        wanted = [name for name in known if name not in excluded]
        results = await asyncio.gather(*(self._run(name, endpoint) for name in wanted))
        problems = dict(zip(wanted, results, strict=True))
        for name in known:
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
            elif problems[name] is None:
                lines.append(f"[+]{name} ok")
            else:
                lines.append(f"[-]{name} failed: reason withheld")
                failed.append(name)
        unknown = excluded - set(known)
        if unknown:
            quoted = ", ".join(f'"{n}"' for n in sorted(unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        if failed:
            text = "\n".join(lines) + f"\n{endpoint} check failed\n"
            return Response(500, RawBody(text.encode(), _TEXT))
        if "verbose" in request.query:
            return Response(200, RawBody(("\n".join(lines) + f"\n{endpoint} check passed\n").encode(), _TEXT))
        return Response(200, RawBody(b"ok", _TEXT))

    async def slis(self, request: Request, info: RequestInfo) -> Response:
        """How the checks went, as metrics; they are made for those who ask, if nobody else did."""
        if not self._results:
            for endpoint in ("healthz", "livez", "readyz"):
                await self._all(request, endpoint)
        return Response(200, RawBody(self._slis.text().encode(), "text/plain; version=0.0.4; charset=utf-8"))

    async def _run(self, name: str, endpoint: str) -> Exception | None:
        problem = await self._check(name)
        self._results[name, endpoint] = problem is None
        self._total.inc(name, endpoint, "success" if problem is None else "error")
        return problem

    async def _check(self, name: str) -> Exception | None:
        try:
            await self._checks[name][0]()
        except TimeoutError:
            return RuntimeError(f"the store gave no answer within {_STORE_SECONDS:g} s")
        except Exception as e:
            return e
        return None


async def _pass() -> None:
    return None
