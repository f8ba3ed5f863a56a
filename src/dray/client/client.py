"""Verbs of the Kubernetes API on plain documents, over any transport.

An object is named by its resource, namespace and name; cluster-scoped ones have the namespace "". Failures are
``dray.api.errors.StatusError``. What comes back is shared with others and must not be changed: build a new document,
or send a patch.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Literal

from dray.api.errors import AlreadyExists, Expired, Gone
from dray.client.resources import PODS, SERVICE_ACCOUNTS, Resource, T
from dray.client.timeslice import WORKERS
from dray.client.transport import AnyReply, Transport, WatchStream, WebSocket

if TYPE_CHECKING:
    from dray.api.types.authentication import TokenRequest
    from dray.api.types.core import Binding
    from dray.api.types.meta import DeleteOptions, ListMeta, ObjectMeta, Status
    from dray.api.types.policy import Eviction

#: What a patch says: a part of a document, with null for what is to go. A JSON patch is a list of operations.
PatchBody = Mapping[str, Any] | Sequence[Mapping[str, Any]]

PAGE_SIZE: Final = 500


class PatchType(enum.Enum):
    """How a patch is to be read."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[T]):
    """A collection as it stood at ``resource_version``. Items may lack ``apiVersion`` and ``kind``, as lists do."""

    items: Sequence[T]
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
        resource: Resource[T],
        namespace: str,
        name: str,
        *,
        subresource: str = "",
        resource_version: str = "",
        timeout: float | None = None,
    ) -> T:
        query = _query(resourceVersion=resource_version)
        path = resource.path(namespace, _named(name), subresource)
        found: T = (await self.transport.request("GET", path, query=query, timeout=timeout)).object
        return found

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        page_size: int = PAGE_SIZE,
    ) -> ObjectList[T]:
        """The whole collection, read page by page at one revision. Namespace "" means all of them."""
        path = resource.path(namespace)
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        items: list[T] = []
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
            said: ListMeta | None = page.get("metadata")
            metadata = said or {}
            token = metadata.get("continue", "")
            if not token:
                return ObjectList(items, metadata.get("resourceVersion", ""))
            await WORKERS.pause_if_spent()  # a server in this process answers without a pause

    def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = True,
        send_initial_events: bool = False,
        timeout_seconds: int | None = None,
    ) -> AbstractAsyncContextManager[WatchStream[T]]:
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
        resource: Resource[T],
        namespace: str,
        obj: T,
        *,
        field_manager: str = "",
        dry_run: bool = False,
    ) -> T:
        query = _write_query(field_manager, dry_run)
        path = resource.path(namespace)
        body = _typed(resource, obj)
        made: T = (await self.transport.request("POST", path, query=query, body=body)).object
        return made

    async def create_if_missing(self, resource: Resource[T], namespace: str, obj: T) -> None:
        """Create an object unless there is one of its name."""
        with suppress(AlreadyExists):
            await self.create(resource, namespace, obj)

    async def update(
        self,
        resource: Resource[T],
        namespace: str,
        obj: T,
        *,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> T:
        """Replace an object. With a ``resourceVersion`` in its metadata a stale one is refused with ``Conflict``."""
        query = _write_query(field_manager, dry_run)
        path = resource.path(namespace, _named(obj["metadata"].get("name", "")), subresource)
        body = _typed(resource, obj)
        written: T = (await self.transport.request("PUT", path, query=query, body=body)).object
        return written

    async def update_status(
        self,
        resource: Resource[T],
        namespace: str,
        obj: T,
        *,
        field_manager: str = "",
        dry_run: bool = False,
    ) -> T:
        return await self.update(
            resource, namespace, obj, subresource="status", field_manager=field_manager, dry_run=dry_run
        )

    async def patch(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        patch: PatchBody,
        *,
        type: PatchType = PatchType.MERGE,
        subresource: str = "",
        field_manager: str = "",
        force: bool | None = None,
        dry_run: bool = False,
    ) -> T:
        """Change an object. A ``resourceVersion`` inside the patch makes the write conditional."""
        query = _write_query(field_manager, dry_run)
        if force is not None:
            query["force"] = "true" if force else "false"
        path = resource.path(namespace, _named(name), subresource)
        reply = await self.transport.request("PATCH", path, query=query, body=patch, content_type=type.value)
        written: T = reply.object
        return written

    async def patch_status(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        patch: PatchBody,
        *,
        type: PatchType = PatchType.MERGE,
        field_manager: str = "",
    ) -> T:
        return await self.patch(
            resource, namespace, name, patch, type=type, subresource="status", field_manager=field_manager
        )

    async def apply(
        self,
        resource: Resource[T],
        namespace: str,
        obj: T,
        *,
        field_manager: str,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> T:
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
        resource: Resource[T],
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
        propagation: Literal["", "Orphan", "Background", "Foreground"] = "",
        dry_run: bool = False,
    ) -> T | Status:
        """Delete an object, if it still has ``uid`` and ``resource_version`` where they are given."""
        options = _delete_options(uid, resource_version, grace_seconds, propagation, dry_run)
        path = resource.path(namespace, _named(name))
        deleted: T | Status = (await self.transport.request("DELETE", path, body=options)).object
        return deleted

    async def delete_collection(
        self,
        resource: Resource[Any],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        grace_seconds: int | None = None,
        propagation: Literal["", "Orphan", "Background", "Foreground"] = "",
        dry_run: bool = False,
    ) -> None:
        query = _query(labelSelector=label_selector, fieldSelector=field_selector)
        options = _delete_options("", "", grace_seconds, propagation, dry_run)
        await self.transport.request("DELETE", resource.path(namespace), query=query, body=options)

    # Pods

    async def bind(self, namespace: str, pod: str, node: str, *, uid: str = "") -> None:
        """Tie a pod to a node."""
        metadata: ObjectMeta = {"name": pod, "namespace": namespace}
        if uid:
            metadata["uid"] = uid
        binding: Binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.transport.request(
            "POST", PODS.path(namespace, _named(pod), "binding"), query={}, body=binding
        )

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
        eviction: Eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
        }
        options = _delete_options(uid, "", grace_seconds, "", dry_run)
        if options is not None:
            eviction["deleteOptions"] = options
        await self.transport.request(
            "POST", PODS.path(namespace, _named(pod), "eviction"), query={}, body=eviction
        )

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

    # Service accounts

    async def create_token(self, namespace: str, account: str, request: TokenRequest) -> TokenRequest:
        """A token of a service account; the answer's status holds it."""
        path = SERVICE_ACCOUNTS.path(namespace, _named(account), "token")
        granted: TokenRequest = (await self.transport.request("POST", path, query={}, body=request)).object
        return granted

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


def _typed(resource: Resource[Any], obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """The document with its kind, which items of a list lack."""
    if "kind" in obj and "apiVersion" in obj:
        return obj
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _delete_options(
    uid: str, resource_version: str, grace_seconds: int | None, propagation: str, dry_run: bool
) -> DeleteOptions | None:
    options: DeleteOptions = {}
    if uid or resource_version:
        options["preconditions"] = {}
        if uid:
            options["preconditions"]["uid"] = uid
        if resource_version:
            options["preconditions"]["resourceVersion"] = resource_version
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if propagation:
        options["propagationPolicy"] = propagation
    if dry_run:
        options["dryRun"] = ["All"]
    return {"apiVersion": "v1", "kind": "DeleteOptions", **options} if options else None
