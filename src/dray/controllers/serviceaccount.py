"""Creates the service account ``default`` in every active namespace."""

from __future__ import annotations

from typing import Final

from dray.api.errors import AlreadyExists, Forbidden, NotFound
from dray.client.resources import NAMESPACES, SERVICE_ACCOUNTS
from dray.controllers.controller import Controller, ControllerContext, is_namespace_terminating

DEFAULT: Final = "default"


class ServiceAccountController(Controller[str]):
    """Keys are namespaces."""

    name = "serviceaccount-controller"
    workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._namespaces = context.informers.get(NAMESPACES)
        self._accounts = context.informers.get(SERVICE_ACCOUNTS)
        self._namespaces.add_handler(
            on_add=lambda new: self.enqueue(new["metadata"]["name"]),
            on_update=lambda old, new: self.enqueue(new["metadata"]["name"]),
        )
        self._accounts.add_handler(on_delete=lambda old: self.enqueue(old["metadata"]["namespace"]))

    async def sync(self, key: str) -> float | None:
        namespace = self._namespaces.get("", key)
        if namespace is None or (namespace.get("status") or {}).get("phase") != "Active":
            return None
        if self._accounts.get(key, DEFAULT) is not None:
            return None
        try:
            await self.context.client.create(SERVICE_ACCOUNTS, key, {"metadata": {"name": DEFAULT}})
        except (AlreadyExists, NotFound):
            return None
        except Forbidden as problem:
            if not is_namespace_terminating(problem):
                raise
        return None
