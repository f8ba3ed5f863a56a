"""From text to a checked tree to a program, with the errors upstream reports on the way."""

from __future__ import annotations

from dataclasses import dataclass

from dray.cel import cost, validators
from dray.cel.ast import Node
from dray.cel.checker import check
from dray.cel.decls import Environment
from dray.cel.errors import CompileError, Kind
from dray.cel.evaluator import Program, Unplannable, plan
from dray.cel.parser import parse
from dray.cel.recursion import deep
from dray.cel.sizes import SizeHint, no_hints
from dray.cel.source import Problem, Source


@dataclass(frozen=True, slots=True)
class Compiled:
    """A checked expression and its exact program."""

    text: str
    node: Node
    environment: Environment
    program: Program

    def max_cost(self, *, hints: SizeHint = no_hints) -> int:
        """The worst-case cost, given how large the inputs may be."""
        return max_cost(self.node, self.environment, hints=hints)


def parse_text(text: str, environment: Environment) -> Node:
    """The tree of an expression, or CompileError with all that is wrong with its syntax."""
    parsed = deep(
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
    return deep(_checked, text, environment)


def _checked(text: str, environment: Environment) -> Node:
    parsed = parse_text(text, environment)
    problems = check(parsed, environment)
    if not problems and environment.validate_literals:
        problems = validators.validate(parsed, environment)
    if problems:
        raise _refused(text, problems)
    return parsed


def _refused(text: str, problems: list[Problem]) -> CompileError:
    return CompileError(f"compilation failed: {Source(text).render(problems)}")


def program(node: Node, environment: Environment) -> Program:
    """The exact program of a checked tree."""
    try:
        return deep(plan, node, environment)
    except Unplannable as failed:
        raise CompileError(f"program instantiation failed: {failed}", kind=Kind.INTERNAL) from None


def max_cost(node: Node, environment: Environment, *, hints: SizeHint = no_hints) -> int:
    """What a checked expression costs at worst."""
    return deep(cost.estimate, node, hints=hints, estimators=environment.estimators).high


def compile_text(text: str, environment: Environment) -> Compiled:
    node = check_text(text, environment)
    return Compiled(text, node, environment, program(node, environment))
