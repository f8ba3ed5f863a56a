"""An API server of a hundred lines, behind the client's transport: enough for components, nothing more."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from dray.api.errors import Conflict, NotFound
from dray.client.client import Client
from dray.client.transport import Reply, WatchEvent, WatchStream

Object = dict[str, Any]


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


class FakeApi:
    """Holds objects by path; every write is a revision that watches see."""

    def __init__(self, *, versions: Sequence[str] = ("v1",)) -> None:
        self.versions = versions
        self.objects: dict[str, Object] = {}
        self.requests: list[tuple[str, str]] = []
        self.fail: dict[tuple[str, str], Exception] = {}  # by method and start of path, once
        self._revisions = count(1)
        self._revision = 0
        self._watchers: list[tuple[str, Mapping[str, str], asyncio.Queue[WatchEvent]]] = []

    @property
    def client(self) -> Client:
        return Client(self)

    def put(self, path: str, obj: Object) -> Object:
        """Stores an object as if somebody had written it."""
        return self._store(path, copy.deepcopy(obj))

    def all(self, plural: str) -> list[Object]:
        return [o for p, o in sorted(self.objects.items()) if p.rsplit("/", 2)[-2] == plural]

    def requested(self, method: str, part: str = "") -> list[str]:
        return [p for m, p in self.requests if m == method and part in p]

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
        self.requests.append((method, path))
        for (m, start), error in list(self.fail.items()):
            if m == method and path.startswith(start):
                del self.fail[m, start]
                raise error
        if path.startswith("/apis/resource.k8s.io/") and path.count("/") == 3:
            if path.rsplit("/", 1)[-1] not in self.versions:
                raise NotFound("the server could not find the requested resource")
            kinds = {"resourceslices": ("ResourceSlice", False), "resourceclaims": ("ResourceClaim", True)}
            listed = [{"name": n, "kind": k, "namespaced": ns} for n, (k, ns) in kinds.items()]
            return Reply(200, {}, {"resources": listed})
        base = path.removesuffix("/status")
        handler = getattr(self, f"_{method.lower()}")
        return Reply(200, {}, handler(base, dict(query or {}), copy.deepcopy(body)))

    def _get(self, path: str, query: Mapping[str, str], body: Any) -> Object:
        if path in self.objects:
            return self.objects[path]
        if path.rsplit("/", 1)[-1] in PLURALS:
            items = [o for p, o in sorted(self.objects.items()) if _in(p, path) and _selected(o, query)]
            return {"items": items, "metadata": {"resourceVersion": str(self._revision)}}
        raise NotFound(f'{path.rsplit("/", 2)[-2]} "{path.rsplit("/", 1)[-1]}" not found')

    def _post(self, path: str, query: Mapping[str, str], body: Object) -> Object:
        if path.endswith("/token"):
            return {"status": {"token": "a-token", "expirationTimestamp": "2999-01-01T00:00:00Z"}}
        metadata = body["metadata"]
        if "name" not in metadata:
            metadata["name"] = f"{metadata['generateName']}{next(self._revisions):05x}"
        if "/namespaces/" in path:
            metadata.setdefault("namespace", path.split("/namespaces/")[1].split("/")[0])
        return self._store(f"{path}/{metadata['name']}", body)

    def _put(self, path: str, query: Mapping[str, str], body: Object) -> Object:
        old = self._get(path, query, None)
        version = body["metadata"].get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified")
        return self._store(path, body)

    def _patch(self, path: str, query: Mapping[str, str], body: Object) -> Object:
        old = self._get(path, query, None)
        uid = (body.get("metadata") or {}).get("uid")
        if uid and uid != old["metadata"]["uid"]:
            raise Conflict("the uid does not match")
        return self._store(path, merge(old, body))

    def _delete(self, path: str, query: Mapping[str, str], body: Object | None) -> Object:
        if path.rsplit("/", 1)[-1] in PLURALS:
            for p, o in list(self.objects.items()):
                if _in(p, path) and _selected(o, query):
                    self._remove(p)
            return {}
        old = self._get(path, query, None)
        wanted = (body or {}).get("preconditions") or {}
        if wanted.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise Conflict("the uid does not match")
        self._remove(path)
        return old

    def _store(self, path: str, obj: Object) -> Object:
        kind = "MODIFIED" if path in self.objects else "ADDED"
        self._revision = next(self._revisions)
        metadata = obj.setdefault("metadata", {})
        metadata["resourceVersion"] = str(self._revision)
        metadata.setdefault("uid", f"uid-{self._revision}")
        metadata.setdefault("name", path.rsplit("/", 1)[-1])
        self.objects[path] = obj
        self._tell(path, WatchEvent(kind, obj))
        return obj

    def _remove(self, path: str) -> None:
        obj = copy.deepcopy(self.objects.pop(path))
        self._revision = next(self._revisions)
        obj["metadata"]["resourceVersion"] = str(self._revision)
        self._tell(path, WatchEvent("DELETED", obj))

    def delete(self, path: str) -> None:
        self._remove(path)

    def _tell(self, path: str, event: WatchEvent) -> None:
        for collection, query, queue in self._watchers:
            if _in(path, collection) and _selected(event.object, query):
                queue.put_nowait(event)

    @asynccontextmanager
    async def watch(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[WatchStream]:
        queue: asyncio.Queue[WatchEvent] = asyncio.Queue()
        watcher = (path, dict(query or {}), queue)
        self._watchers.append(watcher)
        since = int((query or {}).get("resourceVersion") or 0)
        for p, o in self.objects.items():  # what was written between the list and the watch
            if _in(p, path) and _selected(o, watcher[1]) and int(o["metadata"]["resourceVersion"]) > since:
                queue.put_nowait(WatchEvent("ADDED", o))

        async def events() -> WatchStream:
            while True:
                yield [await queue.get()]

        try:
            yield events()
        finally:
            self._watchers.remove(watcher)

    def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> Any:
        raise AssertionError("not needed")

    def upgrade(
        self, path: str, *, query: Sequence[tuple[str, str]] = (), subprotocols: Sequence[str]
    ) -> Any:
        raise AssertionError("not needed")

    async def close(self) -> None:
        return


PLURALS = {"resourceslices", "resourceclaims", "pods", "nodes", "leases", "events", "configmaps", "secrets"}


def _in(path: str, collection: str) -> bool:
    if path.rsplit("/", 1)[0] == collection:
        return True
    root, plural = collection.rsplit("/", 1)
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
