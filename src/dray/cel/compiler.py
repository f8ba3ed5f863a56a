"""From text to a checked tree to a program, with the errors upstream reports on the way."""

from __future__ import annotations

from dray.cel.checker import validators
from dray.cel.checker.checker import check
from dray.cel.common.ast import Node
from dray.cel.common.decls import Environment
from dray.cel.common.recursion import with_deep_stack
from dray.cel.common.source import Issue, Source
from dray.cel.cost import estimator
from dray.cel.cost.sizes import SizeHint, no_hints
from dray.cel.errors import CompileError, ErrorType
from dray.cel.interpreter.planner import Program, Unplannable, plan
from dray.cel.parser.parser import parse


def parse_text(text: str, environment: Environment) -> Node:
    """The tree of an expression, or CompileError with all that is wrong with its syntax."""
    parsed = with_deep_stack(
        parse,
        text,
        environment.macros,
        optional_syntax=environment.optional_syntax,
        escaped_names=environment.escaped_names,
    )
    if isinstance(parsed, list):
        raise _refused(text, parsed)
    return parsed


def check_text(text: str, environment: Environment) -> Node:
    """The checked tree of an expression, or CompileError with all that is wrong."""
    return with_deep_stack(_checked, text, environment)


def _checked(text: str, environment: Environment) -> Node:
    parsed = parse_text(text, environment)
    issues = check(parsed, environment)
    if not issues and environment.validate_literals:
        issues = validators.validate(parsed, environment)
    if issues:
        raise _refused(text, issues)
    return parsed


def _refused(text: str, issues: list[Issue]) -> CompileError:
    return CompileError(f"compilation failed: {Source(text).render(issues)}")


def program(node: Node, environment: Environment) -> Program:
    """The exact program of a checked tree."""
    try:
        return with_deep_stack(plan, node, environment)
    except Unplannable as failed:
        raise CompileError(f"program instantiation failed: {failed}", type=ErrorType.INTERNAL) from None


def max_cost(node: Node, environment: Environment, *, hints: SizeHint = no_hints) -> int:
    """What a checked expression costs at worst."""
    return with_deep_stack(estimator.estimate, node, hints=hints, estimators=environment.estimators).high
