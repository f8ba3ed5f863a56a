"""From a method and a path to what is asked for: the resource, the object, the verb; as upstream reads a URL."""

from __future__ import annotations

from typing import NamedTuple

from dray.server.requests import Query

_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class Target(NamedTuple):
    """What a request is about. A path outside ``/api`` and ``/apis`` (or short of a resource) has no ``resource``."""

    path: str
    verb: str
    prefix: str = ""
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    rest: tuple[str, ...] = ()  # what follows the subresource
    legacy_watch: bool = False  # /api/v1/watch/...

    @property
    def is_resource(self) -> bool:
        return bool(self.resource)

    @property
    def long_running(self) -> bool:
        """Exempt from the request time-out and from the bound on requests in flight."""
        return self.verb in ("watch", "proxy") or self.subresource in _LONG_SUBRESOURCES


_LONG_SUBRESOURCES = frozenset({"proxy", "attach", "exec", "portforward", "log"})


def target_of(method: str, path: str, query: Query) -> Target:
    parts = path.strip("/").split("/")
    if len(parts) < 3 or parts[0] not in ("api", "apis"):
        return Target(path, method.lower())
    prefix, group = parts[0], ""
    at = 1
    if prefix == "apis":
        if len(parts) < 4:
            return Target(path, method.lower())
        group, at = parts[1], 2
    version = parts[at]
    parts = parts[at + 1 :]
    verb = _VERBS.get(method, "")
    legacy = False
    if parts[0] in ("watch", "proxy") and len(parts) > 1:
        verb, legacy = parts[0], True
        parts = parts[1:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource = parts[0]
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 and not legacy else ""
    if not name:
        if verb == "get":
            verb = "watch" if query.boolean("watch") else "list"
        elif verb == "delete":
            verb = "deletecollection"
    return Target(
        path, verb, prefix, group, version, namespace, resource, name, subresource, tuple(parts[3:]), legacy
    )
