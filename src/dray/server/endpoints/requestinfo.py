"""Request info: verb, resource, subresource, namespace and name of a request, read from its URL as upstream does."""

from __future__ import annotations

from typing import Final

import msgspec

from dray.limiteddict import LimitedDict
from dray.wire.messages import Query

_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
#: How many parts of a path come before the resource: /api/VERSION, /apis/GROUP/VERSION.
_BEFORE_RESOURCE = {"api": 2, "apis": 3}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


#: Collections that objects were created in: most writes go to the same few. Anybody can send long paths, and many.
_MOST_KNOWN: Final = 1024
_LONGEST_KNOWN: Final = 512
_known: LimitedDict[str, RequestInfo] = LimitedDict(_MOST_KNOWN)


class RequestInfo(msgspec.Struct, frozen=True):
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

    @property
    def long_running(self) -> bool:
        """Exempt from the request time-out and from the bound on requests in flight."""
        return self.verb in ("watch", "proxy") or self.subresource in _LONG_SUBRESOURCES


_LONG_SUBRESOURCES = frozenset({"proxy", "attach", "exec", "portforward", "log"})


def request_info(method: str, path: str, query: Query) -> RequestInfo:
    if method != "POST":
        return _read(method, path, query)
    found = _known.get(path)
    if found is None:
        found = _read(method, path, query)
        if found.resource and not found.name and len(path) <= _LONGEST_KNOWN:
            _known[path] = found
    return found


def _read(method: str, path: str, query: Query) -> RequestInfo:
    parts = path.strip("/").split("/")
    prefix, last = parts[0], len(parts) - 1
    at = _BEFORE_RESOURCE.get(prefix, 0)
    if not at or last < at:
        return RequestInfo(path, method.lower())
    group, version = parts[1] if at == 3 else "", parts[at - 1]
    verb = _VERBS.get(method, "")
    legacy = False
    if last > at and parts[at] in ("watch", "proxy"):
        verb, legacy = parts[at], True
        at += 1
    namespace = ""
    if last > at and parts[at] == "namespaces":
        namespace = parts[at + 1]
        if last > at + 1 and parts[at + 2] not in _NAMESPACE_SUBRESOURCES:
            at += 2
    resource = parts[at]
    name = parts[at + 1] if last > at else ""
    subresource = parts[at + 2] if last > at + 1 and not legacy else ""
    rest = tuple(parts[at + 3 :]) if last > at + 2 else ()
    if not name:
        if verb == "get":
            verb = "watch" if query.boolean("watch") else "list"
        elif verb == "delete":
            verb = "deletecollection"
    return RequestInfo(path, verb, prefix, group, version, namespace, resource, name, subresource, rest)
