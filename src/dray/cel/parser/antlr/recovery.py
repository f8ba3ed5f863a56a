"""Reads tokens by the grammar, reports what does not fit, and recovers to read on, as ANTLR does by default."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from dray.cel.common.source import Issue
from dray.cel.parser.antlr.grammar import (
    END,
    EPSILON,
    ORDER,
    Choice,
    Grammar,
    Loop,
    Match,
    Maybe,
    Part,
    Reference,
    Sequence,
    State,
    build,
)
from dray.cel.parser.antlr.prediction import NoAlternative, Predictor
from dray.cel.parser.lexer import Token, UnknownToken, tokenize_from

_MAX_REPORTS: Final = 100
_MAX_RECOVERIES: Final = 30
_MAX_SKIPPED: Final = 256
_SYMBOLIC: Final = frozenset(
    {"NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES", "IDENTIFIER", "ESC_IDENTIFIER"}
)
_RESERVED: Final = re.compile(r"no viable alternative at input '.(true|false|null)'")


def diagnose(text: str, *, max_depth: int) -> list[Issue]:
    """Everything upstream's parser says about a text it refuses."""
    issues: list[Issue] = []
    unknown: list[tuple[int, int]] = []
    grammar, predictor = _machine()
    try:
        tokens = _tokens(text, issues, unknown)
        _Parser(text, tokens, unknown, grammar, predictor, issues, max_depth=max_depth).run()
    except _Stop as stop:
        if stop.message:
            issues.append(Issue(None, stop.message))
    return issues


@lru_cache(maxsize=1)
def _machine() -> tuple[Grammar, Predictor]:
    grammar = build()
    return grammar, Predictor(grammar)


def _tokens(text: str, issues: list[Issue], stretches: list[tuple[int, int]]) -> list[Token]:
    """The tokens, with a problem for each stretch that is none."""
    tokens: list[Token] = []
    position = 0
    while True:
        try:
            tokens += tokenize_from(text, position)
            return tokens
        except UnknownToken as unknown:
            tokens += unknown.before
            end = unknown.end
            stretches.append((unknown.offset, end))
            wrong = _escaped(text[unknown.offset : end])
            issues.append(Issue(unknown.offset, f"Syntax error: token recognition error at: {wrong}"))
            if len(issues) > _MAX_REPORTS:
                issues[-1] = Issue(unknown.offset, f"Syntax error: More than {_MAX_REPORTS} syntax errors")
                raise _Stop("") from None
            position = end


def _escaped(text: str) -> str:
    return "'" + text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r") + "'"


class _Stop(Exception):
    """Reading on is pointless; the message, if any, is one more problem."""

    def __init__(self, message: str) -> None:
        self.message = message


class _Refused(Exception):
    """A rule cannot go on: ``offending`` does not fit."""

    def __init__(self, offending: int, message: str) -> None:
        self.offending = offending
        self.message = message


class _Parser:
    def __init__(
        self,
        text: str,
        tokens: list[Token],
        unknown: list[tuple[int, int]],
        grammar: Grammar,
        predictor: Predictor,
        issues: list[Issue],
        *,
        max_depth: int,
    ) -> None:
        self.text = text
        self.tokens = tokens
        self.unknown = unknown
        self.grammar = grammar
        self.predictor = predictor
        self.issues = issues
        self.max_depth = max_depth
        self.reports = len(issues)
        self.position = 0
        self.state = grammar.starts["start"]
        self.callers: list[State] = []
        self.precedences = [0]
        self.depths: dict[str, int] = {}
        # Recovery: whether an error was reported with no token matched since, and where the last one was.
        self.recovering = False
        self.recoveries = 0
        self.last_error: tuple[int, set[State]] = (-1, set())

    def run(self) -> None:
        self.rule("start", 0)

    # Tokens

    def ahead(self, distance: int = 0) -> str:
        position = min(self.position + distance, len(self.tokens) - 1)
        return self.tokens[position][0]

    def consume(self) -> None:
        if self.ahead() != END:
            self.position += 1

    def shown(self, position: int) -> str:
        return _escaped(self.tokens[position][1])

    # Running rules

    def rule(self, name: str, precedence: int) -> None:
        self.depths[name] = self.depths.get(name, 0) + 1
        if self.depths[name] > self.max_depth:
            raise _Stop(f"expression recursion limit exceeded: {self.max_depth}")
        self.precedences.append(precedence)
        try:
            self.run_part(self.grammar.rules[name])
        except _Refused as refused:
            self.report(refused.offending, refused.message)
            self.recover()
        self.precedences.pop()
        self.depths[name] -= 1

    def run_part(self, part: Part) -> None:
        match part:
            case Match(state):
                self.match(state)
            case Reference(state):
                self.state = state
                self.callers.append(state)
                self.rule(state.calls, state.precedence)
                self.callers.pop()
            case Sequence(_, parts):
                for each in parts:
                    self.run_part(each)
            case Maybe(state, body):
                self.state = state
                self.synchronize()
                if self.ahead() in self.grammar.next_tokens(body.state):
                    self.run_part(body)
            case Choice():
                self.choose(part)
            case Loop():
                self.loop(part)

    def choose(self, part: Choice) -> None:
        self.state = part.state
        self.synchronize()
        if not part.simple:
            self.run_part(part.alternatives[self.predict(part.state) - 1])
            return
        for alternative in part.alternatives:
            if self.ahead() in self.grammar.next_tokens(alternative.state):
                self.run_part(alternative)
                return
        raise self.no_alternative(0)

    def loop(self, part: Loop) -> None:
        self.state = part.state
        self.synchronize()
        decision = part.back if part.at_least_once else part.state
        going = part.at_least_once or self.goes_on(part, decision)
        while going:
            self.run_part(part.body)
            self.state = part.back
            self.synchronize()
            going = self.goes_on(part, decision)

    def goes_on(self, part: Loop, decision: State) -> bool:
        if part.simple:
            return self.ahead() in self.grammar.next_tokens(part.body.state)
        return self.predict(decision) == 1

    def predict(self, decision: State) -> int:
        callers = tuple(caller.targets[0] for caller in self.callers)
        try:
            return self.predictor.predict(decision, self.ahead, self.precedences[-1], callers)
        except NoAlternative as none:
            raise self.no_alternative(none.offending) from None

    def no_alternative(self, distance: int) -> _Refused:
        offending = min(self.position + distance, len(self.tokens) - 1)
        start = self.tokens[self.position]
        if start[0] == END:
            seen = "<EOF>"
        else:
            kind, word, offset = self.tokens[offending]
            seen = self.between(start[2], offset if kind == END else offset + len(word))
        return _Refused(offending, f"no viable alternative at input {_escaped(seen)}")

    def between(self, start: int, end: int) -> str:
        """The text there, without what was no token."""
        seen = ""
        for from_, to in self.unknown:
            if start <= from_ < end:
                seen += self.text[start:from_]
                start = to
        return seen + self.text[start:end]

    def match(self, state: State) -> None:
        self.state = state
        if self.ahead() in state.tokens:
            self.matched()
            self.consume()
            return
        self.count_recovery()
        if self.delete_token():
            self.consume()
        elif self.ahead() in self.next_in_context(state.targets[0]):
            self.report(
                self.position, f"missing {self.listed(self.expected())} at {self.shown(self.position)}"
            )
        else:
            raise self.mismatch()

    # Errors

    def expected(self) -> frozenset[str]:
        """What could stand here, given who called the rule."""
        following = self.grammar.next_tokens(self.state)
        found = set(following)
        callers = list(self.callers)
        while EPSILON in following and callers:
            following = self.grammar.next_tokens(callers.pop().targets[0])
            found |= following
        found.discard(EPSILON)
        if EPSILON in following:
            found.add(END)
        return frozenset(found)

    def next_in_context(self, state: State) -> frozenset[str]:
        following = self.grammar.next_tokens(state)
        found = set(following)
        callers = list(self.callers)
        while EPSILON in following and callers:
            following = self.grammar.next_tokens(callers.pop().targets[0])
            found |= following
        return frozenset(found)

    def listed(self, tokens: frozenset[str]) -> str:
        names = [
            token if token in _SYMBOLIC or token == END else f"'{token}'"
            for token in sorted(tokens, key=ORDER.__getitem__)
        ]
        return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"

    def mismatch(self) -> _Refused:
        expecting = self.listed(self.expected())
        return _Refused(self.position, f"mismatched input {self.shown(self.position)} expecting {expecting}")

    def report(self, position: int, message: str) -> None:
        if self.recovering:
            return
        self.recovering = True
        self.notify(position, message)

    def notify(self, position: int, message: str) -> None:
        message = _RESERVED.sub(r"mismatched input '\1' expecting IDENTIFIER", message)
        offset = self.tokens[position][2] if self.text else -1
        if self.reports >= _MAX_REPORTS:
            self.issues.append(Issue(offset, f"Syntax error: More than {_MAX_REPORTS} syntax errors"))
            raise _Stop("")
        self.reports += 1
        self.issues.append(Issue(offset, f"Syntax error: {message}"))

    def matched(self) -> None:
        self.recovering = False
        self.last_error = (-1, set())

    # Recovery

    def count_recovery(self) -> None:
        if self.recoveries == _MAX_RECOVERIES:
            self.notify(self.position, f"error recovery attempt limit exceeded: {_MAX_RECOVERIES}")
            raise _Stop("")
        self.recoveries += 1

    def recover(self) -> None:
        """Skip to a token that may follow one of the rules under way."""
        self.count_recovery()
        index, states = self.last_error
        skipped = 0
        if index == self.position and self.state in states:
            # Nothing was skipped last time: skip at least one token, or this never ends.
            self.consume()
            skipped = 1
        if index != self.position:
            states = states if index != -1 else set()
        self.last_error = (self.position, states | {self.state})
        self.skip_until(self.recovery_set(), skipped)

    def recovery_set(self) -> frozenset[str]:
        found: set[str] = set()
        for caller in self.callers:
            found |= self.grammar.next_tokens(caller.targets[0])
        return frozenset(found - {EPSILON})

    def skip_until(self, wanted: frozenset[str], skipped: int = 0) -> None:
        while self.ahead() != END and self.ahead() not in wanted:
            if skipped >= _MAX_SKIPPED:
                raise _Stop(f"error recovery token lookahead limit exceeded: {_MAX_SKIPPED}")
            self.consume()
            skipped += 1

    def delete_token(self) -> bool:
        """Drop one token if the one after it is what is wanted."""
        if self.ahead(1) not in self.expected():
            return False
        self.unwanted()
        self.consume()
        self.matched()
        return True

    def unwanted(self) -> None:
        expecting = self.listed(self.expected())
        self.report(self.position, f"extraneous input {self.shown(self.position)} expecting {expecting}")

    def synchronize(self) -> None:
        """Before a decision: make sure that what comes next belongs here at all."""
        if self.recovering:
            return
        following = self.grammar.next_tokens(self.state)
        if EPSILON in following or self.ahead() in following:
            return
        if self.state.kind in ("block", "star_block", "plus_block", "star_entry"):
            if not self.delete_token():
                raise self.mismatch()
        elif self.state.kind in ("plus_back", "star_back"):
            self.unwanted()
            self.skip_until(self.expected() | self.recovery_set())
