"""The CRD controller serves custom resources while their definitions exist.

It writes the status of a definition (accepted names, established) and serves the kinds of an established one. It
deletes the objects of a definition that is being deleted before it removes the definition's finalizer.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from dray.api.errors import Conflict, NotFound, StatusError
from dray.api.groups.apiextensions import CLEANUP_FINALIZER, accept_names, custom_kinds, is_true
from dray.api.scheme.kinds import Kind, Object
from dray.server.apiserver import APIServer
from dray.server.bootstrap import APISERVER_USER
from dray.server.endpoints.requests import Request
from dray.server.storage.watchcache import Change, WatchCache
from dray.wire.messages import Headers

if TYPE_CHECKING:
    from dray.api.types.apiextensions import CustomResourceDefinition

log = logging.getLogger(__name__)

GROUP: Final = "apiextensions.k8s.io"
PLURAL: Final = "customresourcedefinitions"
_PATH: Final = f"/apis/{GROUP}/v1/{PLURAL}"
_MERGE: Final = Headers((("content-type", "application/merge-patch+json"),))
_RETRY_SECONDS: Final = 1.0


class CRDController:
    """Keeps what is served in step with the definitions in the store."""

    def __init__(self, api: APIServer) -> None:
        self._api = api
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._served: dict[str, tuple[str, str]] = {}  # group and plural, by the definition's name

    @property
    def _cache(self) -> WatchCache | None:
        resource = self._api.resources.resource(GROUP, PLURAL)
        return None if resource is None else resource.cache

    async def start(self) -> None:
        """Serve what is established already; what changes from now on is for ``run``."""
        cache = self._cache
        if cache is None:
            return
        for document in list(cache):
            if is_true(document.hub, "Established"):
                await self._serve(document.hub)
            self._queue.put_nowait(document.key)
        cache.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        document = change.after or change.before
        assert document is not None
        self._queue.put_nowait(document.key)

    async def run(self) -> None:
        while True:
            name = await self._queue.get()
            try:
                await self._sync(name)
            except Conflict:
                pass  # it has changed meanwhile, and that change is in the queue
            except StatusError as e:
                log.warning("definition %s: %s", name, e.message)
                await asyncio.sleep(_RETRY_SECONDS)
                self._queue.put_nowait(name)

    async def _sync(self, name: str) -> None:
        cache = self._cache
        assert cache is not None
        document = cache.get(name)
        if document is None:
            await self._stop(name)
            return
        definition: CustomResourceDefinition = document.hub
        if definition["metadata"].get("deletionTimestamp"):
            await self._clean_up(name, definition)
            return
        group = definition["spec"]["group"]
        definitions: list[CustomResourceDefinition] = [d.hub for d in cache if d.key != name]
        others = [d for d in definitions if d["spec"]["group"] == group]
        wanted = accept_names(definition, others, self._api.clock.now())
        if wanted.get("status") != definition.get("status"):
            await self._write_status(name, wanted)
            return  # the change comes back through the queue
        if is_true(definition, "Established"):
            await self._serve(definition)
        else:
            await self._stop(name)

    async def _serve(self, definition: CustomResourceDefinition) -> None:
        kinds = custom_kinds(definition)
        name = definition["metadata"]["name"]
        if not kinds:
            await self._stop(name)
            return
        await self._api.resources.add_custom(kinds)
        self._served[name] = (kinds[0].group, kinds[0].plural)

    async def _stop(self, name: str) -> None:
        found = self._served.pop(name, None)
        if found is not None:
            await self._api.resources.remove(*found)

    async def _write_status(self, name: str, definition: CustomResourceDefinition) -> None:
        body: Object = {
            "metadata": {"resourceVersion": definition["metadata"]["resourceVersion"]},
            "status": definition["status"],
        }
        await self._api.handle(
            Request("PATCH", f"{_PATH}/{name}/status", headers=_MERGE, body=body, user=APISERVER_USER)
        )

    async def _clean_up(self, name: str, definition: CustomResourceDefinition) -> None:
        """Delete every object of the kind, then let the definition go."""
        finalizers = definition["metadata"].get("finalizers") or []
        if CLEANUP_FINALIZER not in finalizers:
            return
        found = self._served.get(name)
        resource = self._api.resources.resource(*found) if found is not None else None
        if resource is not None:
            for document in list(resource.cache):
                await self._delete_object(
                    resource.kind, resource.served[0], document.namespace, document.name
                )
            if len(resource.cache):
                await asyncio.sleep(_RETRY_SECONDS)  # finalizers hold some of them
                self._queue.put_nowait(name)
                return
        body = {
            "metadata": {
                "resourceVersion": definition["metadata"]["resourceVersion"],
                "finalizers": [f for f in finalizers if f != CLEANUP_FINALIZER],
            }
        }
        await self._stop(name)
        await self._api.handle(
            Request("PATCH", f"{_PATH}/{name}", headers=_MERGE, body=body, user=APISERVER_USER)
        )

    async def _delete_object(self, kind: Kind, version: str, namespace: str, name: str) -> None:
        where = f"/namespaces/{namespace}" if kind.namespaced else ""
        path = f"/apis/{kind.group}/{version}{where}/{kind.plural}/{name}"
        try:
            await self._api.handle(Request("DELETE", path, user=APISERVER_USER))
        except NotFound:
            return
