"""An OpenAPI v2 document in protobuf, the only form in which some clients read it (message openapi.v2.Document).

A table per message says which member of the JSON goes into which field and how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from struct import pack
from typing import Any, Final

import msgspec

from dray.api.protobuf.wire import key, sized, varint

#: What clients ask for, and what the answer is called: the older name is none that Go's own parser would take.
MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
ANSWER_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_json: Final = msgspec.json.Encoder().encode


def accepted(accept: str) -> bool:
    """Whether an Accept header asks for this form, by either name."""
    return MEDIA_TYPE in accept or ANSWER_TYPE in accept


def encode(document: Mapping[str, Any]) -> bytes:
    return _message("Document", document)


def _block(field: int, data: bytes) -> bytes:
    return key(field, 2) + sized(data)


def _text(field: int, value: str) -> bytes:
    return _block(field, value.encode())


def _texts(field: int, values: Iterable[str]) -> bytes:
    return b"".join(_text(field, v) for v in values)


def _bool(field: int, value: bool) -> bytes:
    return key(field, 0) + b"\1" if value else b""


def _int(field: int, value: int) -> bytes:
    return key(field, 0) + varint(int(value))


def _double(field: int, value: float) -> bytes:
    return key(field, 1) + pack("<d", value)


def _any(field: int, value: Any) -> bytes:
    """Free-form values travel as YAML, of which JSON is a part."""
    return _block(field, _block(2, _json(value)))


def _anys(field: int, values: Iterable[Any]) -> bytes:
    return b"".join(_any(field, v) for v in values)


def _type(field: int, value: Any) -> bytes:
    return _block(field, _texts(1, [value] if isinstance(value, str) else value))


def _additional(field: int, value: Any) -> bytes:
    inner = _bool(2, value) if isinstance(value, bool) else _block(1, _message("Schema", value))
    return _block(field, inner)


def _items(field: int, value: Any) -> bytes:
    return _block(field, _block(1, _message("Schema", value)))


def _parameters(field: int, values: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(_block(field, _block(1, _parameter(v))) for v in values)


def _parameter(value: Mapping[str, Any]) -> bytes:
    match value["in"]:
        case "body":
            return _block(1, _message("BodyParameter", value))
        case "path":
            return _block(2, _block(4, _message("PathParameter", value)))
    return _block(2, _block(3, _message("QueryParameter", value)))


def _response(value: Mapping[str, Any]) -> bytes:
    out = _text(1, value["description"])
    if "schema" in value:
        out += _block(2, _block(1, _message("Schema", value["schema"])))
    return _block(1, out)


def _named(field: int, members: Mapping[str, Any], encode_one: Callable[[Any], bytes]) -> bytes:
    """A map as a list of names with values."""
    return b"".join(_block(field, _text(1, k) + _block(2, encode_one(v))) for k, v in members.items())


def _one(message: str) -> Callable[[int, Any], bytes]:
    return lambda field, value: _block(field, _message(message, value))


def _map_of(message: str, inner: int = 1) -> Callable[[int, Any], bytes]:
    return lambda field, value: _block(field, _named(inner, value, lambda v: _message(message, v)))


def _security(field: int, values: Iterable[Mapping[str, list[str]]]) -> bytes:
    return b"".join(_block(field, _named(1, v, lambda scopes: _texts(1, scopes))) for v in values)


def _security_definitions(field: int, value: Mapping[str, Any]) -> bytes:
    return _block(field, _named(1, value, lambda v: _block(2, _message("ApiKey", v))))


_Field = tuple[int, Callable[[int, Any], bytes]]
_PARAMETER: Final[dict[str, _Field]] = {
    "required": (1, _bool), "in": (2, _text), "description": (3, _text), "name": (4, _text),
}  # fmt: skip
_MESSAGES: Final[dict[str, dict[str, _Field]]] = {
    "Document": {
        "swagger": (1, _text),
        "info": (2, _one("Info")),
        "paths": (8, _map_of("PathItem", inner=2)),
        "definitions": (9, _map_of("Schema")),
        "security": (12, _security),
        "securityDefinitions": (13, _security_definitions),
    },
    "Info": {"title": (1, _text), "version": (2, _text), "description": (3, _text)},
    "ApiKey": {"type": (1, _text), "name": (2, _text), "in": (3, _text), "description": (4, _text)},
    "PathItem": {
        "get": (2, _one("Operation")),
        "put": (3, _one("Operation")),
        "post": (4, _one("Operation")),
        "delete": (5, _one("Operation")),
        "patch": (8, _one("Operation")),
        "parameters": (9, _parameters),
    },
    "Operation": {
        "tags": (1, _texts),
        "description": (3, _text),
        "operationId": (5, _text),
        "produces": (6, _texts),
        "consumes": (7, _texts),
        "parameters": (8, _parameters),
        "responses": (9, lambda field, value: _block(field, _named(1, value, _response))),
        "schemes": (10, _texts),
        "x-": (13, _any),
    },
    "BodyParameter": {
        "description": (1, _text),
        "name": (2, _text),
        "in": (3, _text),
        "required": (4, _bool),
        "schema": (5, _one("Schema")),
    },
    "PathParameter": {**_PARAMETER, "type": (5, _text), "uniqueItems": (19, _bool)},
    "QueryParameter": {**_PARAMETER, "type": (6, _text), "uniqueItems": (20, _bool)},
    "Schema": {
        "$ref": (1, _text),
        "format": (2, _text),
        "title": (3, _text),
        "description": (4, _text),
        "default": (5, _any),
        "multipleOf": (6, _double),
        "maximum": (7, _double),
        "exclusiveMaximum": (8, _bool),
        "minimum": (9, _double),
        "exclusiveMinimum": (10, _bool),
        "maxLength": (11, _int),
        "minLength": (12, _int),
        "pattern": (13, _text),
        "maxItems": (14, _int),
        "minItems": (15, _int),
        "uniqueItems": (16, _bool),
        "maxProperties": (17, _int),
        "minProperties": (18, _int),
        "required": (19, _texts),
        "enum": (20, _anys),
        "additionalProperties": (21, _additional),
        "type": (22, _type),
        "items": (23, _items),
        "allOf": (24, lambda field, value: b"".join(_block(field, _message("Schema", v)) for v in value)),
        "properties": (25, _map_of("Schema")),
        "example": (30, _any),
        "x-": (31, _any),
    },
}


def _message(name: str, value: Mapping[str, Any]) -> bytes:
    table = _MESSAGES[name]
    out: list[bytes] = []
    for member_name, member in value.items():
        if (known := table.get(member_name)) is not None:
            out.append(known[1](known[0], member))
        elif member_name.startswith("x-") and (extension := table.get("x-")) is not None:
            out.append(_block(extension[0], _text(1, member_name) + _any(2, member)))
    return b"".join(out)
