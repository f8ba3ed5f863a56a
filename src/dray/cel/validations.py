"""Validation rules of custom resources (``x-kubernetes-validations``): ``self`` and ``oldSelf``, one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dray.api.field import quote
from dray.cel import compiler
from dray.cel import types as t
from dray.cel.ast import Ident, Node, walk
from dray.cel.decls import Environment
from dray.cel.errors import CompileError, CostExceeded, EvaluationError
from dray.cel.evaluator import Program
from dray.cel.kubernetes import NEWEST, Release, base
from dray.cel.schemas import Declared, Schema, declare, value_of, with_metadata
from dray.cel.values import NONE, Optional, Value

PER_CALL_LIMIT: Final = 1_000_000
BUDGET: Final = 10_000_000
MAX_MESSAGE: Final = 5 * 1024
_MAX_REQUEST: Final = 3 * 1024 * 1024
_CURRENT: Final = Release(1, 36)
_SELF: Final = "selfType"


class OutOfBudget(EvaluationError):
    """The object has spent what validating it may cost."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The place of a schema that rules are about: what they see, and how often it may occur in one object."""

    declared: Declared
    schema: Schema
    resource: bool

    @property
    def max_cardinality(self) -> int:
        return _MAX_REQUEST // (self.declared.min_size + 1)

    def value(self, document: Any) -> Value:
        return value_of(document, with_metadata(self.schema) if self.resource else self.schema)

    def environment(self, *, optional_old: bool, stored: bool, release: Release = _CURRENT) -> Environment:
        own = self.declared.type
        known = NEWEST if stored else Release(release.major, release.minor - 1)
        return (
            base(known)
            .with_messages(dict(self.declared.messages()))
            .with_variables({"self": own, "oldSelf": t.optional_of(own) if optional_old else own})
        )


def scope(schema: Schema, *, resource: bool = False) -> Scope:
    """The scope of a schema; CompileError if expressions cannot see such values at all."""
    declared = declare(schema, _SELF, resource=resource)
    if declared is None:
        raise CompileError("failed to convert to declType for CEL validation rules")
    return Scope(declared, schema, resource)


@dataclass(frozen=True, slots=True)
class Rule:
    """A compiled rule, with the program of its messageExpression if it has one."""

    text: str
    message: str
    program: Program
    max_cost: int
    uses_old_self: bool
    optional_old_self: bool
    scope: Scope
    message_expression: str = ""
    message_program: Program | None = None
    message_max_cost: int = 0

    def evaluate(self, value: Any, old_value: Any = None, *, budget: int = BUDGET) -> Verdict:
        """What the rule says about a value. ``old_value`` is None if there is none to compare with.

        OutOfBudget ends the validation of the whole object.
        """
        if self.uses_old_self and old_value is None and not self.optional_old_self:
            return Verdict("", budget)
        variables = self._variables(value, old_value)
        try:
            found, spent = self.program.run(variables, PER_CALL_LIMIT)
        except CostExceeded as failed:
            raise OutOfBudget(
                f"'{failed.message}': no further validation rules will be run due to call cost exceeds limit "
                f"for rule: {self.text}"
            ) from None
        budget -= spent
        if budget < 0:
            raise OutOfBudget(
                "validation failed due to running out of cost budget, no further validation rules will be run"
            )
        if isinstance(found, EvaluationError):
            return Verdict(self._failure(found), budget, failed=True)
        if found is True:
            return Verdict("", budget)
        return self._complaint(variables, budget)

    def _variables(self, value: Any, old_value: Any) -> dict[str, Value]:
        variables = {"self": self.scope.value(value)}
        old = None if old_value is None else self.scope.value(old_value)
        if self.optional_old_self:
            variables["oldSelf"] = NONE if old_value is None else Optional(old)
        elif old_value is not None:
            variables["oldSelf"] = old
        return variables

    def _failure(self, failed: EvaluationError) -> str:
        if failed.message.startswith("no such overload"):
            return (
                f"'{failed.message}': call arguments did not match a supported operator, function or macro "
                f"signature for rule: {self.text}"
            )
        return f"{failed.message} evaluating rule: {self.text}"

    def _complaint(self, variables: Mapping[str, Value], budget: int) -> Verdict:
        """The message for a value that breaks the rule."""
        otherwise = self.message or f"failed rule: {self.text}"
        if self.message_program is None:
            return Verdict(otherwise, budget)
        try:
            made, spent = self.message_program.run(variables, PER_CALL_LIMIT)
        except CostExceeded:
            raise OutOfBudget(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: "
                f"{quote(self.message_expression)}"
            ) from None
        budget -= spent
        if budget < 0:
            raise OutOfBudget(
                "messageExpression evaluation failed due to running out of cost budget, no further validation "
                "rules will be run"
            )
        usable = isinstance(made, str) and 0 < len(made.strip().encode()) <= MAX_MESSAGE
        return Verdict(made.strip() if usable and "\n" not in made.strip() else otherwise, budget)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong, empty if nothing is, and the budget left. ``failed``: the rule could not be evaluated."""

    complaint: str
    budget: int
    failed: bool = False


def compile_rule(
    rule: Mapping[str, Any], place: Scope, *, stored: bool = False, release: Release = _CURRENT
) -> Rule:
    """A rule of ``x-kubernetes-validations``, or CompileError in upstream's words."""
    text = rule["rule"]
    optional_old = bool(rule.get("optionalOldSelf"))
    declared = place.environment(optional_old=optional_old, stored=stored, release=release)
    node = compiler.check_text(text, declared)
    if node.type is not t.BOOL:
        raise CompileError("cel expression must evaluate to a bool")
    expression = rule.get("messageExpression") or ""
    message_node = _message_node(expression, declared) if expression else None
    return Rule(
        text=text.strip(),
        message=(rule.get("message") or "").strip(),
        program=compiler.program(node, declared),
        max_cost=compiler.max_cost(node, declared, hints=place.declared.hint),
        uses_old_self=_mentions(node, "oldSelf"),
        optional_old_self=optional_old,
        scope=place,
        message_expression=expression,
        message_program=compiler.program(message_node, declared) if message_node is not None else None,
        message_max_cost=(
            compiler.max_cost(message_node, declared, hints=place.declared.hint)
            if message_node is not None
            else 0
        ),
    )


def _message_node(expression: str, declared: Environment) -> Node:
    try:
        node = compiler.check_text(expression, declared)
    except CompileError as wrong:
        raise CompileError(f"messageExpression {wrong.message}", kind=wrong.kind) from None
    if node.type is not t.STRING:
        raise CompileError("messageExpression must evaluate to a string")
    return node


def _mentions(node: Node, name: str) -> bool:
    return any(isinstance(each, Ident) and each.name == name for each in walk(node))
