"""CEL against upstream: recorded device selectors, the messages of recorded requests, the specification's tests."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.cel import CompileError, EvaluationError
from dray.cel.environment import devices
from dray.cel.problems import answer
from tests.conformance import celspec

# Where Kubernetes, or the cel-go it is built with, decides against the specification. docs/conformance-cel.md
# repeats this list for readers.
EXCEPTIONS = {
    "string_ext/value_errors/indexof_out_of_range": "cel-go answers -1 for an offset behind the end",
    "string_ext/value_errors/lastindexof_out_of_range": "cel-go answers -1 for an offset behind the end",
    "network_ext/ipv4/ipv4_equals_ipv6": "Kubernetes refuses IPv4-mapped IPv6 addresses",
    "network_ext/ipv4/ipv4_not_equals_ipv6": "Kubernetes refuses IPv4-mapped IPv6 addresses",
    "optionals/optionals/map_optional_select_has": "cel-go does not look through an optional inside a map",
    "type_deduction/legacy_nullable_types/null_assignable_to_abstract_parameter_candidate": (
        "cel-go deduces null_type for a list of optionals and nulls"
    ),
}


def test_every_recorded_device_selector_is_answered_as_upstream_does(conformance: Path) -> None:
    wrong = []
    with gzip.open(conformance / "cel-devices.jsonl.gz", "rt") as lines:
        for case in map(json.loads, lines):
            said = answer(case)
            for key in ("match", "compileError", "evalError", "maxCost", "actualCost"):
                if said.get(key) != case.get(key):
                    wrong.append((case["name"], key, case.get(key), said.get(key)))
    assert not wrong


def test_the_fast_form_agrees_with_the_recorded_answers(conformance: Path) -> None:
    with gzip.open(conformance / "cel-devices.jsonl.gz", "rt") as lines:
        for case in map(json.loads, lines):
            if "match" not in case:
                continue
            selector = devices.compile(
                case["expression"],
                list_attributes=case["listTypeAttributes"],
                consumable_capacity=case["consumableCapacity"],
                stored=not case["newExpressionsOnly"],
            )
            device = devices.Device.of(case["driver"], case)
            assert selector.matches(device) is case["match"], case["name"]
            assert selector.matches(device) is case["match"], case["name"]


def _causes(document: Any) -> Iterator[tuple[str, str]]:
    """Field and message of every cause of an error in a recorded conversation."""
    if isinstance(document, dict):
        if isinstance(document.get("field"), str) and isinstance(document.get("message"), str):
            yield document["field"], document["message"]
        for value in document.values():
            yield from _causes(value)
    elif isinstance(document, list):
        for value in document:
            yield from _causes(value)


def test_selectors_are_refused_in_the_words_of_recorded_requests(conformance: Path) -> None:
    seen = 0
    for name in ("val-claim-cel.json", "val-class.json"):
        for field, message in _causes(json.loads((conformance / "api-136" / name).read_text())):
            shape = re.fullmatch(r'Invalid value: ("(?:[^"\\]|\\.)*"): (.*)', message, re.DOTALL)
            if not field.endswith("cel.expression") or shape is None:
                continue
            seen += 1
            with pytest.raises(CompileError) as refused:
                devices.compile(json.loads(shape[1]), list_attributes=True)
            assert refused.value.message == shape[2]
    assert seen >= 15


def _specified(conformance: Path) -> list[celspec.Case]:
    files = sorted((conformance / "cel-spec").glob("*.textproto"))
    return [case for file in files for case in celspec.cases(file)]


def test_the_specifications_tests_pass_but_for_the_named_exceptions(conformance: Path) -> None:
    failed = []
    run = 0
    for case in _specified(conformance):
        if case.needs_messages:
            continue
        run += 1
        if not _passes(case):
            failed.append(case.id)
    assert run > 1600
    assert sorted(failed) == sorted(EXCEPTIONS)


def _passes(case: celspec.Case) -> bool:
    deduced = case.deduced_type()
    if deduced is not None and case.tree(case.environment()).type.text != deduced.text:
        return False
    if case.flag("check_only"):
        return True
    wanted, said = case.expected(), case.answer()
    if isinstance(wanted, EvaluationError):
        return isinstance(said, EvaluationError | CompileError)
    return not isinstance(said, Exception) and celspec.same(said, wanted)
