"""Selectors of 1.30's structured parameters."""

from __future__ import annotations

import pytest

from dray.cel import CompileError, EvaluationError
from dray.cel.environment.named_resources import compile

ATTRIBUTES = [
    {"name": "memory", "quantity": "2Gi"},
    {"name": "healthy", "bool": True},
    {"name": "index", "int": 1},
    {"name": "lanes", "intSlice": {"ints": [1, 2, 3]}},
    {"name": "color", "string": "black"},
    {"name": "toys", "stringSlice": {"strings": ["ball"]}},
    {"name": "firmware", "version": "1.2.0"},
]


@pytest.mark.parametrize(
    "expression",
    [
        'attributes.quantity["memory"].isGreaterThan(quantity("1Gi"))',
        'attributes.bool["healthy"]',
        'attributes.int["index"] > 0',
        'attributes.intslice["lanes"].isSorted()',
        'attributes.string["color"] == "black" && !("color" in attributes.int)',
        'attributes.stringslice["toys"].indexOf("ball") == 0',
        'attributes.version["firmware"].isLessThan(semver("2.0.0"))',
    ],
)
def test_attributes_are_found_by_type_and_name(expression: str) -> None:
    assert compile(expression).matches(ATTRIBUTES) is True


def test_errors_have_upstreams_words() -> None:
    with pytest.raises(EvaluationError, match="no such key: nope"):
        compile('attributes.int["nope"] == 1').matches(ATTRIBUTES)
    with pytest.raises(EvaluationError) as wrong:
        compile("true").matches([{"name": "v", "version": "1"}])
    assert wrong.value.message == (
        "extract attributes with type version: attribute '\\x00': parse semantic version: "
        "No Major.Minor.Patch elements found"
    )
    with pytest.raises(CompileError, match=r"^must evaluate to bool$"):
        compile("1")


def test_new_selectors_may_use_only_what_1_29_has() -> None:
    with pytest.raises(CompileError, match="undeclared reference to 'isIP'"):
        compile("isIP('::1')")
    assert compile("isIP('::1')", stored=True).matches([]) is True
