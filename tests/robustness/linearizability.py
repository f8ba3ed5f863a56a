"""Whether what clients saw of single objects can be explained by one order in which every request took place at once.

The search is that of Wing and Gong with the memory of Lowe, as porcupine has it: try every operation that may come
next, remember each set of placed operations with the state it led to, and never visit one twice. Objects are
independent of one another, so each has a search of its own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from .history import Operation, Version

State = Version | None  # None: there is no such object


def after(state: State, operation: Operation) -> tuple[()] | tuple[State]:
    """The state that the operation leaves behind if it takes place on this state; nothing if it cannot."""
    match operation.verb, operation.outcome:
        case "create", "ok":
            return (_written(operation),) if state is None else ()
        case "create", "exists":
            return (state,) if state is not None else ()
        case "update", "ok":
            if state is None or operation.expected not in (0, state.revision):
                return ()
            return (_written(operation),) if operation.revision > state.revision else ()
        case (("update" | "delete"), "conflict"):
            return (state,) if state is not None and operation.expected != state.revision else ()
        case (("update" | "delete" | "get"), "not found"):
            return (state,) if state is None else ()
        case "delete", ("ok" | "unknown"):  # without an answer it need not take place at all
            return (None,) if state is not None and operation.expected in (0, state.revision) else ()
        case "get", "ok":
            return (state,) if state == Version(operation.value, operation.revision) else ()
        case _:
            return ()


def _written(operation: Operation) -> Version:
    return Version(operation.value, operation.revision)


def violations(operations: Iterable[Operation]) -> list[str]:
    """One line for every object whose operations have no explanation."""
    by_key: defaultdict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        by_key[operation.key].append(operation)
    return [
        f"{key}: no order explains {len(some)} operations; stuck after {placed} of them at {_show(stuck)}"
        for key, some in by_key.items()
        for placed, stuck in _search(some)
    ]


def _show(operations: Sequence[Operation]) -> str:
    return "; ".join(
        f"{o.client} {o.verb} {o.value or '-'}@{o.revision} (expected {o.expected}): {o.outcome}"
        for o in operations[:4]
    )


def _search(operations: list[Operation]) -> list[tuple[int, list[Operation]]]:
    """Nothing if there is an order, else how far the search came and what could not be placed there."""
    todo = sorted(operations, key=lambda operation: operation.called)
    must = sum(1 << i for i, operation in enumerate(todo) if not math.isinf(_returned(operation)))
    seen: set[tuple[int, State]] = set()
    stack: list[tuple[int, State]] = [(0, None)]
    furthest, stuck = -1, list[Operation]()
    while stack:
        placed, state = stack.pop()
        if placed & must == must:
            return []
        if (placed, state) in seen:
            continue
        seen.add((placed, state))
        candidates = list(_candidates(todo, placed))
        following = [(placed | 1 << i, new) for i in candidates for new in after(state, todo[i])]
        if not following and placed.bit_count() > furthest:
            furthest, stuck = placed.bit_count(), [todo[i] for i in candidates]
        # An operation that leaves the state as it is can be placed at once: that never makes another one impossible.
        still = [(mask, new) for mask, new in following if new == state]
        stack += still[:1] or following[::-1]
    return [(furthest, stuck)]


def _candidates(todo: list[Operation], placed: int) -> Iterable[int]:
    """The operations that may come next: those that were called before any other one that is left had returned."""
    horizon = math.inf
    first = (~placed & (placed + 1)).bit_length() - 1  # the lowest one that is not placed
    for i in range(first, len(todo)):
        operation = todo[i]
        if placed >> i & 1:
            continue
        if operation.called > horizon:
            return
        yield i
        horizon = min(horizon, _returned(operation))


def _returned(operation: Operation) -> float:
    return math.inf if operation.outcome == "unknown" else operation.returned
