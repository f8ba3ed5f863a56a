"""From the body of a request to a hub object: parse, check the type it claims to have, default, convert.

Refusals are worded as upstream words them, which depends on how far its decoder gets; the fast path decodes straight
into the expected type, and only a document that does not fit is looked at more closely.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import msgspec

from dray.api import schema
from dray.api.errors import BadRequest
from dray.api.kinds import Object, Version
from dray.server import negotiation
from dray.server.documents import Codec, Codecs, encode
from dray.server.negotiation import input_type
from dray.server.requests import Request
from dray.server.resources import Resources

STRICT, WARN, IGNORE = "Strict", "Warn", "Ignore"

_SCHEME: Final = "pkg/api/legacyscheme/scheme.go:30"
_SUMMARY: Final = 30
_TYPE_STRUCT: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_MAX_YAML_NODES: Final = 1_000_000


class Decoder:
    """Reads bodies that should hold an object of one version of a kind."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def read(self, request: Request, codec: Codec, codecs: Codecs, *, directive: str) -> Object:
        """The body as a hub object, defaulted."""
        return self.hub(self.versioned(request, codec, directive=directive), codec.version, codecs)

    def hub(self, obj: Object, version: Version, codecs: Codecs) -> Object:
        if version.default is not None:
            version.default(obj)
        return codecs.hub_of(obj, version)

    def versioned(self, request: Request, codec: Codec, *, directive: str) -> Object:
        """The body as an object of the version, shaped but not defaulted."""
        body = request.body
        doubled: list[str] = []
        if isinstance(body, bytes):
            match input_type(request, custom=codec.kind.custom):
                case negotiation.YAML:
                    body, doubled = json_from_yaml(body)
                case negotiation.PROTOBUF:
                    body = self._from_protobuf(body, codec)
        try:
            obj, problems = self.shape(body, codec, strict=directive != IGNORE)
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
        return obj

    def _from_protobuf(self, body: bytes, codec: Codec) -> Object:
        from dray.api import protobuf

        if codec.type is None or not protobuf.speaks(codec.type):
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

    def shape(self, body: bytes | Object, codec: Codec, *, strict: bool) -> tuple[Object, list[str]]:
        kind, version = codec.kind, codec.version
        try:
            if codec.type is not None:
                obj, problems = schema.decode(codec.type, body, strict=strict)
            else:
                obj, problems = _custom(body, version)
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


def json_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def split_api_version(text: str) -> tuple[str, str]:
    group, _, version = text.rpartition("/")
    return group, version


def clone(value: Any) -> Any:
    """A deep copy of plain JSON data."""
    if isinstance(value, dict):
        return {k: clone(v) if isinstance(v, dict | list) else v for k, v in value.items()}
    if isinstance(value, list):
        return [clone(v) if isinstance(v, dict | list) else v for v in value]
    return value


def json_from_yaml(data: bytes) -> tuple[bytes, list[str]]:
    """YAML as the JSON upstream makes of it, and what a strict reader would object to."""
    document, problems = load_yaml(data)
    return encode(document), problems


def load_yaml_object(data: bytes) -> tuple[Object, list[str]]:
    """An apply's configuration: one YAML document (JSON is YAML too) that holds an object."""
    try:
        document, problems = load_yaml(data)
    except BadRequest as e:
        raise BadRequest(f"error decoding YAML: {e.message}") from None
    if document is None:
        document = {}
    if not isinstance(document, dict):
        kind = json_name(document)
        words = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        raise BadRequest(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {words}")
    return document, problems


def load_yaml(data: bytes) -> tuple[Any, list[str]]:
    """One document, no dates, no bombs made of aliases; and the keys that occur twice, in upstream's words."""
    if data.lstrip()[:1] == b"{":
        try:
            found = schema.parse(data)
            if isinstance(found.object, dict):
                return found.object, found.problems
        except BadRequest:
            pass  # perhaps YAML in flow style
    import yaml

    loader = _loader()(data)
    try:
        document = loader.get_single_data()
    except yaml.YAMLError as e:
        raise BadRequest(f"error converting YAML to JSON: yaml: {_yaml_problem(e)}") from None
    except (ValueError, RecursionError, OverflowError) as e:
        raise BadRequest(f"error converting YAML to JSON: yaml: {e}") from None
    finally:
        loader.dispose()
    try:
        shaped = _json_values(document, [_MAX_YAML_NODES])
    except RecursionError:
        raise BadRequest("error converting YAML to JSON: yaml: exceeded max depth") from None
    if loader.twice:
        return shaped, ["yaml: unmarshal errors:" + "".join(f"\n  {words}" for words in loader.twice)]
    return shaped, []


def _yaml_problem(error: Any) -> str:
    """The words and the line of go-yaml, which shares libyaml's words but counts lines in its own way."""
    import yaml

    scanning = isinstance(error, yaml.scanner.ScannerError)
    for mark in (getattr(error, "context_mark", None), getattr(error, "problem_mark", None)):
        if mark is not None and mark.line + scanning:
            return f"line {mark.line + scanning}: {error.problem}"
    problem = getattr(error, "problem", None) or str(error).replace("\n", " ")
    return str(problem)


def _json_values(value: Any, budget: list[int]) -> Any:
    budget[0] -= 1
    if budget[0] < 0:
        raise BadRequest("error converting YAML to JSON: yaml: document contains excessive aliasing")
    if isinstance(value, dict):
        return {_json_key(k): _json_values(v, budget) for k, v in value.items()}
    if isinstance(value, list):
        return [_json_values(v, budget) for v in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        raise BadRequest(f"error converting YAML to JSON: json: unsupported value: {value}")
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise BadRequest(f"error converting YAML to JSON: unsupported value of type {type(value).__name__}")


def _json_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise BadRequest(f"error converting YAML to JSON: unsupported map key: {key!r}")


@cache
def _loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        """Safe, without dates (JSON has none, and upstream keeps them as text), and aware of doubled keys."""

        def __init__(self, stream: bytes) -> None:
            super().__init__(stream)
            self.twice: list[str] = []

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        self.twice.append(
                            f'line {key.start_mark.line + 1}: key "{key.value}" already set in map'
                        )
                    seen.add(key.value)
            return super().construct_mapping(node, deep=deep)

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
        for first, found in base.yaml_implicit_resolvers.items()
    }
    return Loader
