"""From the body of a request to a hub object: parse, check the type it claims to have, default, convert.

Refusals are worded as upstream words them, which depends on how far its decoder gets; the fast path decodes straight
into the expected type, and only a document that does not fit is looked at more closely.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dray.api import schema
from dray.api.errors import BadRequest
from dray.api.objects import clone
from dray.api.scheme.kinds import Object, Version
from dray.server.endpoints import negotiation
from dray.server.endpoints.negotiation import negotiate_input
from dray.server.endpoints.requests import Request
from dray.server.endpoints.yamljson import json_from_yaml, json_name
from dray.server.registry.resources import Resources
from dray.server.storage.codec import Codec, Codecs, encode

STRICT, WARN, IGNORE = "Strict", "Warn", "Ignore"

_SCHEME: Final = "pkg/api/legacyscheme/scheme.go:30"
_SUMMARY: Final = 30
_TYPE_STRUCT: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


class Decoder:
    """Reads bodies that should hold an object of one version of a kind."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def read(
        self, request: Request, codec: Codec, codecs: Codecs, *, directive: str, known: Object | None = None
    ) -> Object:
        """The body as a hub object, defaulted. ``known``: the object it may have been made from, in this version."""
        return self.hub(
            self.versioned(request, codec, directive=directive, known=known), codec.version, codecs
        )

    def hub(self, obj: Object, version: Version, codecs: Codecs) -> Object:
        if version.default is not None:
            version.default(obj)
        return codecs.hub_of(obj, version)

    def versioned(
        self, request: Request, codec: Codec, *, directive: str, known: Object | None = None
    ) -> Any:
        """The body as an object of the version, shaped but not defaulted."""
        body = request.body
        doubled: list[str] = []
        if isinstance(body, bytes):
            match negotiate_input(request, custom=codec.kind.custom):
                case negotiation.YAML:
                    if request.yaml_problems is None:
                        body, doubled = json_from_yaml(body)
                    else:
                        doubled = request.yaml_problems
                case negotiation.PROTOBUF:
                    body = self._from_protobuf(body, codec)
        try:
            obj, problems = self.shape(body, codec, strict=directive != IGNORE, known=known)
        except WrongVersion as e:
            if directive == WARN:
                for problem in e.problems:
                    request.warn(problem)
            raise
        problems = [*doubled, *problems] if doubled else problems
        if problems and directive == STRICT:
            raise _not_handled(
                codec, codec.kind.kind, codec.version.name, "strict decoding error: " + ", ".join(problems)
            )
        if directive == WARN:
            for problem in problems:
                request.warn(problem)
        if request.audit_context is not None:
            request.audit_context.sent(clone(obj))
        return obj

    def _from_protobuf(self, body: bytes, codec: Codec) -> Object:
        from dray.api import protobuf

        if codec.type is None or not protobuf.has_protobuf(codec.type):
            raise negotiation.unsupported(negotiation.OFFERED)
        try:
            found = protobuf.unwrap(body)
        except protobuf.Malformed as e:
            raise _unrecognized(codec, str(e), body) from None
        named = {"kind": found.kind or codec.kind.kind, "apiVersion": found.api_version or codec.api_version}
        if named != {"kind": codec.kind.kind, "apiVersion": codec.api_version}:
            return named  # and no more: it is about to be refused for its type
        try:
            return named | protobuf.decode(codec.type, found.message)
        except protobuf.Malformed as e:
            raise _not_handled(codec, codec.kind.kind, codec.version.name, str(e)) from None

    def shape(
        self, body: bytes | Object, codec: Codec, *, strict: bool, known: Object | None = None
    ) -> tuple[Object, list[str]]:
        """``known`` is a shaped object; what ``body`` took over from it need not be shaped again."""
        kind, type_ = codec.kind, codec.type
        try:
            if type_ is None:
                obj, problems = _custom(body, codec.version)
            elif known is not None and isinstance(body, dict):
                obj, problems = schema.reshape(type_, body, known)
                if obj.get("metadata") is known.get("metadata") and obj.get("metadata"):
                    obj["metadata"] = dict(obj["metadata"])
            else:
                obj, problems = schema.decode(type_, body, strict=strict)
        except BadRequest as e:
            raise self._explain(body, codec, e) from None
        api_version, name = obj.get("apiVersion", ""), obj.get("kind", "")
        if api_version != codec.api_version or name != kind.kind:
            if (api_version and api_version != codec.api_version) or (name and name != kind.kind):
                self._check_type(body, codec, api_version, name)
            obj.pop("kind", None)
            obj.pop("apiVersion", None)
            obj = {"kind": kind.kind, "apiVersion": codec.api_version, **obj}
        if not isinstance(obj.get("metadata"), dict):
            obj["metadata"] = {}
        return obj, problems

    def _check_type(self, body: bytes | Object, codec: Codec, api_version: str, name: str) -> None:
        """Refuse an object that says it is something else."""
        group, version = split_api_version(api_version or codec.api_version)
        name = name or codec.kind.kind
        if codec.kind.custom:
            if api_version and api_version != codec.api_version:
                raise _wrong_version(api_version, codec)
            expected = f"{codec.kind.group}, Kind={codec.kind.kind}"
            found = f"{group}, Kind={name}"
            raise BadRequest(
                f"the object provided is unrecognized (must be of type {codec.kind.kind}): {found} is not {expected}"
            )
        known = self._resources.named(group, version, name)
        if known is None:
            problem = f'no kind "{name}" is registered for version "{api_version or codec.api_version}" in scheme "{_SCHEME}"'
            raise _not_handled(codec, name, version, problem)
        if known.kind != codec.kind.kind or known.group != codec.kind.group:
            source = f"{version}.{name}"
            target = f"{(codec.kind.group or 'core').partition('.')[0]}.{codec.kind.kind}"
            raise _not_handled(
                codec, name, version, f"converting ({source}) to ({target}): unknown conversion"
            )
        error = _wrong_version(api_version, codec)
        error.problems = self._problems_as(body, codec, version)
        raise error

    def _problems_as(self, body: bytes | Object, codec: Codec, version: str) -> list[str]:
        """What a strict reader says about the object in the version it claims; upstream reads it before refusing it."""
        claimed = self._resources.find(codec.kind.group, version, codec.kind.plural)
        if claimed is None or claimed[1].type is None:
            return []
        try:
            return schema.decode(claimed[1].type, body, strict=True).problems
        except BadRequest:
            return []

    def _explain(self, body: bytes | Object, codec: Codec, error: BadRequest) -> BadRequest:
        """Put upstream's frame around what is wrong with a document."""
        data = body if isinstance(body, bytes) else encode(body)
        try:
            head: Any = schema.parse(data).object if data.lstrip()[:1] == b"{" else msgspec.json.decode(data)
        except BadRequest as e:
            return _unrecognized(codec, f"couldn't get version/kind; json parse error: {e.message}", data)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return _unrecognized(codec, f"couldn't get version/kind; json parse error: {error.message}", data)
        if not isinstance(head, dict):
            problem = f"json: cannot unmarshal {json_name(head)} into Go value of type {_TYPE_STRUCT}"
            return _unrecognized(codec, f"couldn't get version/kind; json parse error: {problem}", data)
        for key, field in (("apiVersion", "apiVersion"), ("kind", "kind")):
            value = head.get(key)
            if value is not None and not isinstance(value, str):
                problem = (
                    f"json: cannot unmarshal {json_name(value)} into Go struct field .{field} of type string"
                )
                return _unrecognized(codec, f"couldn't get version/kind; json parse error: {problem}", data)
        api_version, name = head.get("apiVersion") or "", head.get("kind") or ""
        if (api_version and api_version != codec.api_version) or (name and name != codec.kind.kind):
            try:
                self._check_type(body, codec, api_version, name)
            except BadRequest as e:
                return e
        return _not_handled(codec, name or codec.kind.kind, codec.version.name, error.message)


def _custom(body: bytes | Object, version: Version) -> tuple[Object, list[str]]:
    if isinstance(body, bytes):
        obj, problems = schema.parse(body)
        if not isinstance(obj, dict):
            raise BadRequest("not an object")
    else:
        obj, problems = clone(body), []
    if version.prune is not None:
        problems = [*problems, *version.prune(obj)]
    return obj, problems


def _not_handled(codec: Codec, name: str, version: str, problem: str) -> BadRequest:
    return BadRequest(f'{name} in version "{version}" cannot be handled as a {codec.kind.kind}: {problem}')


class WrongVersion(BadRequest):
    """The object is of the right kind, but in another version than the URL says."""

    problems: Sequence[str] = ()


def _wrong_version(found: str, codec: Codec) -> WrongVersion:
    return WrongVersion(
        f"the API version in the data ({found}) does not match the expected API version ({codec.api_version})"
    )


def _unrecognized(codec: Codec, problem: str, data: bytes) -> BadRequest:
    return BadRequest(
        f"the object provided is unrecognized (must be of type {codec.kind.kind}): {problem} ({_summary(data)})"
    )


def _summary(data: bytes) -> str:
    if not data:
        return "<empty>"
    cut, more = data[:_SUMMARY], " ..." if len(data) > _SUMMARY else ""
    return (cut.decode("utf-8", "replace") if data[:1] == b"{" else cut.hex()) + more


def split_api_version(text: str) -> tuple[str, str]:
    group, _, version = text.rpartition("/")
    return group, version
