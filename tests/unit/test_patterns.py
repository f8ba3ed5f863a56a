"""No regular expression takes more than linear time, however long the text is and wherever it ceases to match.

The interpreter's lock is held while a text is matched: one that takes long stops the whole process. The texts are made
from the expressions themselves: what leads to a repetition, then what is repeated, thousands of times, then something that
does not fit.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import pytest

import dray

_SEARCHES = frozenset({"search", "sub", "findall", "finditer", "split"})
_MATCHES = frozenset({"match", "fullmatch"})
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
_CATEGORIES = {op.CATEGORY_DIGIT: "1", op.CATEGORY_SPACE: " ", op.CATEGORY_NOT_WORD: "-"}
_CHARACTERS = "a1-_ .=\x01~é"
#: Repetitions, and as many again for comparison: linear time grows fourfold, quadratic time sixteenfold.
_FEW, _MANY, _MOST = 400, 1_600, 9


class Use(NamedTuple):
    """An expression, and how it is applied."""

    pattern: re.Pattern[Any]
    methods: frozenset[str]


def uses() -> dict[str, Use]:
    """Every expression of the package by where it is: those that modules keep, and those that are written in a call."""
    found: dict[str, Use] = {}
    for module in pkgutil.walk_packages(dray.__path__, "dray."):
        if module.name.endswith("__main__") or "@" in module.name:
            continue
        loaded = importlib.import_module(module.name)
        source = Path(str(loaded.__file__)).read_text()
        for name, value in vars(loaded).items():
            for number, pattern in enumerate(_patterns(value)):
                methods = {m for m in _SEARCHES if re.search(rf"\b{name}\.{m}\b", source)}
                found.setdefault(
                    f"{module.name}:{name}:{number}", Use(pattern, frozenset(methods) or _MATCHES)
                )
        if re.search(r"^import re$", source, re.MULTILINE):
            for call in ast.walk(ast.parse(source)):
                if isinstance(call, ast.Call) and (inline := _inline(call)) is not None:
                    found[f"{module.name}:{call.lineno}"] = inline
    return found


def _patterns(value: Any) -> Iterator[re.Pattern[Any]]:
    for one in value.values() if isinstance(value, dict) else (value,):
        one = getattr(one, "__self__", one)  # a method of one
        if isinstance(one, re.Pattern):
            yield one


def _inline(call: ast.Call) -> Use | None:
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="re"), attr=method), args=[ast.Constant(value=text), *_]
        ) if method in _SEARCHES | _MATCHES:
            return Use(re.compile(text), frozenset({method}))
    return None


def _sample(nodes: Any) -> str:
    """A text that fits."""
    out = ""
    for kind, value in nodes:
        if kind is op.LITERAL:
            out += chr(value)
        elif kind is op.IN:
            out += _character(value)
        elif kind in (op.ANY, op.NOT_LITERAL):
            out += "b" if value == ord("a") else "a"
        elif kind is op.BRANCH:
            out += _sample(value[1][0])
        elif kind in _REPEATS:
            out += _sample(value[2]) * max(1, value[0])
        elif kind is op.SUBPATTERN:
            out += _sample(value[3])
    return out


def _character(choices: Any) -> str:
    kind, value = choices[0]
    if kind is op.NEGATE:
        unfit = re.compile(f"[{''.join(_class(one) for one in choices[1:])}]")
        return next(c for c in _CHARACTERS if not unfit.match(c))
    if kind is op.CATEGORY:
        return _CATEGORIES.get(value, "a")
    return chr(value if kind is op.LITERAL else value[0])


def _class(choice: Any) -> str:
    kind, value = choice
    if kind is op.CATEGORY:
        return {op.CATEGORY_SPACE: r"\s", op.CATEGORY_DIGIT: r"\d", op.CATEGORY_WORD: r"\w"}.get(value, r"\W")
    if kind is op.LITERAL:
        return re.escape(chr(value))
    return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"


def _repetitions(nodes: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """What leads to each repetition without a bound, and what is repeated."""
    for kind, value in nodes:
        if kind in _REPEATS:
            if value[1] > _MANY:
                yield before, _sample(value[2])
            yield from _repetitions(value[2], before)
        elif kind is op.SUBPATTERN:
            yield from _repetitions(value[3], before)
        elif kind is op.BRANCH:
            for one in value[1]:
                yield from _repetitions(one, before)
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            yield from _repetitions(value[1], before)
        before += _sample([(kind, value)])


def _apply(pattern: re.Pattern[Any], method: str) -> Callable[[Any], object]:
    if method == "sub":
        return lambda text: pattern.sub(text[:0], text)
    if method == "finditer":
        return lambda text: list(pattern.finditer(text))
    found: Callable[[Any], object] = getattr(pattern, method)
    return found


def growth(use: Use) -> float:
    """How many times as long a text takes that is four times as long, at worst."""
    text = use.pattern.pattern
    tree = _parser.parse(
        text if isinstance(text, str) else text.decode("latin-1"), use.pattern.flags & ~re.UNICODE
    )
    worst = 0.0
    for (before, body), end in itertools.product(set(_repetitions(tree)), ("", "\0", "!")):
        for start, piece in itertools.product({before, ""}, {body, body[:1]}):
            for method in use.methods:
                apply = _apply(use.pattern, method)
                worst = max(worst, _ratio(apply, isinstance(text, bytes), start, piece, end))
                if worst > _MOST:
                    return worst
    return worst


def _ratio(apply: Callable[[Any], object], binary: bool, start: str, piece: str, end: str) -> float:
    found = float("inf")
    for _ in range(4):  # somebody else may have had the processor's caches meanwhile
        took = []
        for times in (_FEW, _MANY):
            text = start + piece * times + end
            given: Any = text.encode("latin-1") if binary else text
            began = time.thread_time_ns()
            apply(given)
            took.append(max(time.thread_time_ns() - began, 1))
        found = min(found, took[1] / took[0])
        if found <= _MOST:
            break
    return found


def test_no_expression_takes_more_than_linear_time() -> None:
    known = uses()
    assert len(known) > 80
    assert {where: use.pattern.pattern for where, use in known.items() if growth(use) > _MOST} == {}


@pytest.mark.parametrize("text", [r"([0-9]+\.?[0-9]*)s", r"0*([0-9]*)x", r"a*[ab]*c"])
def test_an_expression_that_takes_longer_is_found(text: str) -> None:
    assert growth(Use(re.compile(text), _MATCHES)) > _MOST
