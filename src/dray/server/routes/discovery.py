"""Discovery: the served groups, versions and resources, in the legacy and in the aggregated form."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator
from typing import NamedTuple

from dray.api import protobuf
from dray.api.scheme.kinds import Kind, Object
from dray.server.apiserver import APIServer, method_not_allowed, text_not_found
from dray.server.endpoints import negotiation
from dray.server.endpoints.requestinfo import RequestInfo
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responses import RawBody, Response
from dray.server.registry.resources import APIGroup, Resource
from dray.server.storage.codec import encode

#: The media types and versions of aggregated discovery.
_MEDIA = (negotiation.JSON, negotiation.PROTOBUF)
_VERSIONS = ("v2", "v2beta1")
#: Kinds whose hash upstream makes of another version than the one it stores today.
_HASHED_AS = {("apiextensions.k8s.io", "CustomResourceDefinition"): "v1beta1"}
#: The kind an action's body has, where it is not the resource's own.
_ACTION_KINDS = {
    "binding": ("", "", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
    "log": ("", "", ""),
    "exec": ("", "", "PodExecOptions"),
    "attach": ("", "", "PodAttachOptions"),
    "portforward": ("", "", "PodPortForwardOptions"),
    "proxy": ("", "", ""),
}


class Discovery:
    """Answers under ``/api`` and ``/apis``. The documents are made anew only when what is served has changed."""

    def __init__(self, api: APIServer) -> None:
        self._api = api
        self._generation = -1
        self._groups: list[APIGroup] = []
        self._aggregated: dict[tuple[str, bool], _Aggregated] = {}

    def install(self) -> None:
        path_handlers = self._api.path_handlers
        path_handlers["/api"] = self.core
        path_handlers["/apis"] = self.groups
        self._api.prefix_handlers["/api/"] = self.core_version
        self._api.prefix_handlers["/apis/"] = self.group_or_version

    def _refresh(self) -> list[APIGroup]:
        if self._generation != self._api.resources.generation:
            self._generation = self._api.resources.generation
            self._groups = self._api.resources.groups()
            self._aggregated = {}
        return self._groups

    # -- pages

    async def core(self, request: Request, info: RequestInfo) -> Response:
        if (asked := _aggregated_form(request)) is not None:
            return self._aggregate(request, asked, core=True)
        _only_get(request)
        address = request.headers.get("host") or "127.0.0.1:6443"
        return Response(
            200,
            {
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
            },
        )

    async def groups(self, request: Request, info: RequestInfo) -> Response:
        if (asked := _aggregated_form(request)) is not None:
            return self._aggregate(request, asked, core=False)
        _only_get(request)
        listed = [_group(g) for g in self._refresh() if g.name]
        return Response(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})

    async def core_version(self, request: Request, info: RequestInfo) -> Response:
        version = request.path.strip("/").partition("/")[2]
        return self._version(request, "", version)

    async def group_or_version(self, request: Request, info: RequestInfo) -> Response:
        _, name, *rest = request.path.strip("/").split("/")
        if len(rest) > 1:
            return text_not_found()
        if rest:
            return self._version(request, name, rest[0])
        for group in self._refresh():
            if group.name == name:
                _only_get(request)
                return Response(200, {"kind": "APIGroup", "apiVersion": "v1", **_group(group)})
        return text_not_found()

    def _version(self, request: Request, name: str, version: str) -> Response:
        for group in self._refresh():
            if group.name != name:
                continue
            if version in group.versions:
                _only_get(request)
                return Response(200, self._resource_list(group, version))
            if not group.custom:
                raise self._api.unknown_resource()
        return text_not_found()

    def _resource_list(self, group: APIGroup, version: str) -> Object:
        entries = [e for r in group.resources[version] for e in resource_entries(r, version)]
        if not group.custom:
            entries.sort(key=lambda e: e["name"])
        if not group.name:  # upstream's list of the core group does not say its own version
            return {"kind": "APIResourceList", "groupVersion": version, "resources": entries}
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group.name}/{version}",
            "resources": entries,
        }

    # -- aggregated

    def _aggregate(self, request: Request, asked: _AggregatedForm, *, core: bool) -> Response:
        groups = [g for g in self._refresh() if (not g.name) is core]
        found = self._aggregated.get((asked.version, core))
        if found is None:
            document: Object = {
                "kind": "APIGroupDiscoveryList",
                "apiVersion": f"apidiscovery.k8s.io/{asked.version}",
                "metadata": {},
                "items": [_discovery_group(g) for g in groups],
            }
            found = self._aggregated[asked.version, core] = _Aggregated(document)
        content_type = f"{asked.media};g=apidiscovery.k8s.io;v={asked.version};as=APIGroupDiscoveryList"
        headers = [("Etag", f'"{found.digest}"'), ("Vary", "Accept")]
        if request.headers.get("if-none-match").strip('"') == found.digest:
            return Response(304, RawBody(b"", content_type), headers)
        return Response(200, RawBody(found.body(asked.media), content_type), headers)


class _AggregatedForm(NamedTuple):
    """How a client wants aggregated discovery: the media type and the version of ``apidiscovery.k8s.io``."""

    media: str
    version: str


class _Aggregated:
    """A document of aggregated discovery. Its digest is that of the JSON in every media type, as upstream has it."""

    def __init__(self, document: Object) -> None:
        self._document = document
        self._bodies = {negotiation.JSON: encode(document)}
        self.digest = hashlib.sha512(self._bodies[negotiation.JSON]).hexdigest().upper()

    def body(self, media: str) -> bytes:
        if media not in self._bodies:
            self._bodies[media] = protobuf.enclose(self._document)
        return self._bodies[media]


def _only_get(request: Request) -> None:
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed()
    negotiation.negotiate_output(request, transforms=False)


def _aggregated_form(request: Request) -> _AggregatedForm | None:
    """The form of aggregated discovery that the client prefers over the legacy one, if any."""
    accept = request.headers.get("accept")
    if "APIGroupDiscoveryList" not in accept:
        return None
    for clause in negotiation.clauses(accept):
        media = next((m for m in _MEDIA if clause.accepts(m)), None)
        if clause.parameters.get("as") == "APIGroupDiscoveryList":
            version = clause.parameters.get("v", "")
            if media and clause.parameters.get("g") == "apidiscovery.k8s.io" and version in _VERSIONS:
                return _AggregatedForm(media, version)
        elif clause.accepts(negotiation.JSON):
            return None
    return None


def _group(group: APIGroup) -> Object:
    versions = [{"groupVersion": f"{group.name}/{v}", "version": v} for v in group.versions]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def storage_hash(kind: Kind) -> str:
    """Tells clients when a kind's storage version has changed."""
    version = _HASHED_AS.get((kind.group, kind.kind), kind.storage)
    text = f"{kind.group}/{version}/{kind.kind}"
    return b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def resource_entries(resource: Resource, version: str) -> Iterator[Object]:
    """The APIResource entries of one kind: itself, then its subresources by name."""
    kind = resource.kind
    entry: Object = {
        "name": kind.plural,
        "singularName": kind.singular or kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(_verbs(kind)),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if not kind.virtual:
        entry["storageVersionHash"] = storage_hash(kind.stored_as or kind)
    yield entry
    for name, (scope, verbs) in sorted(_subresources(kind).items()):
        sub: Object = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
        group, sub_version, sub_kind = scope
        if group:
            sub |= {"group": group, "version": sub_version}
        yield sub | {"kind": sub_kind, "verbs": list(verbs)}


def _verbs(kind: Kind) -> tuple[str, ...]:
    if kind.custom:
        return ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
    return tuple(sorted(kind.verbs))


def _subresources(kind: Kind) -> dict[str, tuple[tuple[str, str, str], tuple[str, ...]]]:
    found: dict[str, tuple[tuple[str, str, str], tuple[str, ...]]] = {}
    for name in kind.subresources:
        verbs: tuple[str, ...] = ("update",) if name == "finalize" else ("get", "patch", "update")
        found[name] = (("", "", kind.kind), verbs)
    if kind.scale is not None:
        found["scale"] = (("autoscaling", "v1", "Scale"), ("get", "patch", "update"))
    for name, verbs in kind.actions.items():
        scope = _ACTION_KINDS.get(name, ("", "", ""))
        found[name] = (scope if scope[2] else ("", "", kind.kind), tuple(verbs))
    return found


def _discovery_group(group: APIGroup) -> Object:
    metadata: Object = {"name": group.name} if group.name else {}
    metadata["creationTimestamp"] = None
    versions = []
    for version in group.versions:
        resources = [_discovery_resource(r, version) for r in group.resources[version]]
        versions.append({"version": version, "resources": resources, "freshness": "Current"})
    return {"metadata": metadata, "versions": versions}


def _discovery_resource(resource: Resource, version: str) -> Object:
    kind = resource.kind
    main, *subs = resource_entries(resource, version)
    found: Object = {
        "resource": kind.plural,
        # Where group and version are those of the list, upstream leaves them empty.
        "responseKind": {"group": "", "version": "", "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": main["singularName"],
        "verbs": main["verbs"],
    }
    if kind.short_names:
        found["shortNames"] = list(kind.short_names)
    if kind.categories:
        found["categories"] = list(kind.categories)
    if subs:
        found["subresources"] = [
            {
                "subresource": s["name"].partition("/")[2],
                "responseKind": {
                    "group": s.get("group", ""),
                    "version": s.get("version", ""),
                    "kind": s["kind"],
                },
                "verbs": s["verbs"],
            }
            for s in subs
        ]
    return found
