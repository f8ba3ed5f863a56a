"""CEL's grammar as a network of states.

The grammar is written with a handful of combinators. Building it gives every place a state: what may come next is
then a walk along the network, and what was decided where can be looked up by state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

TOKENS: Final = (
    "==", "!=", "in", "<", "<=", ">=", ">", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%", "true", "false", "null", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES", "IDENTIFIER",
    "ESC_IDENTIFIER",
)  # fmt: skip
END: Final = "<EOF>"
EPSILON: Final = "<EPSILON>"
ORDER: Final = {END: -1, **{name: i for i, name in enumerate(TOKENS)}}
"""Tokens in the order upstream lists them."""


@dataclass(eq=False, slots=True)
class State:
    """A place in the grammar. ``kind`` is what ANTLR's recovery wants to know about it."""

    number: int
    rule: str
    kind: str = "basic"
    tokens: frozenset[str] = frozenset()
    calls: str = ""
    precedence: int = 0
    requires: int | None = None
    targets: list[State] = field(default_factory=list)

    def __hash__(self) -> int:
        return self.number


@dataclass(eq=False, slots=True)
class Part:
    """A piece of a rule: how it is run, and the state it starts in."""

    state: State


@dataclass(eq=False, slots=True)
class Match(Part):
    """One token of a set."""


@dataclass(eq=False, slots=True)
class Reference(Part):
    """Another rule."""


@dataclass(eq=False, slots=True)
class Sequence(Part):
    parts: list[Part]


@dataclass(eq=False, slots=True)
class Choice(Part):
    """One of several alternatives. With ``simple`` the next token alone decides."""

    alternatives: list[Part]
    simple: bool


@dataclass(eq=False, slots=True)
class Maybe(Part):
    """A part that may be left out, decided by the next token."""

    body: Part


@dataclass(eq=False, slots=True)
class Loop(Part):
    """A part repeated: any number of times, or at least once."""

    body: Part
    back: State
    at_least_once: bool
    simple: bool


class Grammar:
    """The rules, and what can be asked about the network as a whole."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self.rules: dict[str, Part] = {}
        self.starts: dict[str, State] = {}
        self.stops: dict[str, State] = {}
        self.callers: dict[str, list[State]] = {}
        self._next: dict[State, frozenset[str]] = {}

    def state(self, rule: str, kind: str = "basic") -> State:
        made = State(len(self.states), rule, kind)
        self.states.append(made)
        return made

    def next_tokens(self, state: State) -> frozenset[str]:
        """What may come next within the rule; EPSILON if the rule may end here."""
        found = self._next.get(state)
        if found is None:
            found = self._next[state] = frozenset(self._look(state, set()))
        return found

    def _look(self, state: State, seen: set[State]) -> Iterator[str]:
        if state in seen:
            return
        seen.add(state)
        if state.kind == "stop":
            yield EPSILON
        elif state.tokens:
            yield from state.tokens
        elif state.calls:
            inner = set(self._look(self.starts[state.calls], set()))
            yield from inner - {EPSILON}
            if EPSILON in inner:
                yield from self._look(state.targets[0], seen)
        else:
            for target in state.targets:
                yield from self._look(target, seen)


class _Builder:
    """Builds rules back to front: each part is given the state that follows it."""

    def __init__(self, grammar: Grammar, rule: str) -> None:
        self.grammar = grammar
        self.rule = rule

    def build(self, spec: Spec, after: State) -> Part:
        match spec:
            case str() | frozenset():
                state = self.grammar.state(self.rule)
                state.tokens = frozenset({spec}) if isinstance(spec, str) else spec
                state.targets = [after]
                return Match(state)
            case Call(rule, precedence):
                state = self.grammar.state(self.rule)
                state.calls, state.precedence, state.targets = rule, precedence, [after]
                self.grammar.callers.setdefault(rule, []).append(state)
                return Reference(state)
            case list():
                parts: list[Part] = []
                for each in reversed(spec):
                    parts.insert(0, self.build(each, after))
                    after = parts[0].state
                return Sequence(after, parts)
            case Opt(body):
                state = self.grammar.state(self.rule, "block")
                part = self.build(body, after)
                state.targets = [part.state, after]
                return Maybe(state, part)
            case Alt(bodies, simple):
                return self.choice(bodies, after, kind="block", simple=simple)
            case Many():
                return self.loop(spec, after)
            case If(precedence, body):
                state = self.grammar.state(self.rule)
                part = self.build(body, after)
                state.requires, state.targets = precedence, [part.state]
                return Sequence(state, [part])
        raise AssertionError(spec)

    def choice(self, bodies: tuple[Spec, ...], after: State, *, kind: str, simple: bool) -> Choice:
        state = self.grammar.state(self.rule, kind)
        parts = [self.build(body, after) for body in bodies]
        state.targets = [part.state for part in parts]
        return Choice(state, parts, simple)

    def loop(self, spec: Many, after: State) -> Loop:
        if spec.at_least_once:
            start = self.grammar.state(self.rule, "plus_block")
            back = self.grammar.state(self.rule, "plus_back")
            body = self.build(spec.body, back)
            start.targets = [body.state]
            back.targets = [start, after]
            return Loop(start, body, back, at_least_once=True, simple=spec.simple)
        entry = self.grammar.state(self.rule, "star_entry")
        back = self.grammar.state(self.rule, "star_back")
        back.targets = [entry]
        inner: Part
        if isinstance(spec.body, Alt):
            inner = self.choice(spec.body.bodies, back, kind="star_block", simple=False)
        else:
            inner = self.build(spec.body, back)
        entry.targets = [inner.state, after]
        return Loop(entry, inner, back, at_least_once=False, simple=spec.simple)


@dataclass(frozen=True, slots=True)
class Call:
    rule: str
    precedence: int = 0


@dataclass(frozen=True, slots=True)
class Opt:
    body: Spec


@dataclass(frozen=True, slots=True)
class Alt:
    bodies: tuple[Spec, ...]
    simple: bool = False


@dataclass(frozen=True, slots=True)
class Many:
    body: Spec
    at_least_once: bool = False
    simple: bool = True


@dataclass(frozen=True, slots=True)
class If:
    """Only where the surrounding operator binds no tighter than this."""

    precedence: int
    body: Spec


Spec = str | frozenset[str] | Call | list["Spec"] | Opt | Alt | Many | If

_NAMED: Final[list[Spec]] = [Opt("."), "IDENTIFIER"]
_ARGUMENTS: Final[list[Spec]] = ["(", Opt(Call("exprList")), ")"]

RULES: Final[dict[str, Spec]] = {
    "start": [Call("expr"), END],
    "expr": [Call("conditionalOr"), Opt(["?", Call("conditionalOr"), ":", Call("expr")])],
    "conditionalOr": [Call("conditionalAnd"), Many(["||", Call("conditionalAnd")])],
    "conditionalAnd": [Call("relation"), Many(["&&", Call("relation")])],
    "relation": [
        Call("calc"),
        Many(If(1, [frozenset({"<", "<=", ">=", ">", "==", "!=", "in"}), Call("relation", 2)]), simple=False),
    ],
    "calc": [
        Call("unary"),
        Many(
            Alt(
                (
                    If(2, [frozenset({"*", "/", "%"}), Call("calc", 3)]),
                    If(1, [frozenset({"+", "-"}), Call("calc", 2)]),
                )
            ),
            simple=False,
        ),
    ],
    "unary": Alt(
        (
            Call("member"),
            [Many("!", at_least_once=True), Call("member")],
            [Many("-", at_least_once=True, simple=False), Call("member")],
        )
    ),
    "member": [
        Call("primary"),
        Many(
            Alt(
                (
                    If(3, [".", Opt("?"), Call("escapeIdent")]),
                    If(2, [".", "IDENTIFIER", *_ARGUMENTS]),
                    If(1, ["[", Opt("?"), Call("expr"), "]"]),
                )
            ),
            simple=False,
        ),
    ],
    "primary": Alt(
        (
            _NAMED,
            [*_NAMED, *_ARGUMENTS],
            ["(", Call("expr"), ")"],
            ["[", Opt(Call("listInit")), Opt(","), "]"],
            ["{", Opt(Call("mapInitializerList")), Opt(","), "}"],
            [*_NAMED, Many([".", "IDENTIFIER"]), "{", Opt(Call("fieldInitializerList")), Opt(","), "}"],
            Call("literal"),
        )
    ),
    "exprList": [Call("expr"), Many([",", Call("expr")])],
    "listInit": [Call("optExpr"), Many([",", Call("optExpr")], simple=False)],
    "fieldInitializerList": [
        Call("optField"),
        ":",
        Call("expr"),
        Many([",", Call("optField"), ":", Call("expr")], simple=False),
    ],
    "optField": [Opt("?"), Call("escapeIdent")],
    "mapInitializerList": [
        Call("optExpr"),
        ":",
        Call("expr"),
        Many([",", Call("optExpr"), ":", Call("expr")], simple=False),
    ],
    "escapeIdent": Alt(("IDENTIFIER", "ESC_IDENTIFIER"), simple=True),
    "optExpr": [Opt("?"), Call("expr")],
    "literal": Alt(
        (
            [Opt("-"), "NUM_INT"],
            "NUM_UINT",
            [Opt("-"), "NUM_FLOAT"],
            "STRING",
            "BYTES",
            "true",
            "false",
            "null",
        )
    ),
}


def build() -> Grammar:
    grammar = Grammar()
    for rule, spec in RULES.items():
        stop = grammar.stops[rule] = grammar.state(rule, "stop")
        part = grammar.rules[rule] = _Builder(grammar, rule).build(spec, stop)
        grammar.starts[rule] = part.state
    return grammar
