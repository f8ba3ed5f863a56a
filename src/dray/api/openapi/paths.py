"""The operations of kinds as OpenAPI paths, in v3's form; ``swagger`` turns them into v2's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from dray.api.openapi.schemas import Schemas
from dray.api.scheme.kinds import Kind, Version

Node = dict[str, Any]

_JSON: Final = "application/json"
_OBJECTS: Final = (_JSON, "application/yaml")
_LISTS: Final = (_JSON, f"{_JSON};stream=watch", "application/yaml")
_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_STATUS: Final = "meta/v1.Status"
_SCALE: Final = "autoscaling/v1.Scale"
#: The types that actions take, where it is not plain text.
_ACTION_TYPES: Final = {
    "binding": ("core/v1.Binding", ("", "v1", "Binding")),
    "eviction": ("policy/v1.Eviction", ("policy", "v1", "Eviction")),
    "token": ("authentication/v1.TokenRequest", ("authentication.k8s.io", "v1", "TokenRequest")),
}
_METHODS: Final = {"create": "post", "get": "get", "update": "put", "patch": "patch", "delete": "delete"}


def _query(name: str, type_: str, description: str) -> Node:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": {"type": type_, "uniqueItems": True},
    }


def _path(name: str, description: str) -> Node:
    return {
        "name": name,
        "in": "path",
        "description": description,
        "required": True,
        "schema": {"type": "string", "uniqueItems": True},
    }


_PRETTY: Final = _query("pretty", "string", "Whether to indent the answer.")
_NAMESPACE: Final = _path("namespace", "The namespace to work in.")
_DRY_RUN: Final = _query("dryRun", "string", "`All` goes through every step but stores nothing.")
_MANAGER: Final = _query("fieldManager", "string", "Who owns the written fields; required for apply.")
_VALIDATION: Final = _query(
    "fieldValidation",
    "string",
    "What to do about unknown or duplicate fields: `Ignore` drops them, `Warn` (the default) says so in Warning "
    "headers, `Strict` refuses the request.",
)
_FORCE: Final = _query("force", "boolean", "Take over fields that others own; only for apply.")
_WRITE: Final = (_DRY_RUN, _MANAGER, _VALIDATION)
_DELETE: Final = (
    _DRY_RUN,
    _query("gracePeriodSeconds", "integer", "How long the object may take to finish; 0 removes it at once."),
    _query("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
    _query("propagationPolicy", "string", "What happens to dependents: Orphan, Background or Foreground."),
)
_SELECT: Final = (
    _query("continue", "string", "Where the next page of a list begins; comes with the page before."),
    _query("fieldSelector", "string", "Only objects whose fields match."),
    _query("labelSelector", "string", "Only objects whose labels match."),
    _query("limit", "integer", "The most objects on one page."),
    _query("resourceVersion", "string", "The version the answer must be at, or at least."),
    _query("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."),
    _query("sendInitialEvents", "boolean", "Begin a watch with the objects there are."),
    _query("timeoutSeconds", "integer", "How long a list or watch may take."),
)
_WATCH: Final = (
    _query("allowWatchBookmarks", "boolean", "Send bookmarks now and then during a watch."),
    _query("watch", "boolean", "Follow changes instead of listing."),
)


def of_kind(kind: Kind, version: Version, schemas: Schemas) -> Iterator[tuple[str, Node]]:
    """All paths of a kind in a version; the schemas they need are collected on the way."""
    return _Paths(kind, version, schemas).all()


class _Paths:
    def __init__(self, kind: Kind, version: Version, schemas: Schemas) -> None:
        self.kind = kind
        self.version = version
        self.schemas = schemas
        base = f"/apis/{kind.group}/{version.name}" if kind.group else f"/api/{version.name}"
        self.base = base
        self.scope = f"{base}/namespaces/{{namespace}}" if kind.namespaced else base
        self.gvk = {"group": kind.group, "kind": kind.kind, "version": version.name}
        group = "".join(p.capitalize() for p in _group_words(kind.group))
        self.group_version = f"{group}{version.name.capitalize()}"
        self.tag = f"{group[:1].lower()}{group[1:]}_{version.name}"
        self.object = schemas.kind_ref(kind, version)

    def all(self) -> Iterator[tuple[str, Node]]:
        kind = self.kind
        collection, item = f"{self.scope}/{kind.plural}", f"{self.scope}/{kind.plural}/{{name}}"
        if node := self._collection():
            yield collection, node
        if kind.namespaced and "list" in kind.verbs:
            yield f"{self.base}/{kind.plural}", self._list_everywhere()
        if node := self._item():
            yield item, node
        for view in kind.subresources:
            yield f"{item}/{view}", self._view(view, self.object)
        if kind.scale is not None:
            yield f"{item}/scale", self._view("scale", self.schemas.ref(_SCALE))
        for action, verbs in kind.actions.items():
            yield f"{item}/{action}", self._action(action, verbs)
        if "watch" in kind.verbs:
            yield from self._watches()

    def _collection(self) -> Node:
        node: Node = {}
        verbs = self.kind.verbs
        if "list" in verbs:
            node["get"] = self._operation(
                "list", "list", parameters=(*_WATCH[:1], *_SELECT, *_WATCH[1:]), lists=True
            )
        if "create" in verbs:
            node["post"] = self._operation(
                "create", "post", body=self.object, parameters=_WRITE, created=True
            )
        if "deletecollection" in verbs:
            node["delete"] = self._operation(
                "deleteCollection",
                "deletecollection",
                body=self.schemas.ref("meta/v1.DeleteOptions"),
                parameters=(*_DELETE, *_SELECT),
                answer=self.schemas.ref(_STATUS),
            )
        if node:
            node["parameters"] = [*([_NAMESPACE] if self.kind.namespaced else ()), _PRETTY]
        return node

    def _list_everywhere(self) -> Node:
        operation = self._operation("list", "list", lists=True, suffix="ForAllNamespaces", namespaced=False)
        return {"get": operation, "parameters": [*_WATCH[:1], *_SELECT, _PRETTY, *_WATCH[1:]]}

    def _item(self) -> Node:
        node: Node = {}
        verbs = self.kind.verbs
        if "get" in verbs:
            node["get"] = self._operation("read", "get")
        if "update" in verbs:
            node["put"] = self._operation("replace", "put", body=self.object, parameters=_WRITE, created=True)
        if "patch" in verbs:
            node["patch"] = self._patch("")
        if "delete" in verbs:
            node["delete"] = self._operation(
                "delete",
                "delete",
                body=self.schemas.ref("meta/v1.DeleteOptions"),
                parameters=_DELETE,
                answer=self.object if self.kind.strategy.delete_returns_object else self.schemas.ref(_STATUS),
            )
        if node:
            node["parameters"] = self._named()
        return node

    def _named(self) -> list[Node]:
        name = _path("name", f"The name of the {self.kind.kind}.")
        return [name, *([_NAMESPACE] if self.kind.namespaced else ()), _PRETTY]

    def _view(self, view: str, object_: Node) -> Node:
        suffix = "".join(p.capitalize() for p in view.split("-"))
        gvk = {"group": "autoscaling", "kind": "Scale", "version": "v1"} if view == "scale" else None
        return {
            "get": self._operation("read", "get", suffix=suffix, answer=object_, gvk=gvk),
            "put": self._operation(
                "replace",
                "put",
                suffix=suffix,
                body=object_,
                answer=object_,
                parameters=_WRITE,
                created=True,
                gvk=gvk,
            ),
            "patch": self._patch(suffix, answer=object_, gvk=gvk),
            "parameters": self._named(),
        }

    def _action(self, action: str, verbs: Iterable[str]) -> Node:
        suffix = action.capitalize()
        node: Node = {}
        type_name, kind = _ACTION_TYPES.get(action, ("", ("", "", "")))
        gvk = dict(zip(("group", "version", "kind"), kind, strict=True)) if type_name else None
        answer = self.schemas.ref(type_name) if type_name else {"type": "string"}
        for verb in verbs:
            method = _METHODS.get(verb)
            if method is None:
                continue
            body = self.schemas.ref(type_name) if type_name and method != "get" else None
            node[method] = self._operation(
                verb if type_name else "connect",
                method if type_name else "connect",
                suffix=suffix,
                body=body,
                answer=answer,
                parameters=_WRITE if body else (),
                gvk=gvk,
            )
        node["parameters"] = self._named()
        return node

    def _watches(self) -> Iterator[tuple[str, Node]]:
        """The old way to watch, by path."""
        plural = self.kind.plural
        event = self.schemas.ref("meta/v1.WatchEvent")
        parameters = [*_WATCH[:1], *_SELECT, _PRETTY, *_WATCH[1:]]
        scope = self.scope.removeprefix(self.base)
        watch = f"{self.base}/watch"
        listing = self._operation("watch", "watchlist", suffix="List", answer=event, stream=True)
        space = [_NAMESPACE] if self.kind.namespaced else []
        yield f"{watch}{scope}/{plural}", {"get": listing, "parameters": [*space, *parameters]}
        if self.kind.namespaced:
            listing = self._operation(
                "watch",
                "watchlist",
                suffix="ListForAllNamespaces",
                answer=event,
                stream=True,
                namespaced=False,
            )
            yield f"{watch}/{plural}", {"get": listing, "parameters": parameters}
        one = self._operation("watch", "watch", answer=event, stream=True)
        yield f"{watch}{scope}/{plural}/{{name}}", {"get": one, "parameters": [*self._named(), *parameters]}

    def _patch(self, suffix: str, *, answer: Node | None = None, gvk: Node | None = None) -> Node:
        patch = self.schemas.add("io.k8s.apimachinery.pkg.apis.meta.v1.Patch", {"type": "object"})
        media = _PATCHES if self.kind.custom else (*_PATCHES, _STRATEGIC)
        return self._operation(
            "patch",
            "patch",
            suffix=suffix,
            body=patch,
            body_media=media,
            answer=answer,
            parameters=(*_WRITE, _FORCE),
            created=True,
            gvk=gvk,
        )

    def _operation(
        self,
        verb: str,
        action: str,
        *,
        body: Node | None = None,
        body_media: tuple[str, ...] = ("*/*",),
        answer: Node | None = None,
        parameters: Iterable[Node] = (),
        suffix: str = "",
        created: bool = False,
        lists: bool = False,
        stream: bool = False,
        namespaced: bool = True,
        gvk: Node | None = None,
    ) -> Node:
        if lists:
            answer = self.schemas.list_ref(self.kind, self.version)
        media = _LISTS if lists or stream else _OBJECTS
        content = {m: {"schema": answer or self.object} for m in media}
        responses: Node = {"200": {"description": "OK", "content": content}}
        if created:
            responses["201"] = {"description": "Created", "content": content}
        responses["401"] = {"description": "Unauthorized"}
        scope = "Namespaced" if self.kind.namespaced and namespaced else ""
        operation: Node = {
            "tags": [self.tag],
            "description": f"{_WORDS.get(verb, verb)} {self.kind.kind}",
            "operationId": f"{verb}{self.group_version}{scope}{self.kind.kind}{suffix}",
        }
        if parameters := list(parameters):
            operation["parameters"] = parameters
        if body is not None:
            operation["requestBody"] = {
                "content": {m: {"schema": body} for m in body_media},
                "required": verb not in ("delete", "deleteCollection"),
            }
            if not operation["requestBody"]["required"]:
                del operation["requestBody"]["required"]
        operation["responses"] = responses
        operation["x-kubernetes-action"] = action
        operation["x-kubernetes-group-version-kind"] = gvk or self.gvk
        return operation


_WORDS: Final = {
    "read": "Read the named",
    "list": "List or watch objects of kind",
    "create": "Create a",
    "replace": "Replace the named",
    "patch": "Change parts of the named",
    "delete": "Delete a",
    "deleteCollection": "Delete a collection of",
    "watch": "Follow changes to objects of kind",
    "connect": "Connect to",
}


def _group_words(group: str) -> list[str]:
    """``rbac.authorization.k8s.io`` reads RbacAuthorization; the core group has a name here, too."""
    if not group:
        return ["core"]
    return group.removesuffix(".k8s.io").replace("-", ".").split(".")
