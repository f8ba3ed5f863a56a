"""``/healthz``, ``/livez`` and ``/readyz``: named checks, one by one or all together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dray.server.apiserver import APIServer, text_not_found
from dray.server.endpoints.requestinfo import RequestInfo
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responses import RawBody, Response

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
        self.add("etcd-readiness", self._api.store.check_writable, "readyz")
        self.add("shutdown", self._shutdown, "readyz")

    def add(self, name: str, check: Check, *endpoints: str) -> None:
        self._checks[name] = (check, frozenset(endpoints))

    def install(self) -> None:
        for endpoint in ("healthz", "livez", "readyz"):
            self._api.path_handlers[f"/{endpoint}"] = self.handle
            self._api.prefix_handlers[f"/{endpoint}/"] = self.handle

    async def _store(self) -> None:
        await self._api.store.wait_until_fresh()

    async def _shutdown(self) -> None:
        if self.shutting_down:
            raise RuntimeError("process is shutting down")

    async def handle(self, request: Request, info: RequestInfo) -> Response:
        endpoint, _, name = request.path.strip("/").partition("/")
        if name:
            if name not in self._checks or endpoint not in self._checks[name][1]:
                return text_not_found()
            failed = await self._run(name)
            if failed is not None:
                return Response(500, RawBody(f"internal server error: {failed}\n".encode(), _TEXT))
            return Response(200, RawBody(b"ok", _TEXT))
        return await self._all(request, endpoint)

    async def _all(self, request: Request, endpoint: str) -> Response:
        excluded = set(request.query.all("exclude"))
        lines, failed = [], []
        known = [n for n, (_, endpoints) in self._checks.items() if endpoint in endpoints]
        for name in known:
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
                continue
            problem = await self._run(name)
            if problem is None:
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

    async def _run(self, name: str) -> Exception | None:
        try:
            await self._checks[name][0]()
        except Exception as e:
            return e
        return None


async def _pass() -> None:
    return None
