"""Which alternative the tokens ahead call for: ANTLR's adaptive prediction, in both of its stages.

The first stage follows the paths without the caller of the rule, so the end of a rule may lead to any of its callers.
If that ends in a conflict, the second stage follows the paths again with the real callers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from dray.cel.parser.antlr.grammar import END, Grammar, State

Stack = tuple[State, ...]
"""Where to go on when rules end, innermost last."""

_CACHE_LIMIT: Final = 20_000


class _Way(NamedTuple):
    """One way to read the tokens so far: where it stands, for which alternative, and whether it has left the
    rule in which the decision is made."""

    state: State
    alternative: int
    stack: Stack
    outside: bool


_Ways = frozenset[_Way]


class NoAlternative(Exception):
    """No alternative fits; ``offending`` is how many tokens ahead that shows."""

    def __init__(self, offending: int) -> None:
        self.offending = offending


class Predictor:
    """Decides, and remembers what it worked out."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self._starts: dict[tuple[State, int], _Ways] = {}
        self._steps: dict[tuple[_Ways, str], _Ways] = {}

    def predict(self, decision: State, ahead: Callable[[int], str], precedence: int, callers: Stack) -> int:
        """The number of the alternative, from 1."""
        key = (decision, precedence)
        ways = self._starts.get(key)
        if ways is None:
            ways = self._starts[key] = self._start(decision, precedence, None)
        distance = 0
        while True:
            token = ahead(distance)
            reached = self._remembered(ways, token)
            if not reached:
                return self._finished(ways) or self._fail(distance)
            alternatives = {way.alternative for way in reached}
            if len(alternatives) == 1:
                return alternatives.pop()
            if _conflicting(reached):
                return self._with_callers(decision, ahead, precedence, callers)
            ways = reached
            if token != END:
                distance += 1

    def _with_callers(
        self, decision: State, ahead: Callable[[int], str], precedence: int, callers: Stack
    ) -> int:
        ways = self._start(decision, precedence, callers)
        distance = 0
        while True:
            token = ahead(distance)
            reached = self._step(ways, token, full=True)
            if not reached:
                # Upstream has gone back to the first token by the time it reports this.
                return self._finished(ways) or self._fail(0)
            lowest = {min(alternatives) for alternatives in _subsets(reached)}
            if len(lowest) == 1:
                return lowest.pop()
            ways = reached
            if token != END:
                distance += 1

    def _fail(self, distance: int) -> int:
        raise NoAlternative(distance)

    def _finished(self, ways: _Ways) -> int:
        """The first alternative that had already read its rule to the end, 0 if none."""
        return min((way.alternative for way in ways if way.outside or way.state.kind == "stop"), default=0)

    def _start(self, decision: State, precedence: int, callers: Stack | None) -> _Ways:
        ways: set[_Way] = set()
        for i, target in enumerate(decision.targets):
            way = _Way(target, i + 1, callers or (), False)
            self._close(way, ways, full=callers is not None, precedence=precedence, depth=0)
        return frozenset(ways)

    def _remembered(self, ways: _Ways, token: str) -> _Ways:
        key = (ways, token)
        found = self._steps.get(key)
        if found is None:
            if len(self._steps) > _CACHE_LIMIT:
                self._steps.clear()
            found = self._steps[key] = self._step(ways, token, full=False)
        return found

    def _step(self, ways: _Ways, token: str, *, full: bool) -> _Ways:
        """The ways left after one more token."""
        moved = [way._replace(state=way.state.targets[0]) for way in ways if token in way.state.tokens]
        reached: set[_Way] = set()
        for way in moved:
            self._close(way, reached, full=full)
        if token == END:
            reached = {way for way in reached if way.state.kind == "stop"} or reached
        return frozenset(reached)

    def _close(
        self, way: _Way, ways: set[_Way], *, full: bool, precedence: int | None = None, depth: int = 0
    ) -> None:
        """Follow a way up to the next tokens. A precedence counts only in the rule of the decision itself."""
        pending = [(way, depth)]
        seen: set[_Way] = set()
        while pending:
            way, depth = pending.pop()
            if way in seen:
                continue
            seen.add(way)
            state = way.state
            if state.kind == "stop":
                pending.extend((each, depth - 1) for each in self._left(way, ways, full=full))
            elif state.tokens:
                ways.add(way)
            elif state.calls:
                start = self.grammar.starts[state.calls]
                pending.append((way._replace(state=start, stack=(*way.stack, state.targets[0])), depth + 1))
            elif state.requires is None or precedence is None or depth != 0 or state.requires >= precedence:
                pending.extend((way._replace(state=target), depth) for target in reversed(state.targets))

    def _left(self, way: _Way, ways: set[_Way], *, full: bool) -> Iterable[_Way]:
        """Where a way goes on after the end of a rule."""
        if way.stack:
            return [way._replace(state=way.stack[-1], stack=way.stack[:-1])]
        callers = self.grammar.callers.get(way.state.rule, ())
        if full or not callers:
            ways.add(way)
            return []
        return [way._replace(state=caller.targets[0], outside=True) for caller in callers]


def _subsets(ways: _Ways) -> list[set[int]]:
    """The alternatives of the ways that stand at the same place with the same callers."""
    found: dict[tuple[State, Stack], set[int]] = {}
    for way in ways:
        found.setdefault((way.state, way.stack), set()).add(way.alternative)
    return list(found.values())


def _conflicting(ways: _Ways) -> bool:
    """Whether reading on could not tell the alternatives apart without knowing the callers."""
    if all(way.state.kind == "stop" for way in ways):
        return True
    if not any(len(alternatives) > 1 for alternatives in _subsets(ways)):
        return False
    by_state: dict[State, set[int]] = {}
    for way in ways:
        by_state.setdefault(way.state, set()).add(way.alternative)
    return all(len(alternatives) > 1 for alternatives in by_state.values())
