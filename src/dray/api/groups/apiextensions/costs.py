"""What the rules of a definition's schema may cost at worst: each by itself, and all of them together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from dray.api.groups.apiextensions.pruning import Schema, additional
from dray.api.validation import field
from dray.api.validation.field import FieldError, Path

_RULE_LIMIT: Final = 10_000_000
_TOTAL_LIMIT: Final = 100_000_000
_MOST: Final = 2**64 - 1
_NAMED: Final = 4  # how many of the dearest rules are named


def elements(schema: Schema) -> int | None:
    """How many values each part below occurs in, for one value of this schema; None: no bound is given."""
    match schema.get("type"):
        case "object" if "additionalProperties" in schema and additional(schema) is not None:
            bound = schema.get("maxProperties")
        case "array":
            bound = schema.get("maxItems")
        case _:
            return 1
    return None if bound is None else max(int(bound), 0)


def times(cost: int, count: int) -> int:
    return min(cost * count, _MOST)


class _Priced(NamedTuple):
    path: Path
    cost: int


class TotalCost:
    """Adds up the rules of one schema."""

    def __init__(self, *, each: bool = True) -> None:
        """``each``: also report a rule that costs too much by itself."""
        self._each = each
        self._total = 0
        self._dearest: list[_Priced] = []

    def add(self, path: Path, cost: int, what: str) -> Iterator[FieldError]:
        self._total = min(self._total + cost, _MOST)
        if cost >= _TOTAL_LIMIT // 100:
            listed = [*self._dearest, _Priced(path, cost)]
            self._dearest = sorted(listed, key=lambda priced: -priced.cost)[:_NAMED]
        if self._each and cost > _RULE_LIMIT:
            yield field.forbidden(path, _exceeds(what, cost, _RULE_LIMIT))

    def total(self, path: Path) -> Iterator[FieldError]:
        if self._total <= _TOTAL_LIMIT:
            return
        words = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        for priced in self._dearest:
            yield field.forbidden(priced.path, words)
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield field.forbidden(path, _exceeds(what, self._total, _TOTAL_LIMIT))


def _exceeds(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, and "
        "maxLength where arrays, maps, and strings are declared)"
    )
