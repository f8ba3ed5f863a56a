"""One module a verb. A verb takes a ``Call`` and returns a ``Response``; it knows nothing of HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from dray.server.calls import Call
from dray.server.requests import Response
from dray.server.resources import Resource
from dray.server.routing import Target
from dray.server.verbs.create import create
from dray.server.verbs.get import get
from dray.server.verbs.list import list_
from dray.server.verbs.watch import watch

Verb = Callable[[Call], Awaitable[Response]]
NOT_ALLOWED = "not allowed"


class Verbs:
    """Which function answers which verb on a resource, its views and its actions."""

    def __init__(self) -> None:
        self._main: dict[str, Verb] = {"create": create, "get": get, "list": list_, "watch": watch}

    def find(self, resource: Resource, target: Target) -> Verb | Literal["not allowed"] | None:
        """None: there is no such path. ``not allowed``: the path exists, the method does not fit it."""
        verb = target.verb
        if target.subresource:
            return None
        named = verb in ("get", "update", "patch", "delete") or (verb == "create" and bool(target.name))
        if verb == "create" and target.name:
            return "not allowed"
        if verb in ("update", "patch") and not target.name:
            return "not allowed"
        if resource.kind.namespaced and not target.namespace and (named or verb in ("create", "deletecollection")):
            return None if named else "not allowed"
        if verb not in resource.kind.verbs:
            return "not allowed"
        return self._main.get(verb) or "not allowed"


VERBS = Verbs()
