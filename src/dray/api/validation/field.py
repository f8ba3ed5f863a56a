"""Field paths and the errors validation reports about them, worded as Kubernetes words them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import msgspec

_OMIT: Final = object()
#: The value of an error that shows none although its type usually does.
OMIT: Final[Any] = _OMIT
_json = msgspec.json.Encoder()


class Path(msgspec.Struct, frozen=True, gc=False):
    """An immutable path such as ``spec.devices.requests[0].name``; building one is cheap, printing it is lazy."""

    name: str
    parent: Path | None = None

    def child(self, name: str, *more: str) -> Path:
        path = Path("." + name, self)
        for part in more:
            path = Path("." + part, path)
        return path

    def index(self, i: int) -> Path:
        return Path(f"[{i}]", self)

    def key(self, key: str) -> Path:
        return Path(f"[{key}]", self)

    def __str__(self) -> str:
        parts: list[str] = []
        node: Path | None = self
        while node is not None:
            parts.append(node.name)
            node = node.parent
        parts.reverse()
        return "".join(parts).removeprefix(".")

    def __repr__(self) -> str:
        return f"Path({str(self)!r})"


class ErrorType(Enum):
    """The machine-readable cause and the words it prints as."""

    NOT_FOUND = ("FieldValueNotFound", "Not found")
    REQUIRED = ("FieldValueRequired", "Required value")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    NOT_SUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    TOO_SHORT = ("FieldValueTooShort", "Too short")
    INTERNAL = ("InternalError", "Internal error")
    TYPE_INVALID = ("FieldValueTypeInvalid", "Invalid value")

    def __init__(self, reason: str, words: str) -> None:
        self.reason = reason
        self.words = words


_WITHOUT_VALUE = frozenset(
    {ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.TOO_SHORT, ErrorType.INTERNAL}
)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with one field."""

    type: ErrorType
    field: str
    value: Any = _OMIT
    detail: str = ""

    @property
    def body(self) -> str:
        """The message without the field, as it appears in a Status cause."""
        text = self.type.words
        if self.type not in _WITHOUT_VALUE and self.value is not _OMIT:
            text = f"{text}: {show(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    @property
    def reason(self) -> str:
        return self.type.reason

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def quote(text: str) -> str:
    """Go's %q of a string."""
    out = ['"']
    for c in text:
        if c in '"\\':
            out.append("\\" + c)
        elif c.isprintable():
            out.append(c)
        elif (short := _ESCAPES.get(c)) is not None:
            out.append(short)
        elif ord(c) < 0x20 or ord(c) == 0x7F:
            out.append(f"\\x{ord(c):02x}")
        elif ord(c) < 0x10000:
            out.append(f"\\u{ord(c):04x}")
        else:
            out.append(f"\\U{ord(c):08x}")
    out.append('"')
    return "".join(out)


_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


@dataclass(frozen=True, slots=True)
class GoSyntax:
    """A value as Go's ``%#v`` prints it, which releases before 1.34 show where newer ones show JSON."""

    text: str


def go_strings(values: Iterable[str]) -> GoSyntax:
    return GoSyntax(f"[]string{{{', '.join(map(quote, values))}}}")


def show(value: Any) -> str:
    """A value the way upstream prints it inside an error."""
    if isinstance(value, GoSyntax):
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return quote(value)
    return _json.encode(value).decode()


def invalid(path: Path, value: Any, detail: str) -> FieldError:
    return FieldError(ErrorType.INVALID, str(path), value, detail)


def each_invalid(path: Path, value: Any, details: Iterable[str]) -> list[FieldError]:
    """One error for each thing that a check has to say about a value."""
    return [FieldError(ErrorType.INVALID, str(path), value, detail) for detail in details]


def required(path: Path, detail: str = "") -> FieldError:
    return FieldError(ErrorType.REQUIRED, str(path), "", detail)


def duplicate(path: Path, value: Any) -> FieldError:
    return FieldError(ErrorType.DUPLICATE, str(path), value)


def not_found(path: Path, value: Any) -> FieldError:
    return FieldError(ErrorType.NOT_FOUND, str(path), value)


def forbidden(path: Path, detail: str) -> FieldError:
    return FieldError(ErrorType.FORBIDDEN, str(path), "", detail)


def not_supported(path: Path, value: Any, supported: Iterable[str]) -> FieldError:
    words = ", ".join(quote(v) for v in supported)
    return FieldError(
        ErrorType.NOT_SUPPORTED, str(path), value, f"supported values: {words}" if words else ""
    )


def too_long(path: Path, limit: int, *, unit: str = "byte") -> FieldError:
    detail = (
        f"may not be more than {limit} {unit}{'' if limit == 1 else 's'}"
        if limit >= 0
        else "value is too long"
    )
    return FieldError(ErrorType.TOO_LONG, str(path), "<value omitted>", detail)


def too_many(path: Path, actual: int, limit: int) -> FieldError:
    detail = (
        f"must have at most {limit} item{'' if limit == 1 else 's'}" if limit >= 0 else "has too many items"
    )
    return FieldError(ErrorType.TOO_MANY, str(path), actual if actual >= 0 else _OMIT, detail)


def internal(path: Path | None, problem: str) -> FieldError:
    return FieldError(ErrorType.INTERNAL, str(path) if path is not None else "<nil>", None, problem)
