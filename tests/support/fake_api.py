"""A small API server behind the client's transport: enough for clients and components, nothing more."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, NamedTuple

from dray.api import errors
from dray.client.client import Client
from dray.client.transport import Reply, WatchEvent, WatchStream

Object = dict[str, Any]
PLURALS = {
    "resourceslices", "resourceclaims", "pods", "nodes", "leases", "events", "configmaps", "secrets", "services",
}  # fmt: skip


class FakeRequest(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    body: Any


class FakeAPIServer:
    """Holds objects by path; every write is a version that watches see. Requests and watches can be made to fail."""

    def __init__(self, *, versions: Sequence[str] = ("v1",)) -> None:
        self.versions = versions  # of resource.k8s.io
        self.version = 10
        self.oldest = 0  # watches that begin before it are told that they are too old
        self.objects: dict[str, Object] = {}
        self.requests: list[FakeRequest] = []
        self.failures: list[Exception] = []  # raised one by one, by the next requests and watches
        self.fail: dict[tuple[str, str], Exception] = {}  # by method and start of path, once
        self.streams: set[_Stream] = set()
        self._history: list[tuple[int, str, WatchEvent]] = []
        self._names = count(1)

    @property
    def client(self) -> Client:
        return Client(self)

    # What a test does behind the client's back

    def put(self, path: str, obj: Object) -> Object:
        """Store an object as if somebody had written it."""
        self.version += 1
        kind = "MODIFIED" if path in self.objects else "ADDED"
        metadata = {"uid": f"uid-{self.version}", "name": path.rpartition("/")[2], **obj.get("metadata", {})}
        if "/namespaces/" in path:
            metadata.setdefault("namespace", path.split("/namespaces/")[1].split("/")[0])
        metadata["resourceVersion"] = str(self.version)
        self.objects[path] = stored = {**copy.deepcopy(obj), "metadata": metadata}
        self._tell(path, WatchEvent(kind, stored))
        return stored

    def remove(self, path: str) -> Object:
        self.version += 1
        gone = self.objects.pop(path)
        gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
        self._tell(path, WatchEvent("DELETED", gone))
        return gone

    def all(self, plural: str) -> list[Object]:
        return [o for p, o in sorted(self.objects.items()) if p.rsplit("/", 2)[-2] == plural]

    def requested(self, method: str, part: str = "") -> list[str]:
        return [r.path for r in self.requests if r.method == method and part in r.path]

    def bookmark(self) -> None:
        self.version += 1
        for stream in self.streams:
            stream.put_nowait([WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})])

    def end_watches(self, error: Exception | None = None) -> None:
        for stream in self.streams:
            stream.put_nowait(error)

    def forget_history(self) -> None:
        self.oldest = self.version

    def _tell(self, path: str, event: WatchEvent) -> None:
        self._history.append((self.version, path, event))
        for stream in self.streams:
            if stream.wants(path, event.object):
                stream.put_nowait([event])

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
        request = FakeRequest(method, path, dict(query or {}), body)
        self.requests.append(request)
        self._fail(method, path)
        if path.startswith("/apis/resource.k8s.io/") and path.count("/") == 3:
            return Reply(200, {}, self._discovery(path.rpartition("/")[2]))
        handler = getattr(self, f"_{method.lower()}")
        return Reply(200, {}, handler(path.removesuffix("/status"), request.query, copy.deepcopy(body)))

    def _fail(self, method: str, path: str) -> None:
        if self.failures:
            raise self.failures.pop(0)
        for (m, start), error in list(self.fail.items()):
            if m == method and path.startswith(start):
                del self.fail[m, start]
                raise error

    def _discovery(self, version: str) -> Object:
        if version not in self.versions:
            raise errors.NotFound("the server could not find the requested resource")
        kinds = {"resourceslices": ("ResourceSlice", False), "resourceclaims": ("ResourceClaim", True)}
        return {"resources": [{"name": n, "kind": k, "namespaced": ns} for n, (k, ns) in kinds.items()]}

    def _get(self, path: str, query: Mapping[str, str], body: Any) -> Object:
        if path.rpartition("/")[2] in PLURALS and path not in self.objects:
            return self._list(path, query)
        return self._stored(path)

    def _stored(self, path: str) -> Object:
        if path not in self.objects:
            raise errors.not_found(path.rsplit("/", 2)[-2], "", path.rpartition("/")[2])
        return self.objects[path]

    def _list(self, path: str, query: Mapping[str, str]) -> Object:
        items = [o for p, o in sorted(self.objects.items()) if _in(p, path) and _selected(o, query)]
        start = int(query.get("continue", 0))
        if start and self.oldest == self.version:
            raise errors.Expired("the continue token is too old")
        limit = int(query.get("limit", 0)) or len(items)
        metadata = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            metadata["continue"] = str(start + limit)
        return {"kind": "List", "metadata": metadata, "items": items[start : start + limit]}

    def _post(self, path: str, query: Mapping[str, str], body: Object) -> Object:
        if path.endswith("/token"):
            return {"status": {"token": "a-token", "expirationTimestamp": "2999-01-01T00:00:00Z"}}
        metadata = body["metadata"]
        if "name" not in metadata:
            metadata["name"] = f"{metadata['generateName']}{next(self._names):05x}"
        target = f"{path}/{metadata['name']}"
        if target in self.objects:
            raise errors.already_exists(path.rpartition("/")[2], "", metadata["name"])
        return self.put(target, body)

    def _put(self, path: str, query: Mapping[str, str], body: Object) -> Object:
        old = self._stored(path)
        if body["metadata"].get("resourceVersion") not in (None, old["metadata"]["resourceVersion"]):
            raise errors.Conflict("the object has been modified")
        return self.put(path, body)

    def _patch(self, path: str, query: Mapping[str, str], body: Object) -> Object:
        old = self._stored(path)
        uid = (body.get("metadata") or {}).get("uid")
        if uid and uid != old["metadata"]["uid"]:
            raise errors.Conflict("the uid does not match")
        return self.put(path, merge(old, body))

    def _delete(self, path: str, query: Mapping[str, str], body: Object | None) -> Object:
        if path.rpartition("/")[2] in PLURALS:
            for found, obj in list(self.objects.items()):
                if _in(found, path) and _selected(obj, query):
                    self.remove(found)
            return {}
        old = self._stored(path)
        wanted = (body or {}).get("preconditions") or {}
        if wanted.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise errors.Conflict("the uid does not match")
        return self.remove(path)

    @asynccontextmanager
    async def watch(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[WatchStream]:
        query = dict(query or {})
        self.requests.append(FakeRequest("WATCH", path, query, None))
        await asyncio.sleep(0)
        self._fail("WATCH", path)
        stream = _Stream(path, query)
        after = int(query.get("resourceVersion") or 0)
        if query.get("sendInitialEvents") == "true":
            end = {"resourceVersion": str(self.version), "annotations": {"k8s.io/initial-events-end": "true"}}
            stream.put_nowait([WatchEvent("ADDED", obj) for obj in self._list(path, {})["items"]])
            stream.put_nowait([WatchEvent("BOOKMARK", {"metadata": end})])
        elif after and after < self.oldest:
            raise errors.Expired("too old resource version")
        elif missed := [e for v, where, e in self._history if v > after and stream.wants(where, e.object)]:
            stream.put_nowait(missed)
        self.streams.add(stream)
        try:
            yield stream.batches()
        finally:
            self.streams.discard(stream)

    def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> Any:
        raise AssertionError("not needed")

    def upgrade(
        self, path: str, *, query: Sequence[tuple[str, str]] = (), subprotocols: Sequence[str]
    ) -> Any:
        raise AssertionError("not needed")

    async def close(self) -> None:
        return


class _Stream(asyncio.Queue[list[WatchEvent] | Exception | None]):
    """What is to be sent to one watch; nothing ends it, an error fails it."""

    def __init__(self, path: str, query: Mapping[str, str]) -> None:
        super().__init__()
        self._path, self._query = path, query

    def wants(self, path: str, obj: Object) -> bool:
        return _in(path, self._path) and _selected(obj, self._query)

    async def batches(self) -> WatchStream:
        while (item := await self.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item


def merge(target: Any, patch: Any) -> Any:
    """JSON merge patch, except that lists whose items have a ``type`` (conditions) merge by it, as strategic merge."""
    if isinstance(patch, dict):
        out = dict(target) if isinstance(target, dict) else {}
        for key, value in patch.items():
            if value is None:
                out.pop(key, None)
            else:
                out[key] = merge(out.get(key), value)
        return out
    if (
        isinstance(patch, list)
        and isinstance(target, list)
        and all(isinstance(i, dict) and "type" in i for i in patch)
    ):
        by_type = {i["type"]: i for i in target} | {i["type"]: i for i in patch}
        return list(by_type.values())
    return patch


def _in(path: str, collection: str) -> bool:
    if path.rpartition("/")[0] == collection:
        return True
    root, _, plural = collection.rpartition("/")
    return path.startswith(f"{root}/namespaces/") and path.rsplit("/", 2)[-2] == plural


def _selected(obj: Object, query: Mapping[str, str]) -> bool:
    for term in filter(None, query.get("fieldSelector", "").split(",")):
        field, _, wanted = term.partition("=")
        value: Any = obj
        for part in field.split("."):
            value = (value or {}).get(part)
        if (value or "") != wanted:
            return False
    return True
