"""Upstream's recorded verdicts on expressions, with the rules wired to the real compiler."""

from __future__ import annotations

import pytest

from dray.api.validation.expressions import CompilationResult, Environment
from dray.cel import CompileError
from dray.cel.environment import devices


def compiler(expression, *, environment=Environment.DEVICE, list_attributes=False, consumable_capacity=True):
    """What the server injects."""
    assert environment is Environment.DEVICE
    try:
        found = devices.compile(
            expression, list_attributes=list_attributes, consumable_capacity=consumable_capacity
        )
    except CompileError as problem:
        return CompilationResult(error=str(problem))
    return CompilationResult(max_cost=found.max_cost)


@pytest.mark.parametrize("name", ["val-claim-cel", "val-class"])
def test_expressions_are_judged_as_recorded(replay, name):
    played = replay(f"api-136/{name}", compiler=compiler)
    assert played
    different = [p for p in played if without_grammar(p.want) != without_grammar(p.got)]
    assert not different, f"{len(different)} of {len(played)}: {different[0]}"


def without_grammar(answer):
    """What a parser expected instead is the parser's matter; see the tests of the CEL package."""
    code, body = answer
    causes = body.get("details", {}).get("causes")
    if not causes or "Syntax error" not in str(causes):
        return answer
    return code, [(cause["field"], cause["reason"], cause["message"].split("ERROR")[0]) for cause in causes]
