"""cel-go's string extension: positions count code points, versions add functions."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from dray.cel.common.decls import Library, Overload, overload
from dray.cel.common.go_format import go_string
from dray.cel.common.values import Value
from dray.cel.errors import EvaluationError
from dray.cel.interpreter.limits import check_size
from dray.cel.library import formatting

# What Go's unicode.IsSpace calls space; Python's strip would take a few more.
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"  # fmt: skip
_LOWER: Final = str.maketrans({c: c.lower() for c in map(chr, range(128))})
_UPPER: Final = str.maketrans({c: c.upper() for c in map(chr, range(128))})
_QUOTED: Final = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.find(part, offset)


def _last_index_of(text: str, part: str) -> int:
    if not part:
        return len(text)
    # Upstream compares lengths in bytes here.
    if len(text.encode()) < len(part.encode()):
        return -1
    return _last_index_of_from(text, part, len(text) - 1)


def _last_index_of_from(text: str, part: str, offset: int) -> int:
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    if offset >= len(text):
        return -1
    return text.rfind(part, 0, offset + len(part))


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    found = text.count(old) if count < 0 else min(text.count(old), count)
    check_size(len(text) + found * (len(new) - len(old)))
    return text.replace(old, new, max(count, -1))


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if not separator:
        if count < 0 or count >= len(text):
            return list(text)
        return [*text[: count - 1], text[count - 1 :]]
    return text.split(separator, -1 if count < 0 else count - 1)


def _substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


def _substring_between(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def _join(parts: list[Value], separator: str = "") -> str:
    for part in parts:
        if type(part) is not str:
            raise EvaluationError(f"join: invalid input: {go_string(part)}")
    check_size(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


_BASE: Final = (
    overload("charAt", "string_char_at_int", "string.(int) -> string", _char_at),
    overload("indexOf", "string_index_of_string", "string.(string) -> int", _index_of),
    overload("indexOf", "string_index_of_string_int", "string.(string, int) -> int", _index_of),
    overload("lastIndexOf", "string_last_index_of_string", "string.(string) -> int", _last_index_of),
    overload("lastIndexOf", "string_last_index_of_string_int", "string.(string, int) -> int", _last_index_of_from),
    overload("lowerAscii", "string_lower_ascii", "string.() -> string", lambda text: text.translate(_LOWER)),
    overload("replace", "string_replace_string_string", "string.(string, string) -> string", _replace),
    overload("replace", "string_replace_string_string_int", "string.(string, string, int) -> string", _replace),
    overload("split", "string_split_string", "string.(string) -> list(string)", _split),
    overload("split", "string_split_string_int", "string.(string, int) -> list(string)", _split),
    overload("substring", "string_substring_int", "string.(int) -> string", _substring),
    overload("substring", "string_substring_int_int", "string.(int, int) -> string", _substring_between),
    overload("trim", "string_trim", "string.() -> string", lambda text: text.strip(_SPACE)),
    overload("upperAscii", "string_upper_ascii", "string.() -> string", lambda text: text.translate(_UPPER)),
    overload("join", "list_join", "list(string).() -> string", _join),
    overload("join", "list_join_string", "list(string).(string) -> string", _join),
)  # fmt: skip
_QUOTE: Final = overload("strings.quote", "strings_quote", "(string) -> string", quote)
_REVERSE: Final = overload("reverse", "string_reverse", "string.() -> string", lambda text: text[::-1])


def _format(version: int) -> Overload:
    implementation = formatting.format_v2 if version >= 4 else formatting.format_v1
    return overload("format", "string_format", "string.(list(dyn)) -> string", implementation, variadic=True)


@lru_cache
def strings(version: int) -> Library:
    """The library as of a version of its own; Kubernetes uses 2."""
    more: list[Overload] = []
    if version >= 1:
        more += [_format(version), _QUOTE]
    if version >= 3:
        more.append(_REVERSE)
    return Library(name="cel.lib.ext.strings", overloads=(*_BASE, *more))
