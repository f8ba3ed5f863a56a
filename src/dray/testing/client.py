"""The client for tests that are not async: every request is sent from the cluster's thread and waited for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from dray.client.client import Client, PatchType
from dray.client.resources import Resource

if TYPE_CHECKING:
    from dray.api.types import Object

T = TypeVar("T", bound="Object")
R = TypeVar("R")


class SyncClient:
    """``dray.client.Client`` without ``await``. Objects that it returns are the caller's own."""

    def __init__(self, client: Client, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._client = client
        self._run = run

    def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        return self._own(self._client.get(resource, namespace, name))

    def list(self, resource: Resource[T], namespace: str = "", *, label_selector: str = "") -> list[T]:
        """All objects, of one namespace or (with none) of all."""
        found = self._run(self._client.list(resource, namespace, label_selector=label_selector))
        return copy.deepcopy(list(found.items))

    def create(self, resource: Resource[T], namespace: str, obj: T) -> T:
        return self._own(self._client.create(resource, namespace, obj))

    def update(self, resource: Resource[T], namespace: str, obj: T) -> T:
        return self._own(self._client.update(resource, namespace, obj))

    def update_status(self, resource: Resource[T], namespace: str, obj: T) -> T:
        return self._own(self._client.update_status(resource, namespace, obj))

    def patch(
        self,
        resource: Resource[T],
        namespace: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        type: PatchType = PatchType.MERGE,
        subresource: str = "",
    ) -> T:
        return self._own(
            self._client.patch(resource, namespace, name, patch, type=type, subresource=subresource)
        )

    def apply(self, resource: Resource[T], namespace: str, obj: T, *, field_manager: str = "test") -> T:
        """Server-side apply, whoever owns what."""
        return self._own(
            self._client.apply(resource, namespace, obj, field_manager=field_manager, force=True)
        )

    def delete(
        self, resource: Resource[T], namespace: str, name: str, *, grace_seconds: int | None = None
    ) -> None:
        self._run(self._client.delete(resource, namespace, name, grace_seconds=grace_seconds))

    def _own(self, request: Coroutine[Any, Any, R]) -> R:
        answer: R = self._run(request)
        return copy.deepcopy(answer)
