"""One module a verb. A verb takes a ``Call`` and returns a ``Response``; it knows nothing of HTTP."""

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
from dray.server.handlers.patch import patch, patch_view
from dray.server.handlers.update import update, update_view
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
_ON_VIEWS: Final[Mapping[str, Handler]] = {"get": get, "update": update_view, "patch": patch_view}


class NoSuchPath(Exception):
    """Nothing is served under this path, whatever the method."""


class NoSuchMethod(Exception):
    """The path is served, but not for this method."""


class HandlerTable:
    """Which function answers which verb on a resource, its views and its actions."""

    def __init__(self) -> None:
        self._actions: dict[tuple[str, str], Mapping[str, Handler]] = {}

    def action(self, group: str, plural: str, subresource: str, verbs: Mapping[str, Handler]) -> None:
        """Serve a subresource by hand: ``action("", "pods", "binding", {"create": bind})``.

        An empty subresource is the collection of a virtual kind; group and plural ``*`` stand for every kind.
        """
        self._actions[_qualified(group, plural), subresource] = verbs

    def find(self, resource: Resource, target: RequestInfo) -> Handler:
        kind = resource.kind
        if target.subresource:
            if kind.namespaced and not target.namespace:
                raise NoSuchPath
            return self._subresource(resource, target)
        if target.name:
            if kind.virtual or (kind.namespaced and not target.namespace):
                raise NoSuchPath  # what is not stored has no names
            table = _ON_NAMES
        else:
            if not kind.namespaced and target.namespace and kind.plural != "namespaces":
                raise NoSuchPath
            table = _ON_COLLECTIONS
            if kind.namespaced and not target.namespace and target.verb in ("create", "deletecollection"):
                raise NoSuchMethod
        if kind.virtual:
            table = self._actions.get((_qualified(kind.group, kind.plural), ""), {})
        verb = table.get(target.verb)
        if verb is None or target.verb not in kind.verbs:
            raise NoSuchMethod
        return verb

    def _subresource(self, resource: Resource, target: RequestInfo) -> Handler:
        kind = resource.kind
        if target.rest and target.subresource != "proxy":
            raise NoSuchPath
        table = self._actions.get((_qualified(kind.group, kind.plural), target.subresource))
        if table is None and target.subresource == "scale" and kind.scale is not None:
            table = self._actions.get((_qualified("*", "*"), "scale"))
        if table is None and target.subresource in kind.subresources:
            table = _ON_VIEWS
        if table is None:
            raise NoSuchPath
        verb = table.get(target.verb)
        if verb is None:
            raise NoSuchMethod
        return verb


def _qualified(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural
