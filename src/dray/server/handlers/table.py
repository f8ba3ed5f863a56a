"""Which handler answers a request. A handler takes a ``Call`` and returns a ``Response``; it knows nothing of HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from dray.server.endpoints.call import Call
from dray.server.endpoints.requestinfo import RequestInfo
from dray.server.endpoints.responses import Response
from dray.server.handlers.create import create
from dray.server.handlers.delete import delete
from dray.server.handlers.deletecollection import deletecollection
from dray.server.handlers.get import get
from dray.server.handlers.list import list_
from dray.server.handlers.patch import patch, patch_subresource
from dray.server.handlers.update import update, update_subresource
from dray.server.handlers.watch import watch
from dray.server.registry.resources import Resource

Handler = Callable[[Call], Awaitable[Response]]

_ON_NAMES: Final[Mapping[str, Handler]] = {
    "get": get,
    "update": update,
    "patch": patch,
    "delete": delete,
    "watch": watch,
}
_ON_COLLECTIONS: Final[Mapping[str, Handler]] = {
    "create": create,
    "list": list_,
    "watch": watch,
    "deletecollection": deletecollection,
}
_ON_SUBRESOURCES: Final[Mapping[str, Handler]] = {
    "get": get,
    "update": update_subresource,
    "patch": patch_subresource,
}


class NoSuchPath(Exception):
    """Nothing is served under this path, whatever the method."""


class NoSuchMethod(Exception):
    """The path is served, but not for this method."""


class HandlerTable:
    """The handlers of each verb on a resource and on its subresources."""

    def __init__(self) -> None:
        self._registered: dict[tuple[str, str], Mapping[str, Handler]] = {}

    def register(self, group: str, plural: str, subresource: str, handlers: Mapping[str, Handler]) -> None:
        """Serve a subresource with handlers of its own: ``register("", "pods", "binding", {"create": bind})``.

        An empty subresource is the collection of a virtual kind; group and plural ``*`` stand for every kind.
        """
        self._registered[_qualified(group, plural), subresource] = handlers

    def find(self, resource: Resource, info: RequestInfo) -> Handler:
        kind = resource.kind
        if info.subresource:
            if kind.namespaced and not info.namespace:
                raise NoSuchPath
            return self._subresource(resource, info)
        if info.name:
            if kind.virtual or (kind.namespaced and not info.namespace):
                raise NoSuchPath  # what is not stored has no names
            table = _ON_NAMES
        else:
            if not kind.namespaced and info.namespace and kind.plural != "namespaces":
                raise NoSuchPath
            table = _ON_COLLECTIONS
            if kind.namespaced and not info.namespace and info.verb in ("create", "deletecollection"):
                raise NoSuchMethod
        if kind.virtual:
            table = self._registered.get((_qualified(kind.group, kind.plural), ""), {})
        handler = table.get(info.verb)
        if handler is None or info.verb not in kind.verbs:
            raise NoSuchMethod
        return handler

    def _subresource(self, resource: Resource, info: RequestInfo) -> Handler:
        kind = resource.kind
        if info.rest and info.subresource != "proxy":
            raise NoSuchPath
        table = self._registered.get((_qualified(kind.group, kind.plural), info.subresource))
        if table is None and info.subresource == "scale" and kind.scale is not None:
            table = self._registered.get((_qualified("*", "*"), "scale"))
        if table is None and info.subresource in kind.subresources:
            table = _ON_SUBRESOURCES
        if table is None:
            raise NoSuchPath
        handler = table.get(info.verb)
        if handler is None:
            raise NoSuchMethod
        return handler


def _qualified(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural
