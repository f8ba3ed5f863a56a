"""The fast way to decode: msgspec checks, orders and trims a document in C.

Each struct becomes a msgspec class whose encoding, with defaults left out, is what Go would write. Whatever such a
class cannot express (unknown fields, nulls in odd places, numbers for quantities, recursive types) it refuses, and
the exact reader takes over. Both give the same answer wherever both give one; a test holds them to that.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from dray.api import times
from dray.api.quantity import Quantity
from dray.api.schema.model import Field, ListOf, MapOf, Scalar, Struct, Type, UnionOf
from dray.limiteddict import LimitedDict


class Unsupported(Exception):
    """The document, or its type, needs the exact reader."""


class _Quantity:
    """A quantity on its way through msgspec."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


_MOST_QUANTITIES: Final = 4096
_quantities: LimitedDict[str, _Quantity] = LimitedDict(_MOST_QUANTITIES)
_zero_quantity = _Quantity("0")


def _decode_hook(type_: type, value: Any) -> _Quantity:
    if type(value) is not str:
        raise ValueError("not a string")
    found = _quantities.get(value)
    if found is None:
        found = _quantities[value] = _Quantity(str(Quantity.parse(value.strip())))
    return found


_encode_hook: Final[Callable[[Any], Any]] = attrgetter("text")
_convert: Final[Callable[..., msgspec.Struct]] = msgspec.convert
_plain: Final[Callable[..., dict[str, Any]]] = msgspec.to_builtins


def _none() -> None:
    return None


def _zero() -> _Quantity:
    return _zero_quantity


_INT32: Final = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
_INT64: Final = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_NULLABLE: Final = {"time", "microtime", "raw"}
#: base: (type, factory of the value written when nothing is given, value that need not be written)
_SCALARS: Final[dict[str, tuple[Any, Callable[[], Any], Any]]] = {
    "string": (str, str, ""),
    "bool": (bool, bool, False),
    "int32": (_INT32, int, 0),
    "int64": (_INT64, int, 0),
    "quantity": (_Quantity, _zero, _zero_quantity),
    "intorstring": (_INT32 | str, int, 0),
    "time": (Annotated[str, Meta(pattern=times.CANONICAL)], _none, None),
    "microtime": (Annotated[str, Meta(pattern=times.CANONICAL_MICRO)], _none, None),
    "bytes": (Annotated[bytes, Meta(min_length=1)], _none, None),
    "raw": (Any, _none, None),
}


class Codec:
    """Decodes documents of one type, or raises Unsupported."""

    def __init__(self, type_: Struct) -> None:
        try:
            self._class: type[msgspec.Struct] | None = _Compiler().struct(type_)
        except Unsupported:
            self._class = None
        else:
            self._decoder = msgspec.json.Decoder(self._class, dec_hook=_decode_hook)

    def decode(self, data: bytes) -> dict[str, Any]:
        if self._class is None:
            raise Unsupported
        try:
            return _plain(self._decoder.decode(data), enc_hook=_encode_hook)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise Unsupported from None

    def convert(self, document: Any) -> dict[str, Any]:
        """The same for a document that was parsed before."""
        if self._class is None:
            raise Unsupported
        try:
            return _plain(_convert(document, self._class, dec_hook=_decode_hook), enc_hook=_encode_hook)
        except (msgspec.MsgspecError, RecursionError):
            raise Unsupported from None


class _Compiler:
    """Makes msgspec classes; one compiler serves one document type, so a type met again while open is recursive."""

    _made: dict[Struct, type[msgspec.Struct]] = {}  # noqa: RUF012

    def __init__(self) -> None:
        self._open: set[Struct] = set()

    def struct(self, type_: Struct) -> type[msgspec.Struct]:
        if (made := self._made.get(type_)) is not None:
            return made
        if type_ in self._open:
            raise Unsupported
        self._open.add(type_)
        fields: list[tuple[str, Any, Any]] = []
        rename: dict[str, str] = {}
        for i, field in enumerate(type_.fields):
            attribute = field.name
            if keyword.iskeyword(attribute) or not attribute.isidentifier() or attribute.startswith("_"):
                rename[attribute := f"field_{i}"] = field.name
            fields.append((attribute, *self._member(field)))
        made = msgspec.defstruct(
            type_.short,
            fields,
            rename=rename or None,
            omit_defaults=True,
            forbid_unknown_fields=True,
            kw_only=True,
            gc=False,
        )
        self._open.discard(type_)
        self._made[type_] = made
        return made

    def _member(self, field: Field) -> tuple[Any, Any]:
        """The annotation and the default. A default made by a factory is always written, a plain one never."""
        type_, written = field.type, field.emit in ("required", "always")
        annotation = self._annotation(type_)
        if field.pointer:
            return annotation | None, msgspec.field(default_factory=_none) if written else None
        match type_:
            case Struct():
                if not written:  # an empty one would have to be dropped
                    raise Unsupported
                return annotation, msgspec.field(default_factory=annotation)
            case ListOf() | MapOf():
                if written:
                    return annotation | None, msgspec.field(default_factory=_none)
                return annotation, msgspec.field(default_factory=list if isinstance(type_, ListOf) else dict)
            case Scalar():
                _, factory, default = _SCALARS[type_.base]
                if type_.base in _NULLABLE or type_.base == "bytes":
                    annotation = annotation | None
                return annotation, msgspec.field(default_factory=factory) if written else default
        raise Unsupported

    def _annotation(self, type_: Type) -> Any:
        match type_:
            case Scalar():
                if (known := _SCALARS.get(type_.base)) is None:
                    raise Unsupported
                return known[0]
            case Struct():
                return self.struct(type_)
            case ListOf():
                return list[self._annotation(type_.item)]  # type: ignore[misc]
            case MapOf():
                return dict[str, self._annotation(type_.value)]  # type: ignore[misc]
            case UnionOf():
                raise Unsupported
