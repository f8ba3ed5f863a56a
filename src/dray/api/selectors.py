"""Label and field selectors: parsed from a query string or an object, printed, and matched.

Both kinds of selector are immutable. Parsing raises ValueError in upstream's words; the edge makes a Status of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from dray.api.golang.strconv import parse_int64
from dray.api.textcache import cache_short
from dray.api.validation import names
from dray.api.validation.field import FieldError, Path, invalid, not_supported, quote

#: A selector of this length names some hundred values; a client that has more of them asks more than once.
LONGEST: Final = 16 << 10
_OPERATORS: Final = ("in", "notin", "=", "==", "!=", "gt", "lt", "exists", "!")
_FROM_OBJECT: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_SYMBOLS: Final = {
    ")": "closed", ",": "comma", "!": "!", "==": "==", "=": "=", ">": "gt", "<": "lt", "!=": "!=", "(": "open",
}  # fmt: skip
_KEYWORDS: Final = {"in": "in", "notin": "notin"}
#: The longest symbol that is one, as upstream grows it character by character, or a word.
_TOKEN: Final = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),><])|([^=!(),>< \t\r\n\0]+))")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: str  # in, notin, =, ==, !=, gt, lt, exists, !
    values: tuple[str, ...] = ()
    _set: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_set", frozenset(self.values))

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in" | "=" | "==":
                return value is not None and value in self._set
            case "notin" | "!=":
                return value is None or value not in self._set
            case "exists":
                return value is not None
            case "!":
                return value is None
        if value is None or len(self.values) != 1:
            return False
        actual, limit = parse_int64(value), parse_int64(self.values[0])
        if actual is None or limit is None:
            return False
        return actual > limit if self.operator == "gt" else actual < limit

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
        sign = {"gt": ">", "lt": "<"}.get(self.operator, self.operator)
        return f"{self.key}{sign}{','.join(self.values)}"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements together; without any it matches everything, unless it is the selector of nothing."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        if self.nothing:
            return False
        labels = labels or {}
        return all(r.matches(labels) for r in self.requirements)

    @property
    def empty(self) -> bool:
        """Whether it lets everything pass."""
        return not self.requirements and not self.nothing

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING: Final = LabelSelector()
NOTHING: Final = LabelSelector(nothing=True)


def label_selector(selector: Mapping[str, Any] | None) -> LabelSelector:
    """The meaning of a LabelSelector object: none matches nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    requirements = [
        _requirement(key, "=", (value,)) for key, value in sorted((selector.get("matchLabels") or {}).items())
    ]
    for expression in selector.get("matchExpressions") or ():
        if (operator := _FROM_OBJECT.get(expression.get("operator", ""))) is None:
            raise ValueError(
                f"{quote(expression.get('operator', ''))} is not a valid label selector operator"
            )
        requirements.append(_requirement(expression["key"], operator, tuple(expression.get("values") or ())))
    return LabelSelector(tuple(sorted(requirements, key=lambda r: r.key))) if requirements else EVERYTHING


def from_labels(labels: Mapping[str, str]) -> LabelSelector:
    """A selector of exactly these labels (a Service's ``selector``), not checked."""
    return LabelSelector(tuple(Requirement(k, "=", (v,)) for k, v in sorted(labels.items())))


def format_label_selector(selector: Mapping[str, Any] | None) -> str:
    """A LabelSelector object in one line, as tables show it."""
    try:
        return str(label_selector(selector)) or "<none>"
    except (ValueError, KeyError):
        return "<error>"


@cache_short(1024)
def parse_label_selector(text: str) -> LabelSelector:
    """``a=b,c in (d,e),!f``"""
    _check_length(text)
    return LabelSelector(tuple(sorted(_Parser(text).requirements(), key=lambda r: r.key)))


def _check_length(text: str) -> None:
    if len(text) > LONGEST:
        raise ValueError(f"the selector has {len(text)} characters; at most {LONGEST} are read")


def _requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    problems = list(_problems(key, operator, values))
    if problems:
        texts = list(dict.fromkeys(map(str, problems)))
        raise ValueError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return Requirement(key, operator, values)


def _problems(key: str, operator: str, values: Sequence[str]) -> Iterator[FieldError]:
    if words := names.qualified_name(key):
        yield invalid(Path("key"), key, "; ".join(words))
    path = Path("values")
    match operator:
        case "in" | "notin":
            if not values:
                yield invalid(path, list(values), "for 'in', 'notin' operators, values set can't be empty")
        case "=" | "==" | "!=":
            if len(values) != 1:
                yield invalid(path, list(values), "exact-match compatibility requires one single value")
        case "exists" | "!":
            if values:
                yield invalid(path, list(values), "values set must be empty for exists and does not exist")
        case "gt" | "lt":
            if len(values) != 1:
                yield invalid(path, list(values), "for 'Gt', 'Lt' operators, exactly one value is required")
            for i, value in enumerate(values):
                if parse_int64(value) is None:
                    words = "for 'Gt', 'Lt' operators, the value must be an integer"
                    yield invalid(path.index(i), value, words)
        case _:
            yield not_supported(Path("operator"), operator, _OPERATORS)
    for i, value in enumerate(values):
        if problems := names.label_value(value):
            yield invalid(path.index(i).key(key), value, "; ".join(problems))


class _Token(NamedTuple):
    kind: str  # identifier, end, error, open, closed, comma, or an operator
    text: str

    @property
    def as_value(self) -> str:
        """Where a value may stand, ``in`` and ``notin`` are ordinary words."""
        return "identifier" if self.kind in _KEYWORDS else self.kind


class _Parser:
    """Upstream's recursive descent, with its words for every mistake."""

    def __init__(self, text: str) -> None:
        self._tokens = _scan(text)
        self._at = 0

    def requirements(self) -> Iterator[Requirement]:
        while True:
            token = self._peek()
            if token.as_value == "end":
                return
            if token.as_value not in ("identifier", "!"):
                raise ValueError(f"found '{token.text}', expected: !, identifier, or 'end of string'")
            try:
                yield self._requirement()
            except ValueError as e:
                raise ValueError(f"unable to parse requirement: {e}") from None
            token = self._next()
            if token.as_value == "end":
                return
            if token.as_value != "comma":
                raise ValueError(f"found '{token.text}', expected: ',' or 'end of string'")
            if (after := self._peek()).as_value not in ("identifier", "!"):
                raise ValueError(f"found '{after.text}', expected: identifier after ','")

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        # The end stays in sight however often it is consumed.
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _requirement(self) -> Requirement:
        token = self._next()
        absent = token.as_value == "!"
        if absent:
            token = self._next()
        if token.as_value != "identifier":
            raise ValueError(f"found '{token.text}', expected: identifier")
        key = token.text
        if words := names.qualified_name(key):
            raise ValueError(f"<nil>: Invalid value: {quote(key)}: {'; '.join(words)}")
        if absent:
            return _requirement(key, "!", ())
        if self._peek().as_value in ("end", "comma"):
            return _requirement(key, "exists", ())
        operator = self._next()
        match operator.kind:
            case "in" | "notin":
                return _requirement(key, operator.kind, tuple(sorted(self._values())))
            case "=" | "==" | "!=" | "gt" | "lt":
                return _requirement(key, operator.kind, (self._exact(),))
        raise ValueError(f"found '{operator.text}', expected: in, notin, =, ==, !=, gt, lt")

    def _exact(self) -> str:
        if self._peek().as_value in ("end", "comma"):
            return ""
        token = self._next()
        if token.as_value != "identifier":
            raise ValueError(f"found '{token.text}', expected: identifier")
        return token.text

    def _values(self) -> set[str]:
        if (token := self._next()).kind != "open":
            raise ValueError(f"found '{token.text}' expected: '('")
        first = self._peek()
        if first.kind == "closed":
            self._next()
            return {""}
        if first.as_value not in ("identifier", "comma"):
            raise ValueError(f"found '{first.text}', expected: ',', ')' or identifier")
        values = self._identifiers()
        if self._next().kind != "closed":
            raise ValueError(f"found '{first.text}', expected: ')'")
        return values

    def _identifiers(self) -> set[str]:
        values: set[str] = set()
        while True:
            token = self._next()
            if token.as_value == "identifier":
                values.add(token.text)
                after = self._peek()
                if after.kind == "closed":
                    return values
                if after.kind != "comma":
                    raise ValueError(f"found '{after.text}', expected: ',' or ')'")
            elif token.kind == "comma":
                after = self._peek()
                if not values or after.kind in ("closed", "comma"):
                    values.add("")
                if after.kind == "closed":
                    return values
            else:
                raise ValueError(f"found '{token.text}', expected: ',', or identifier")


def _scan(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while match := _TOKEN.match(text, at):
        symbol, word = match.groups()
        if word is not None:
            tokens.append(_Token(_KEYWORDS.get(word, "identifier"), word))
        else:
            tokens.append(_Token(_SYMBOLS[symbol], symbol))
        at = match.end()
    tokens.append(_Token("end", ""))
    return tokens


class Term(NamedTuple):
    """``field=value`` or ``field!=value``"""

    field: str
    equal: bool
    value: str


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Conditions on fields that a kind offers for selection; all must hold."""

    terms: tuple[Term, ...] = ()

    def matches(self, read: Callable[[str], str]) -> bool:
        """``read`` gives the value of a field of the object at hand."""
        return all((read(t.field) == t.value) == t.equal for t in self.terms)

    def required(self, name: str) -> str | None:
        """The one value that this field must have, if the selector demands one."""
        return next((t.value for t in self.terms if t.field == name and t.equal), None)

    @property
    def empty(self) -> bool:
        return not self.terms

    def __str__(self) -> str:
        return ",".join(f"{t.field}{'=' if t.equal else '!='}{_escape(t.value)}" for t in self.terms)


@cache_short(1024)
def parse_field_selector(text: str) -> FieldSelector:
    """``metadata.name=x,spec.nodeName!=y``"""
    _check_length(text)
    terms: list[Term] = []
    for part in sorted(_split(text)):
        if not part:
            continue
        match = re.search("!=|==|=", part)
        if match is None:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{part}'")
        terms.append(Term(part[: match.start()], match[0] != "!=", _unescape(part[match.end() :])))
    return FieldSelector(tuple(terms))


def _split(text: str) -> list[str]:
    """At commas that no backslash protects."""
    return re.findall(r"(?:\\.|[^,\\]|\\$)+", text, re.DOTALL)


def _unescape(value: str) -> str:
    def replace(match: re.Match[str]) -> str:
        found = match[0]
        if found in (",", "="):
            raise ValueError(f"invalid field selector: unescaped character in value: {ord(found)}")
        if found[1:] not in ("\\", ",", "="):
            raise ValueError(f"invalid field selector: invalid escape sequence: {found}")
        return found[1:]

    return re.sub(r"\\.|\\$|[,=]", replace, value, flags=re.DOTALL)


def _escape(value: str) -> str:
    return re.sub(r"([\\,=])", r"\\\1", value)
