"""OpenAPI documents of what a server serves: v3 by group and version, and v2 as a whole.

Nothing is made before somebody asks. A document's hash comes from what goes into it, so that the index, which lists
every document with its hash, costs next to nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from dray.api.openapi import paths, protobuf, swagger
from dray.api.openapi.schemas import CustomSchema, Schemas
from dray.api.release import Release
from dray.api.scheme.kinds import Kind, Version

__all__ = ["Document", "OpenAPI"]

_encode = msgspec.json.Encoder().encode
_SECURITY = {
    "BearerToken": {
        "type": "apiKey",
        "name": "authorization",
        "in": "header",
        "description": "Bearer token authentication",
    }
}


#: How deep dicts and lists of custom schemas are nested where recursion is Python's; real ones stay far below.
_DEEPEST = 150


class Document(NamedTuple):
    """An encoded document and its hash, which is its ETag, too."""

    data: bytes
    hash: str


def _no_schema(kind: Kind, version: Version) -> dict[str, Any] | None:
    return None


@dataclass(kw_only=True)
class OpenAPI:
    """The documents for a fixed set of kinds. Make a new one when the set changes.

    ``served`` are the kinds with the names of their served versions; ``release`` bounds the fields (None: all);
    ``custom`` gives the schemas of custom resources.
    """

    served: Iterable[tuple[Kind, Iterable[str]]]
    release: Release | None = None
    server_version: str = "unversioned"
    custom: CustomSchema = _no_schema
    _groups: dict[str, list[tuple[Kind, Version]]] = field(init=False, default_factory=dict)
    _made: dict[str, Document] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for kind, versions in self.served:
            for name in versions:
                at = f"apis/{kind.group}/{name}" if kind.group else f"api/{name}"
                self._groups.setdefault(at, []).append((kind, kind.version(name)))

    def index(self) -> Document:
        """``/openapi/v3``: where each document is found, with its hash."""
        listed = {
            at: {"serverRelativeURL": f"/openapi/v3/{at}?hash={self._hash(at)}"} for at in self._locations()
        }
        return Document(_encode({"paths": listed}), self._hash(""))

    def v3(self, at: str) -> Document | None:
        """The document of ``api/v1``, ``apis/GROUP/VERSION`` or ``apis/GROUP``; None if there is none."""
        if at not in self._locations():
            return None
        return self._cached(at, lambda: _encode(self._v3(at)))

    def v2(self) -> Document:
        """``/openapi/v2``: everything in one document."""
        return self._cached("v2", lambda: _encode(self._v2()))

    def v2_protobuf(self) -> Document:
        """The same for clients that ask for protobuf (``protobuf.accepted``); answer as ``protobuf.ANSWER_TYPE``."""
        return self._cached("v2.pb", lambda: protobuf.encode(self._v2(custom=self._shallow)))

    def is_made(self, at: str) -> bool:
        """Whether a document (``v2``, ``v2.pb`` or that of v3) has been asked for before; making one takes a while."""
        return at in self._made

    def _locations(self) -> list[str]:
        groups = sorted({at.rpartition("/")[0] for at in self._groups if at.startswith("apis/")})
        return sorted(["api", "apis", "version", *groups, *self._groups])

    def _cached(self, at: str, make: Callable[[], bytes]) -> Document:
        if (made := self._made.get(at)) is None:
            made = self._made[at] = Document(make(), self._hash(at))
        return made

    def _hash(self, at: str) -> str:
        """Of everything the document is made from; custom schemas are few and small."""
        digest = hashlib.sha512(f"{self.server_version} {self.release} {at}".encode())
        for where, kinds in sorted(self._groups.items()):
            if not at or at.startswith("v2") or where == at or where.startswith(f"{at}/"):
                for kind, version in kinds:
                    digest.update(
                        f"{where} {kind.kind} {kind.plural} {kind.verbs} {list(kind.subresources)}".encode()
                    )
                    if kind.custom:
                        digest.update(_encode(self.custom(kind, version)))
        return digest.hexdigest().upper()

    def _v3(self, at: str) -> dict[str, Any]:
        schemas = Schemas(release=self.release, v3=True, custom=self.custom)
        found = self._paths(at, schemas)
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": self.server_version},
            "paths": found,
            "components": {"schemas": schemas.finish(), "securitySchemes": _SECURITY},
        }

    def _paths(self, at: str, schemas: Schemas) -> dict[str, Any]:
        if at not in self._groups:
            return {f"/{at}/": _information(at, schemas)}
        found = {f"/{at}/": _information(at, schemas)}
        for kind, version in self._groups[at]:
            found.update(paths.of_kind(kind, version, schemas))
        return dict(sorted(found.items()))

    def _shallow(self, kind: Kind, version: Version) -> dict[str, Any] | None:
        """A custom schema as far as it can be nested in protobuf."""
        schema = self.custom(kind, version)
        return None if schema is None else _pruned(schema, _DEEPEST)

    def _v2(self, *, custom: CustomSchema | None = None) -> dict[str, Any]:
        schemas = Schemas(release=self.release, v3=False, custom=custom or self.custom)
        found: dict[str, Any] = {}
        for at in self._locations():
            found.update(self._paths(at, schemas))
        return {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": self.server_version},
            "paths": swagger.paths(dict(sorted(found.items()))),
            "definitions": schemas.finish(),
            "securityDefinitions": _SECURITY,
            "security": [{"BearerToken": []}],
        }


def _pruned(value: Any, depth: int) -> Any:
    """The same without what is nested deeper; there anything goes."""
    if isinstance(value, dict):
        return {key: _pruned(inner, depth - 1) for key, inner in value.items()} if depth > 0 else {}
    if isinstance(value, list):
        return [_pruned(inner, depth - 1) for inner in value] if depth > 0 else []
    return value


def _information(at: str, schemas: Schemas) -> dict[str, Any]:
    """The page that says what there is below a path."""
    depth = at.count("/")
    match at.partition("/")[0], depth:
        case "version", _:
            answer: dict[str, Any] = {"type": "object"}
        case "api", 0:
            answer = schemas.ref("meta/v1.APIVersions")
        case "apis", 0:
            answer = schemas.ref("meta/v1.APIGroupList")
        case "apis", 1:
            answer = schemas.ref("meta/v1.APIGroup")
        case _:
            answer = schemas.ref("meta/v1.APIResourceList")
    content = {media: {"schema": answer} for media in ("application/json", "application/yaml")}
    return {
        "get": {
            "description": "List what is available here",
            "operationId": "get" + "".join(p.capitalize() for p in at.replace(".", "/").split("/")),
            "responses": {
                "200": {"description": "OK", "content": content},
                "401": {"description": "Unauthorized"},
            },
        }
    }
