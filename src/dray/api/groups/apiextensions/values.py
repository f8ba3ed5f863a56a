"""Whether a value fits an OpenAPI schema. Messages are those of the validator that upstream uses.

Where there is an old value, what was wrong already and has not changed is let pass.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Final

from dray.api.groups.apiextensions import formats
from dray.api.groups.apiextensions.pruning import (
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    Schema,
    additional,
    items,
)
from dray.api.validation import field
from dray.api.validation.field import ErrorType, FieldError

NO_FIELD: Final = "<nil>"
MISSING: Final[Any] = object()
_RANGES: Final = {"int32": 31, "int64": 63, "": 63}
_REGEX_PROBLEMS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "trailing \\": "trailing backslash at end of expression",
}
_HIGHEST_FLOAT: Final = 3.4028234663852886e38


#: Takes a fraction of a second: the same text may be matched with many patterns.
_MOST_MATCHED: Final = 16 << 20
_room: Final[ContextVar[list[int]]] = ContextVar("characters that may yet be matched with patterns")


class _TooMuchText(Exception):
    """The patterns of a schema would have to read too much."""


class Result:
    """What is wrong, and how much was right: of several alternatives, the closest one's problems are told."""

    __slots__ = ("errors", "matches")

    def __init__(self, errors: Sequence[FieldError] = ()) -> None:
        self.errors: list[FieldError] = list(errors)
        self.matches = 0

    def add(self, *errors: FieldError) -> None:
        self.errors += [e for e in errors if e not in self.errors]

    def merge(self, other: Result) -> None:
        self.add(*other.errors)
        self.matches += other.matches


def check(value: Any, schema: Schema, *, prefix: str = "", old: Any = MISSING) -> list[FieldError]:
    """Everything that is wrong with a value; ``prefix`` is where it stands in the object."""
    _room.set([_MOST_MATCHED])
    try:
        found = _validate(value, schema, "", old).errors
    except _TooMuchText:
        words = f"patterns of the schema are matched with at most {_MOST_MATCHED} characters of an object"
        found = [_general(words)]
    return [_below(prefix, error) for error in found] if prefix else found


def _below(prefix: str, error: FieldError) -> FieldError:
    name = prefix if error.field == NO_FIELD else f"{prefix}.{error.field}"
    return FieldError(error.type, name, error.value, error.detail)


def same(a: Any, b: Any) -> bool:
    """Equality of JSON values: true is not 1, but 1 is 1.0."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(v, b[k]) for k, v in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def _validate(value: Any, schema: Schema, path: str, old: Any) -> Result:
    result = _fresh(value, schema, path, old)
    if result.errors and old is not MISSING and same(value, old):
        result.errors.clear()
    return result


def _fresh(value: Any, schema: Schema, path: str, old: Any) -> Result:
    result = Result()
    kinds = _types(schema)
    format_ = schema.get("format", "")
    if format_ and not formats.recognized(schema):
        format_ = ""
    if value is None:
        if kinds and not schema.get("nullable"):
            result.add(_wrong_type(path, ",".join(kinds), "null"))
        result.add(*_check_enum(value, schema, path))
        return result
    kind = _kind_of(value)
    if kinds or format_:
        result.add(*_check_type(value, kind, kinds, format_, path))
        result.matches += 2
    result.merge(_check_alternatives(value, schema, path))
    result.matches += 2
    match value:
        case str():
            result.add(*_check_string(value, schema, path))
            if format_ and not formats.fits(value, format_):
                result.add(_wrong_type(path, format_, value))
            result.matches += 2
        case int() | float() if not isinstance(value, bool):
            result.add(*_check_number(value, schema, kinds, format_, path))
            result.matches += 2
        case list():
            result.merge(_check_list(value, schema, path, old))
            result.matches += 2
    result.add(*_check_enum(value, schema, path))
    result.matches += 1
    if isinstance(value, dict):
        result.merge(_check_object(value, schema, path, old))
        result.matches += 1
    result.matches += 1
    return result


def _types(schema: Schema) -> tuple[str, ...]:
    if schema.get(INT_OR_STRING):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _kind_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _named(path: str) -> str:
    return path.removeprefix(".") or NO_FIELD


def _error(kind: ErrorType, path: str, value: Any, words: str) -> FieldError:
    return FieldError(kind, _named(path), value, f"{path} in body {words}")


def _wrong_type(path: str, wanted: str, value: str) -> FieldError:
    return _error(ErrorType.TYPE_INVALID, path, value, f"must be of type {wanted}: {field.quote(value)}")


def _general(words: str) -> FieldError:
    return FieldError(ErrorType.INVALID, NO_FIELD, "", words)


def _check_type(value: Any, kind: str, kinds: Sequence[str], format_: str, path: str) -> Sequence[FieldError]:
    whole = kind == "number" and "integer" in kinds and value.is_integer()
    wider = kind == "integer" and "number" in kinds
    textual = kind in ("string", "array")
    numeric = "number" in kinds or "integer" in kinds
    if kind in kinds or whole or wider:
        return ()
    if format_ and textual and not numeric:
        return ()
    if format_ and not textual:
        native = {"integer": "int64", "number": "float64"}.get(kind, "")
        return () if native == format_ else (_wrong_type(path, format_, native),)
    return (_wrong_type(path, ",".join(kinds), kind),)


def _check_enum(value: Any, schema: Schema, path: str) -> Sequence[FieldError]:
    allowed = schema.get("enum")
    if not allowed or any(same(value, one) for one in allowed if one is not None):
        return ()
    words = [one if isinstance(one, str) else json.dumps(one, separators=(",", ":")) for one in allowed]
    detail = "supported values: " + ", ".join(field.quote(w) for w in words)
    return (FieldError(ErrorType.NOT_SUPPORTED, _named(path), value, detail),)


def _check_string(text: str, schema: Schema, path: str) -> Sequence[FieldError]:
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if most is not None and len(text) > most:
        return (field.too_long(field.Path(_named(path)), most),)
    if least is not None and len(text) < least:
        return (_error(ErrorType.INVALID, path, text, f"should be at least {least} chars long"),)
    if pattern and not _matches(pattern, text):
        return (_error(ErrorType.INVALID, path, text, f"should match '{pattern}'"),)
    return ()


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    """A pattern in RE2's syntax, which takes linear time whatever a schema's author asks for. Raises ValueError."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as e:
        raise ValueError(_regex_problem(e, pattern)) from None


def _regex_problem(error: Exception, pattern: str) -> str:
    """Go's words for what its own engine's elder sibling complains about."""
    reason = error.args[0] if error.args else ""
    text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    kind, _, detail = text.partition(": ")
    return f"error parsing regexp: {_REGEX_PROBLEMS.get(kind, kind)}: `{detail or pattern}`"


def _matches(pattern: str, text: str) -> bool:
    room = _room.get()
    room[0] -= len(text)
    if room[0] < 0:
        raise _TooMuchText
    try:
        return compiled(pattern).search(text) is not None
    except ValueError:
        return False


def number_text(value: float) -> str:
    """A number as Go prints it."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e21 else repr(value)


def _fits_range(
    value: float, kinds: Sequence[str], format_: str, what: str, path: str
) -> Sequence[FieldError]:
    kind = kinds[0] if len(kinds) == 1 and kinds[0] in ("integer", "number") else ""
    if kind == "integer":
        form = format_ if format_ in ("int32", "int64") else ""
        bits = _RANGES[form]
        fine = float(value).is_integer() and -(2**bits) <= value < 2**bits
    else:
        form = format_ if kind and format_ in ("float", "double") else ""
        fine = form != "float" or abs(value) <= _HIGHEST_FLOAT
    if fine:
        return ()
    words = f"with format {form}" if form else "(default format)"
    return (_general(f"{what} value must be of type {kind} {words} in {path}"),)


def _check_number(
    value: float, schema: Schema, kinds: Sequence[str], format_: str, path: str
) -> list[FieldError]:
    found = list(_fits_range(value, kinds, format_, "Checked", path))
    factor = schema.get("multipleOf")
    if factor is not None:
        found += _fits_range(factor, kinds, format_, "MultipleOf", path)
        found += _check_multiple(value, factor, path)
    for bound, exclusive, sign, what in (
        ("minimum", "exclusiveMinimum", -1, "greater than"),
        ("maximum", "exclusiveMaximum", 1, "less than"),
    ):
        limit = schema.get(bound)
        if limit is None:
            continue
        found += _fits_range(limit, kinds, format_, f"{bound.capitalize()} boundary", path)
        if isinstance(value, int):
            limit = int(limit)
        beyond = (value - limit) * sign
        if beyond > 0 or (beyond == 0 and schema.get(exclusive)):
            or_equal = "" if schema.get(exclusive) else " or equal to"
            words = f"should be {what}{or_equal} {number_text(limit)}"
            found.append(_error(ErrorType.INVALID, path, value, words))
    return found


def _check_multiple(value: float, factor: float, path: str) -> Sequence[FieldError]:
    if isinstance(value, int):
        factor = int(factor)
    if factor <= 0:
        words = f"factor MultipleOf declared for {path} must be positive: {number_text(factor)}"
        return (FieldError(ErrorType.INVALID, _named(path), factor, words),)
    times = value / factor if factor >= 1 else 1 / factor * value
    if isinstance(value, int):
        fine = value % factor == 0
    else:
        fine = abs(times - round(times)) < 1e-9 * max(1.0, abs(times))
    words = f"should be a multiple of {number_text(factor)}"
    return () if fine else (_error(ErrorType.INVALID, path, value, words),)


def _check_list(value: Sequence[Any], schema: Schema, path: str, old: Any) -> Result:
    result = Result()
    own = items(schema)
    if own is not None:
        before = OldItems(schema, old)
        for i, item in enumerate(value):
            result.merge(_validate(item, own, f"{path}[{i}]", before.get(item)))
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None and len(value) < least:
        result.add(_error(ErrorType.INVALID, path, len(value), f"should have at least {least} items"))
    if most is not None and len(value) > most:
        result.add(field.too_many(field.Path(_named(path)), len(value), most))
    return result


class OldItems:
    """The items a list of type map had before, found by their keys. Items of other lists correspond to nothing."""

    def __init__(self, schema: Schema, old: Any) -> None:
        self._keys: Sequence[str] = (schema.get(LIST_KEYS) or ()) if schema.get(LIST_TYPE) == "map" else ()
        self._old: Sequence[Any] = old if isinstance(old, list) and self._keys else ()

    def get(self, item: Any) -> Any:
        if not self._old or not isinstance(item, dict):
            return MISSING
        wanted = [item.get(key) for key in self._keys]
        found = [o for o in self._old if isinstance(o, dict) and same([o.get(k) for k in self._keys], wanted)]
        return found[0] if len(found) == 1 else MISSING


def _check_object(value: Mapping[str, Any], schema: Schema, path: str, old: Any) -> Result:
    result = Result()
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is not None and len(value) < least:
        result.add(_error(ErrorType.INVALID, path, len(value), f"should have at least {least} properties"))
    if most is not None and len(value) > most:
        result.add(field.too_many(field.Path(_named(path)), len(value), most))
    known = schema.get("properties") or {}
    before = old if isinstance(old, dict) else {}
    if schema.get("additionalProperties") is False:
        for name in sorted(value.keys() - known.keys()):
            words = f"{path}.{name} in body is a forbidden property"
            result.add(FieldError(ErrorType.INVALID, _named(path), name, words))
    more = additional(schema)
    if more is not None:
        for name in sorted(value.keys() - known.keys()):
            result.merge(_validate(value[name], more, f"{path}.{name}", before.get(name, MISSING)))
    for name in sorted(known):
        if name in value:
            at = f"{path}.{name}" if path else name
            result.merge(_validate(value[name], known[name], at, before.get(name, MISSING)))
    for name in schema.get("required") or ():
        if name not in value:
            result.add(FieldError(ErrorType.REQUIRED, _named(f"{path}.{name}")))
    return result


def _check_alternatives(value: Any, schema: Schema, path: str) -> Result:
    result = Result()
    shown = field.quote(path)
    if any_of := schema.get("anyOf"):
        tried = [_fresh(value, s, path, MISSING) for s in any_of]
        fine = next((r for r in tried if not r.errors), None)
        if fine is None:
            result.add(_general(f"{shown} must validate at least one schema (anyOf)"))
        result.merge(fine or _closest(tried))
    if one_of := schema.get("oneOf"):
        tried = [_fresh(value, s, path, MISSING) for s in one_of]
        right = [r for r in tried if not r.errors]
        if len(right) == 1:
            result.merge(right[0])
        else:
            words = f"Found {len(right)} valid alternatives" if right else "Found none valid"
            result.add(_general(f"{shown} must validate one and only one schema (oneOf). {words}"))
            if not right:
                result.merge(_closest(tried))
    if all_of := schema.get("allOf"):
        tried = [_fresh(value, s, path, MISSING) for s in all_of]
        for one in tried:
            result.merge(one)
        wrong = sum(bool(r.errors) for r in tried)
        if wrong:
            words = ". None validated" if wrong == len(tried) else ""
            result.add(_general(f"{shown} must validate all the schemas (allOf){words}"))
    if (forbidden := schema.get("not")) is not None and not _fresh(value, forbidden, path, MISSING).errors:
        result.add(_general(f"{shown} must not validate the schema (not)"))
    return result


def _closest(tried: Sequence[Result]) -> Result:
    return max(tried, key=lambda r: r.matches)  # the first of several equals
