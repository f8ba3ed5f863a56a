"""CEL's types as the checker sees them, and when one can stand for another.

Types are immutable and, up to a bound, interned, so that comparing two of them is mostly a look at identity.
"""

from __future__ import annotations

from typing import Final


class Type:
    """A type: its kind, its run-time name and its parameters. Made by the functions below, never directly."""

    __slots__ = ("concrete", "kind", "name", "nullable", "params", "shown", "text")

    concrete: bool

    def __init__(
        self, kind: str, name: str, params: tuple[Type, ...] = (), *, nullable: bool = False
    ) -> None:
        self.kind = kind
        self.name = name
        self.params = params
        self.nullable = nullable
        self.text = _text(self)
        self.shown = _shown(self)
        # Free of type parameters, so that no substitution changes it.
        self.concrete = kind != "param" and all(p.concrete for p in params)

    def __str__(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return f"Type({self.text})"

    @property
    def dynamic(self) -> bool:
        return self.kind in _DYNAMIC


def _text(t: Type) -> str:
    """The name used in type errors."""
    if t.kind in _ERROR_NAMES:
        return _ERROR_NAMES[t.kind]
    if not t.params:
        return f"wrapper({t.name})" if t.nullable else t.name
    return f"{t.name}({', '.join(p.text for p in t.params)})"


def _shown(t: Type) -> str:
    """The name used where a type is printed as such."""
    if t.kind == "param":
        return f"<{t.name}>"
    name = f"wrapper({t.name})" if t.nullable else t.name
    return f"{name}({', '.join(p.shown for p in t.params)})" if t.params else name


_DYNAMIC: Final = frozenset({"dyn", "any"})
_ERROR_NAMES: Final = {
    "any": "any",
    "duration": "duration",
    "timestamp": "timestamp",
    "error": "!error!",
    "null": "null",
}

BOOL: Final = Type("bool", "bool")
INT: Final = Type("int", "int")
UINT: Final = Type("uint", "uint")
DOUBLE: Final = Type("double", "double")
STRING: Final = Type("string", "string")
BYTES: Final = Type("bytes", "bytes")
NULL: Final = Type("null", "null_type")
TIMESTAMP: Final = Type("timestamp", "google.protobuf.Timestamp")
DURATION: Final = Type("duration", "google.protobuf.Duration")
DYN: Final = Type("dyn", "dyn")
ANY: Final = Type("any", "google.protobuf.Any")
ERROR: Final = Type("error", "*error*")
TYPE: Final = Type("type", "type")
#: The type that cel-go gives a field of which a provider knows the name, and not the type: it stands for nothing.
UNSPECIFIED: Final = Type("unspecified", "")

_interned: dict[tuple[str, str, tuple[Type, ...], bool], Type] = {}


def _intern(kind: str, name: str, params: tuple[Type, ...] = (), *, nullable: bool = False) -> Type:
    key = (kind, name, params, nullable)
    found = _interned.get(key)
    if found is None:
        found = Type(kind, name, params, nullable=nullable)
        # Expressions of strangers make ever new types: the table must not grow with them.
        if len(_interned) < 10_000:
            _interned[key] = found
    return found


def list_of(element: Type) -> Type:
    return _intern("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return _intern("map", "map", (key, value))


def opaque(name: str, *params: Type) -> Type:
    return _intern("opaque", name, params)


def optional_of(value: Type) -> Type:
    return _intern("opaque", "optional_type", (value,))


def object_type(name: str) -> Type:
    return WELL_KNOWN.get(name) or _intern("struct", name)


def type_param(name: str) -> Type:
    return _intern("param", name)


def type_of(t: Type) -> Type:
    return _intern("type", "type", (t,))


def nullable(t: Type) -> Type:
    return _intern(t.kind, t.name, t.params, nullable=True)


LIST: Final = list_of(DYN)
MAP: Final = map_of(DYN, DYN)
OPTIONAL: Final = optional_of(DYN)

WELL_KNOWN: Final[dict[str, Type]] = {
    "google.protobuf.BoolValue": nullable(BOOL),
    "google.protobuf.BytesValue": nullable(BYTES),
    "google.protobuf.DoubleValue": nullable(DOUBLE),
    "google.protobuf.FloatValue": nullable(DOUBLE),
    "google.protobuf.Int64Value": nullable(INT),
    "google.protobuf.Int32Value": nullable(INT),
    "google.protobuf.UInt64Value": nullable(UINT),
    "google.protobuf.UInt32Value": nullable(UINT),
    "google.protobuf.StringValue": nullable(STRING),
    "google.protobuf.Any": ANY,
    "google.protobuf.Duration": DURATION,
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.ListValue": LIST,
    "google.protobuf.NullValue": NULL,
    "google.protobuf.Struct": map_of(STRING, DYN),
    "google.protobuf.Value": DYN,
}


def same(a: Type, b: Type) -> bool:
    """Exactly the same type (a wrapper counts as what it wraps)."""
    if a is b:
        return True
    if a.kind != b.kind or a.name != b.name or len(a.params) != len(b.params):
        return False
    return all(map(same, a.params, b.params))


def equivalent(a: Type, b: Type) -> bool:
    """The same up to the names of type parameters."""
    if a is b:
        return True
    if a.kind != b.kind or len(a.params) != len(b.params):
        return False
    return (a.kind == "param" or a.name == b.name) and all(map(equivalent, a.params, b.params))


def _accepts(target: Type, given: Type) -> bool:
    if target is given or target.kind in ("dyn", "any", "param"):
        return True
    if target.nullable and given.kind == "null":
        return True
    if target.kind != given.kind or target.name != given.name or len(target.params) != len(given.params):
        return False
    return all(map(_accepts, target.params, given.params))


def unwrap_optional(t: Type) -> tuple[Type, bool]:
    if t.kind == "opaque" and t.name == "optional_type":
        return t.params[0], True
    return t, False


class Substitution:
    """What the type parameters seen so far stand for."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[str, Type] = {}

    def assignable(self, a: Type, b: Type) -> bool:
        """Whether ``a`` can be used where ``b`` is wanted; what it takes is remembered only if so."""
        if a.concrete and b.concrete:
            return self._assignable(a, b)
        before = self.known
        self.known = before.copy()
        if self._assignable(a, b):
            return True
        self.known = before
        return False

    def all_assignable(self, given: list[Type], wanted: tuple[Type, ...]) -> bool:
        before = self.known
        if all(b.concrete for b in wanted) and all(a.concrete for a in given):
            # Nothing can be learned about type parameters, so nothing needs to be undone.
            return all(map(self._assignable, given, wanted))
        self.known = before.copy()
        for a, b in zip(given, wanted, strict=True):
            if not self._assignable(a, b):
                self.known = before
                return False
        return True

    def apply(self, t: Type, *, free_to_dyn: bool = False) -> Type:
        """The type with every bound parameter replaced, and unbound ones by dyn if asked."""
        if t.concrete:
            return t
        if t.kind == "param":
            bound = self.known.get(t.name)
            if bound is not None:
                return self.apply(bound, free_to_dyn=free_to_dyn)
            return DYN if free_to_dyn else t
        params = tuple(self.apply(p, free_to_dyn=free_to_dyn) for p in t.params)
        return t if params == t.params else _intern(t.kind, t.name, params, nullable=t.nullable)

    def _assignable(self, a: Type, b: Type) -> bool:
        kind_a, kind_b = a.kind, b.kind
        if kind_b == "param":
            valid, bound = self._stands_for(a, b)
            if valid or bound:
                return valid
        if kind_a == "param":
            return self._stands_for(b, a)[0]
        if kind_a in _WILD or kind_b in _WILD:
            return True
        if kind_a == "null":
            return _takes_null(b)
        if kind_b == "null":
            return _takes_null(a)
        if kind_a == "type":
            return kind_b == "type"
        if kind_a in _CONTAINERS:
            return (
                kind_a == kind_b
                and a.name == b.name
                and len(a.params) == len(b.params)
                and all(self._assignable(p, q) for p, q in zip(a.params, b.params, strict=True))
            )
        return _accepts(b, a)

    def _stands_for(self, t: Type, param: Type) -> tuple[bool, bool]:
        """Whether ``param`` may stand for ``t``, and whether it already stood for something."""
        if same(t, param):
            return True, True
        bound = self.known.get(param.name)
        if bound is not None:
            if same(t, bound):
                return True, True
            if self._assignable(t, bound):
                general = most_general(t, bound)
                if not self._occurs(param, general):
                    self.known[param.name] = general
                return True, True
            return False, True
        if not self._occurs(param, t):
            self.known[param.name] = t
            return True, False
        return False, False

    def _occurs(self, param: Type, within: Type) -> bool:
        if within.concrete:
            return False
        if same(within, param):
            return True
        if within.kind == "param":
            bound = self.known.get(within.name)
            return bound is not None and self._occurs(param, bound)
        return any(self._occurs(param, p) for p in within.params)


_WILD: Final = frozenset({"dyn", "any", "error"})
_CONTAINERS: Final = frozenset({"opaque", "list", "map"})
_NULLABLE: Final = frozenset({"opaque", "struct", "any", "duration", "timestamp"})


def _takes_null(t: Type) -> bool:
    return t.nullable or t.kind in _NULLABLE or t.kind == "null"


def most_general(a: Type, b: Type) -> Type:
    """The less specific of two types that agree."""
    return a if _at_most_as_specific(a, b) else b


def _at_most_as_specific(a: Type, b: Type) -> bool:
    if a.dynamic or a.kind == "param":
        return True
    if b.dynamic or b.kind == "param" or a.kind != b.kind:
        return False
    if a.kind in _CONTAINERS:
        return (
            a.name == b.name
            and len(a.params) == len(b.params)
            and all(map(_at_most_as_specific, a.params, b.params))
        )
    return a.kind == "type" or same(a, b)
