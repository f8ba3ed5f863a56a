"""Means over seeds with their confidence intervals (Student's t, 95 %)."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple

#: the 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_NORMAL = 1.96


class Interval(NamedTuple):
    mean: float
    margin: float  # half the width; 0 if there is one value only

    @property
    def low(self) -> float:
        return self.mean - self.margin

    @property
    def high(self) -> float:
        return self.mean + self.margin


def interval(values: Sequence[float]) -> Interval:
    if len(values) < 2:
        return Interval(fmean(values), 0.0)
    freedom = len(values) - 1
    t = _T[freedom - 1] if freedom <= len(_T) else _NORMAL
    return Interval(fmean(values), t * stdev(values) / sqrt(len(values)))
