"""Sizes and costs as ranges, and what is known of them about the parts of an expression.

Everything saturates at 2^64 - 1, which stands for "unbounded".
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final, NamedTuple

from dray.cel.common import types as t
from dray.cel.common.ast import Node

UNBOUNDED: Final = (1 << 64) - 1
_TWO_TO_64: Final = 2.0**64


class Range(NamedTuple):
    """From ``low`` to ``high``: a size or a cost."""

    low: int
    high: int

    def plus(self, other: Range) -> Range:
        return Range(_add(self.low, other.low), _add(self.high, other.high))

    def times(self, other: Range) -> Range:
        return Range(_multiply(self.low, other.low), _multiply(self.high, other.high))

    def scaled(self, factor: float) -> Range:
        return Range(_scale(self.low, factor), _scale(self.high, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


def _add(x: int, y: int) -> int:
    return min(x + y, UNBOUNDED)


def _multiply(x: int, y: int) -> int:
    return min(x * y, UNBOUNDED)


def _scale(x: int, factor: float) -> int:
    number = float(x)
    if number > 0 and factor > 0 and number > UNBOUNDED / factor:
        return UNBOUNDED
    rounded = ceil(number * factor)
    return UNBOUNDED if rounded >= _TWO_TO_64 else rounded


def fixed(amount: int) -> Range:
    return Range(amount, amount)


ZERO: Final = fixed(0)
ONE: Final = fixed(1)
UNKNOWN: Final = Range(0, UNBOUNDED)


Path = tuple[str, ...]
"""The way from a variable to a value: its name, then fields, ``@items``, ``@keys``, ``@values`` or ``@indices``."""

SizeHint = Callable[[Path], Range | None]
"""How large the value at a path may be, as far as an environment knows."""


def no_hints(path: Path) -> Range | None:
    return None


class SizedNode(NamedTuple):
    """What the cost of a call may depend on, of its target or an argument."""

    path: Path
    type: t.Type
    node: Node
    size: Range | None
    hints: SizeHint

    @property
    def known(self) -> Range:
        return self.size or UNKNOWN

    @property
    def items(self) -> Range:
        """The size of the elements of a list."""
        return (self.hints((*self.path, "@items")) if self.path else None) or UNKNOWN


class CallEstimate(NamedTuple):
    """What a call costs, and how large its result is, if that can be told."""

    cost: Range
    size: Range | None = None


FunctionEstimator = Callable[[SizedNode | None, list[SizedNode]], CallEstimate | None]
"""From target and arguments of a call to what it costs; None leaves it to the general rules."""
