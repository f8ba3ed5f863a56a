"""Short ways to run an expression in the tests."""

from __future__ import annotations

from typing import Any

from dray.cel import CompileError, EvaluationError, compiler
from dray.cel.common.decls import Environment
from dray.cel.common.values import Value
from dray.cel.environment.base import base
from dray.cel.library.bindings import BINDINGS

ENVIRONMENT = base().with_libraries(BINDINGS)
LIMIT = 1_000_000


def evaluate(expression: str, environment: Environment = ENVIRONMENT, **variables: Any) -> Value:
    """The value, or the EvaluationError in its place."""
    node = compiler.check_text(expression, environment)
    return compiler.program(node, environment).run(variables, LIMIT)[0]


def failure(expression: str, environment: Environment = ENVIRONMENT, **variables: Any) -> str:
    """The message of the error an evaluation ends in."""
    value = evaluate(expression, environment, **variables)
    assert isinstance(value, EvaluationError), value
    return value.message


def refusal(expression: str, environment: Environment = ENVIRONMENT) -> str:
    """The message of the error compilation ends in, without its prefix."""
    try:
        compiler.program(compiler.check_text(expression, environment), environment)
    except CompileError as refused:
        return refused.message.removeprefix("compilation failed: ")
    raise AssertionError(f"{expression} compiles")
