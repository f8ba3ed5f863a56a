"""Verbs of the Kubernetes API on plain documents, over any transport.

An object is named by its resource, namespace and name; cluster-scoped ones have the namespace "". Failures are
``dray.api.errors.StatusError``. What comes back is shared with others and must not be changed: build a new document,
or send a patch.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Literal

from dray.api.errors import Expired, Gone
from dray.api.kinds import Object
from dray.client.resources import PODS, Resource
from dray.client.transport import AnyReply, Transport, WatchStream, WebSocket

PAGE_SIZE: Final = 500


class PatchType(enum.Enum):
    """How a patch is to be read."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A collection as it stood at ``resource_version``. Items may lack ``apiVersion`` and ``kind``, as lists do."""

    items: Sequence[Object]
    resource_version: str


class Client:
    """An API server behind a transport."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    async def close(self) -> None:
        await self.transport.close()

    # Reading

    async def get(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        subresource: str = "",
        resource_version: str = "",
        timeout: float | None = None,
    ) -> Object:
        query = _query(resourceVersion=resource_version)
        path = resource.path(namespace, _named(name), subresource)
        return (await self.transport.request("GET", path, query=query, timeout=timeout)).object

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        page_size: int = PAGE_SIZE,
    ) -> ObjectList:
        """The whole collection, read page by page at one revision. Namespace "" means all of them."""
        path = resource.path(namespace)
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        items: list[Object] = []
        token = ""
        while True:
            if token:
                query = _query(**selectors, limit=page_size, **{"continue": token})
            else:
                query = _query(**selectors, limit=page_size, resourceVersion=resource_version)
            try:
                page = (await self.transport.request("GET", path, query=query)).object
            except (Expired, Gone):
                if not token:
                    raise
                # The revision of the first page is gone: everything once more, in one piece.
                page = (await self.transport.request("GET", path, query=_query(**selectors))).object
                items = []
            items += page.get("items") or ()
            metadata = page.get("metadata") or {}
            token = metadata.get("continue", "")
            if not token:
                return ObjectList(items, metadata.get("resourceVersion", ""))

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = True,
        send_initial_events: bool = False,
        timeout_seconds: int | None = None,
    ) -> AbstractAsyncContextManager[WatchStream]:
        """Batches of events after ``resource_version``; with ``send_initial_events`` the collection itself first.

        Raises ``Expired`` (410) when that version is too old, and ends plainly when the server ends the watch.
        """
        query = _query(
            watch=True,
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            allowWatchBookmarks=bookmarks,
            timeoutSeconds=timeout_seconds,
        )
        if send_initial_events:
            query["sendInitialEvents"] = "true"
            query["resourceVersionMatch"] = "NotOlderThan"
        return self.transport.watch(resource.path(namespace), query=query)

    # Writing

    async def create(
        self,
        resource: Resource,
        namespace: str,
        obj: Object,
        *,
        name: str = "",
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Create an object; with ``name`` and ``subresource``, post to a subresource such as ``token``."""
        query = _write_query(field_manager, dry_run)
        body = _typed(resource, obj) if not subresource else obj
        path = resource.path(namespace, name, subresource)
        return (await self.transport.request("POST", path, query=query, body=body)).object

    async def update(
        self,
        resource: Resource,
        namespace: str,
        obj: Object,
        *,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Replace an object. With a ``resourceVersion`` in its metadata a stale one is refused with ``Conflict``."""
        query = _write_query(field_manager, dry_run)
        path = resource.path(namespace, _named(obj["metadata"].get("name", "")), subresource)
        return (await self.transport.request("PUT", path, query=query, body=_typed(resource, obj))).object

    async def update_status(
        self,
        resource: Resource,
        namespace: str,
        obj: Object,
        *,
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        return await self.update(
            resource, namespace, obj, subresource="status", field_manager=field_manager, dry_run=dry_run
        )

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Object | Sequence[Object],
        *,
        type: PatchType = PatchType.MERGE,
        subresource: str = "",
        field_manager: str = "",
        force: bool | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Change an object. A ``resourceVersion`` inside the patch makes the write conditional."""
        query = _write_query(field_manager, dry_run)
        if force is not None:
            query["force"] = "true" if force else "false"
        path = resource.path(namespace, _named(name), subresource)
        reply = await self.transport.request("PATCH", path, query=query, body=patch, content_type=type.value)
        return reply.object

    async def patch_status(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Object | Sequence[Object],
        *,
        type: PatchType = PatchType.MERGE,
        field_manager: str = "",
    ) -> Object:
        return await self.patch(
            resource, namespace, name, patch, type=type, subresource="status", field_manager=field_manager
        )

    async def apply(
        self,
        resource: Resource,
        namespace: str,
        obj: Object,
        *,
        field_manager: str,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Server-side apply: own what ``obj`` says, and give up what it no longer says."""
        return await self.patch(
            resource,
            namespace,
            obj["metadata"]["name"],
            _typed(resource, obj),
            type=PatchType.APPLY,
            subresource=subresource,
            field_manager=field_manager,
            force=force,
            dry_run=dry_run,
        )

    # Deleting

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
        propagation: Literal["", "Orphan", "Background", "Foreground"] = "",
        dry_run: bool = False,
    ) -> Object:
        """Delete an object, if it still has ``uid`` and ``resource_version`` where they are given."""
        options = _delete_options(uid, resource_version, grace_seconds, propagation, dry_run)
        path = resource.path(namespace, _named(name))
        return (await self.transport.request("DELETE", path, body=options)).object

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        grace_seconds: int | None = None,
        propagation: Literal["", "Orphan", "Background", "Foreground"] = "",
        dry_run: bool = False,
    ) -> Object:
        query = _query(labelSelector=label_selector, fieldSelector=field_selector)
        options = _delete_options("", "", grace_seconds, propagation, dry_run)
        return (
            await self.transport.request("DELETE", resource.path(namespace), query=query, body=options)
        ).object

    # Pods

    async def bind(self, namespace: str, pod: str, node: str, *, uid: str = "") -> None:
        """Tie a pod to a node."""
        metadata = {"name": pod, "namespace": namespace}
        binding: Object = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata | {"uid": uid} if uid else metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.create(PODS, namespace, binding, name=pod, subresource="binding")

    async def evict(
        self,
        namespace: str,
        pod: str,
        *,
        grace_seconds: int | None = None,
        uid: str = "",
        dry_run: bool = False,
    ) -> None:
        """Delete a pod if its disruption budgets allow; ``TooManyRequests`` if they do not, for now."""
        eviction: Object = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
        }
        options = _delete_options(uid, "", grace_seconds, "", dry_run)
        if options is not None:
            eviction["deleteOptions"] = options
        await self.create(PODS, namespace, eviction, name=pod, subresource="eviction")

    def log(
        self,
        namespace: str,
        pod: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        timestamps: bool = False,
        tail_lines: int | None = None,
        since_seconds: int | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """A container's output, in pieces as it arrives."""
        query = _query(
            container=container,
            follow=follow,
            previous=previous,
            timestamps=timestamps,
            tailLines=tail_lines,
            sinceSeconds=since_seconds,
        )
        return self.transport.stream(PODS.path(namespace, _named(pod), "log"), query=query)

    def exec(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> AbstractAsyncContextManager[WebSocket]:
        """Run a command in a container. The first byte of a message is its channel: 0 in, 1 out, 2 err, 3 status."""
        query = [("command", word) for word in command]
        query += _query(container=container, stdin=stdin, stdout=True, stderr=not tty, tty=tty).items()
        path = PODS.path(namespace, _named(pod), "exec")
        return self.transport.upgrade(
            path, query=query, subprotocols=("v5.channel.k8s.io", "v4.channel.k8s.io")
        )

    # Anything else

    async def request(self, method: str, path: str, **options: Any) -> AnyReply:
        """A request of one's own; see ``Transport.request``."""
        return await self.transport.request(method, path, **options)


def _query(**parameters: str | int | bool | None) -> dict[str, str]:
    """What is set, as text. False and "" and None are not set; 0 is."""
    return {
        name: "true" if value is True else str(value)
        for name, value in parameters.items()
        if value is not None and value is not False and value != ""
    }


def _write_query(field_manager: str, dry_run: bool) -> dict[str, str]:
    query = {"fieldManager": field_manager} if field_manager else {}
    if dry_run:
        query["dryRun"] = "All"
    return query


def _named(name: str) -> str:
    # An empty name would silently address the whole collection.
    if not name:
        raise ValueError("the object has no name")
    return name


def _typed(resource: Resource, obj: Object) -> Object:
    """The document with its kind, which items of a list lack."""
    if "kind" in obj and "apiVersion" in obj:
        return obj
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _delete_options(
    uid: str, resource_version: str, grace_seconds: int | None, propagation: str, dry_run: bool
) -> Object | None:
    preconditions: Mapping[str, str] = _query(uid=uid, resourceVersion=resource_version)
    options: Object = {}
    if preconditions:
        options["preconditions"] = preconditions
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if propagation:
        options["propagationPolicy"] = propagation
    if dry_run:
        options["dryRun"] = ["All"]
    return {"apiVersion": "v1", "kind": "DeleteOptions", **options} if options else None
