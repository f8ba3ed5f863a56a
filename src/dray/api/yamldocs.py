"""YAML from others, read as Kubernetes reads it: the values of JSON, and no document that costs more than its bytes.

Documents are built from parse events in one pass without recursion. Nesting is bounded, and so is what aliases and
merges add to the bytes that were sent; both are refused before anything is built from them.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

#: Deeper than any object of Kubernetes; the readers that come after this one recurse.
_MAX_DEPTH: Final = 300
#: What aliases and merges may add to a document, in bytes of text and a fixed cost for each value.
_MAX_EXPANSION: Final = 4 << 20
_VALUE_COST: Final = 64
_MAX_PROBLEMS: Final = 100

_TAG: Final = "tag:yaml.org,2002:"
_INT: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NUMBER_STARTS: Final = frozenset("0123456789+-.")
_LONGEST_NUMBER: Final = 400
_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **{w: True for word in ("true", "yes", "on") for w in (word, word.title(), word.upper())},
    **{w: False for word in ("false", "no", "off") for w in (word, word.title(), word.upper())},
    **{sign + w: math.inf for sign in ("", "+") for w in (".inf", ".Inf", ".INF")},
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}


class InvalidYAML(ValueError):
    """The text is not YAML, or has no form in JSON. The words are go-yaml's."""

    def __init__(self, problem: str, *, line: int = 0, words: str = "") -> None:
        super().__init__(words or problem)
        self.problem = problem
        self.line = line  # counted from 1; 0 where it is not known


class TooLarge(InvalidYAML):
    """The document is nested too deeply, or aliases and merges make it too large."""


class Document(NamedTuple):
    value: Any
    problems: list[str]  # keys that occur twice in a mapping


def load(data: bytes | str) -> Any:
    """The value of the only document."""
    return load_document(data).value


def load_document(data: bytes | str) -> Document:
    """The first document. Upstream does not look at those that follow it."""
    return next(documents(data), Document(None, []))


def check(data: bytes | str) -> None:
    """Refuse documents that are too large for other readers of YAML; those readers report what else is wrong."""
    try:
        for _ in documents(data):
            pass
    except TooLarge:
        raise
    except InvalidYAML:
        pass


#: A line of dashes that is no separator of documents: text processors make en dashes of hyphens.
_TYPOGRAPHIC = re.compile(r"^(?=-{0,2}[‐-―−])[-‐-―−]{1,3}[ \t]*$", re.MULTILINE)


def typographic_separator(text: str) -> InvalidYAML | None:
    """Whether a line was meant to separate documents and does not, as a page has changed its hyphens."""
    found = _TYPOGRAPHIC.search(text)
    if found is None:
        return None
    sign = next(c for c in found[0] if c != "-")
    line = text.count("\n", 0, found.start()) + 1
    return InvalidYAML(
        f"{found[0].strip()} separates no documents, as it has the sign {unicodedata.name(sign)} for a hyphen: write ---",
        line=line,
    )


def with_separators(text: str) -> str:
    """The text with such lines as they were meant."""
    return _TYPOGRAPHIC.sub("---", text)


def documents(data: bytes | str) -> Iterator[Document]:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        parser = loader(data)
    except yaml.YAMLError as e:
        raise _invalid(e) from None
    try:
        loader.get_event(parser)  # the start of the stream
        while type(loader.get_event(parser)) is yaml.DocumentStartEvent:
            builder = _Builder(parser)
            yield Document(builder.value(), builder.problems)
            loader.get_event(parser)  # the end of the document
    except yaml.YAMLError as e:
        raise _invalid(e) from None
    finally:
        parser.dispose()


def _invalid(error: Any) -> InvalidYAML:
    """go-yaml shares libyaml's words but counts lines in its own way."""
    import yaml

    problem = str(getattr(error, "problem", None) or " ".join(str(error).split()))
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark is not None else 0
    scanning = isinstance(error, yaml.scanner.ScannerError)
    for named in (getattr(error, "context_mark", None), mark):
        if named is not None and named.line + scanning:
            return InvalidYAML(problem, line=line, words=f"line {named.line + scanning}: {problem}")
    return InvalidYAML(problem, line=line)


class _Node(NamedTuple):
    """A value, what it costs with everything in it, and how deeply it is nested."""

    value: Any
    cost: int
    height: int


@dataclass(slots=True)
class _Open:
    """A mapping or sequence whose end has not been seen yet."""

    value: dict[str, Any] | list[Any]
    anchor: str | None
    cost: int = _VALUE_COST
    height: int = 1
    key: str | None = None  # of the value that comes next
    merging: bool = False  # the value that comes next is to be merged into this mapping
    merged: list[dict[str, Any]] = field(default_factory=list)


class _Builder:
    """Builds one document from its events."""

    def __init__(self, parser: Any) -> None:
        self._event = parser.get_event
        self._anchors: dict[str, _Node | None] = {}  # None: the value has not ended
        self._expansion = 0
        self._open: list[_Open] = []
        self.problems: list[str] = []

    def value(self) -> Any:
        import yaml

        scalar, alias = yaml.ScalarEvent, yaml.AliasEvent
        starts = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
        while True:
            event = self._event()
            kind = type(event)
            if kind is scalar:
                if event.value == "<<" and self._starts_merge(event):
                    continue
                node = _Node(_scalar(event), _VALUE_COST + len(event.value), 0)
                if event.anchor is not None:
                    self._anchors[event.anchor] = node
            elif kind is alias:
                node = self._alias(event)
            elif kind in starts:
                self._start(event, {} if kind is starts[0] else [])
                continue
            else:
                node = self._end()
            if not self._open:
                return node.value
            self._add(node, event)

    def _starts_merge(self, event: Any) -> bool:
        inside = self._open[-1] if self._open else None
        if inside is None or type(inside.value) is not dict or inside.key is not None:
            return False
        if not event.implicit[0] and event.tag != _TAG + "merge":
            return False
        inside.key, inside.merging = "<<", True
        return True

    def _start(self, event: Any, value: dict[str, Any] | list[Any]) -> None:
        if event.tag not in (None, "!", _TAG + ("map" if type(value) is dict else "seq")):
            raise _at(event, f"could not determine a constructor for the tag '{event.tag}'")
        if len(self._open) >= _MAX_DEPTH:
            raise TooLarge("exceeded max depth", line=event.start_mark.line + 1)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_Open(value, event.anchor))

    def _end(self) -> _Node:
        ended = self._open.pop()
        for merged in ended.merged:
            for key, value in merged.items():
                ended.value.setdefault(key, value)  # type: ignore[union-attr]
        node = _Node(ended.value, ended.cost, ended.height)
        if ended.anchor is not None:
            self._anchors[ended.anchor] = node
        return node

    def _alias(self, event: Any) -> _Node:
        if event.anchor not in self._anchors:
            raise _at(event, f"unknown anchor '{event.anchor}' referenced")
        node = self._anchors[event.anchor]
        if node is None:
            raise _at(event, f"anchor '{event.anchor}' value contains itself")
        self._expansion += node.cost
        if self._expansion > _MAX_EXPANSION:
            raise TooLarge("document contains excessive aliasing", line=event.start_mark.line + 1)
        if len(self._open) + node.height > _MAX_DEPTH:
            raise TooLarge("exceeded max depth", line=event.start_mark.line + 1)
        return _Node(_copy(node.value), node.cost, node.height)

    def _add(self, node: _Node, event: Any) -> None:
        inside = self._open[-1]
        inside.cost += node.cost
        if node.height >= inside.height:
            inside.height = node.height + 1
        value = inside.value
        if type(value) is list:
            value.append(node.value)
        elif inside.key is None:
            inside.key = _key(node.value, event)
        else:
            assert type(value) is dict
            if inside.merging:
                inside.merged += _to_merge(node.value, event)
                inside.merging = False
            else:
                if inside.key in value and len(self.problems) < _MAX_PROBLEMS:
                    line = event.start_mark.line + 1
                    self.problems.append(f'line {line}: key "{inside.key}" already set in map')
                value[inside.key] = node.value
            inside.key = None


def _at(event: Any, problem: str) -> InvalidYAML:
    line = event.start_mark.line + 1
    return InvalidYAML(problem, line=line, words=f"line {line}: {problem}")


def _copy(value: Any) -> Any:
    if type(value) is dict:
        return {k: _copy(v) for k, v in value.items()}
    return [_copy(v) for v in value] if type(value) is list else value


def _to_merge(value: Any, event: Any) -> list[dict[str, Any]]:
    found = value if type(value) is list else [value]
    if not all(type(one) is dict for one in found):
        raise _at(event, "map merge requires map or sequence of maps as the value")
    return found


def _key(value: Any, event: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            raise _at(event, "invalid map key")


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.tag is None:
        found = _plain(text) if event.implicit[0] else text
    else:
        found = _tagged(event, text)
    if type(found) is float and not math.isfinite(found):
        words = "NaN" if math.isnan(found) else "+Inf" if found > 0 else "-Inf"
        raise InvalidYAML(f"json: unsupported value: {words}", line=event.start_mark.line + 1)
    return found


def _plain(text: str) -> Any:
    """What an unquoted scalar says. A number that no type of Go can hold is text."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS or len(text) > _LONGEST_NUMBER:
        return text
    plain = text.replace("_", "")
    if (found := _INT.fullmatch(plain)) is not None:
        sign, *digits = found.groups()
        base, written = next((b, d) for b, d in zip((16, 2, 8, 10), digits, strict=True) if d is not None)
        number = -int(written, base) if sign == "-" else int(written, base)
        if -(1 << 63) <= number < 1 << 64:
            return number
    if _FLOAT.fullmatch(plain) is not None and math.isfinite(real := float(plain)):
        return real
    return text


def _tagged(event: Any, text: str) -> Any:
    tag = event.tag.removeprefix(_TAG)
    if tag in ("!", "str", "timestamp"):
        return text
    if tag == "binary":
        try:
            return base64.b64encode(base64.b64decode(text)).decode()
        except (binascii.Error, ValueError):
            raise _at(event, "!!binary value contains invalid base64 data") from None
    found = _plain(text)
    match tag, found:
        case ("null", None) | ("bool", bool()) | ("float", float()):
            return found
        case "int", int() if type(found) is int:
            return found
        case "float", int() if type(found) is int:
            return float(found)
        case (("null" | "bool" | "int" | "float"), _):
            raise _at(event, f"cannot decode !!str `{text[:100]}` as a !!{tag}")
    raise _at(event, f"could not determine a constructor for the tag '{event.tag}'")
