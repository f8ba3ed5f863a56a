"""Validation rules of custom resources (``x-kubernetes-validations``): ``self`` and ``oldSelf``, one at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dray.api.validation.expressions import CompilationResult, EvaluationResult, MessageResult
from dray.cel import compiler
from dray.cel.common import types as t
from dray.cel.common.ast import Ident, Node, walk
from dray.cel.common.decls import Environment
from dray.cel.common.values import NONE, Optional, Value
from dray.cel.environment.base import COMPATIBILITY_RELEASE, MAX_MESSAGE, MAX_REQUEST, PER_CALL_LIMIT, base
from dray.cel.environment.schemas import Declared, declare, value_of, with_metadata
from dray.cel.errors import CompileError, CostExceeded, EvaluationError
from dray.cel.interpreter.planner import Program

if TYPE_CHECKING:
    from dray.api.types.apiextensions import JSONSchemaProps, ValidationRule

_BREAKS: Final = re.compile(r"[\r\n]")
_SELF: Final = "selfType"
_FINE: Final = CompilationResult()


@dataclass(frozen=True, slots=True)
class Scope:
    """The place of a schema that rules are about: what they see, and how often it may occur in one object."""

    declared: Declared
    schema: JSONSchemaProps
    resource: bool

    @property
    def max_cardinality(self) -> int:
        return MAX_REQUEST // (self.declared.min_size + 1)

    def value(self, document: Any) -> Value:
        return value_of(document, with_metadata(self.schema) if self.resource else self.schema)

    def environment(self, *, optional_old: bool) -> Environment:
        own = self.declared.type
        return (
            base(COMPATIBILITY_RELEASE)
            .with_messages(dict(self.declared.messages()))
            .with_variables({"self": own, "oldSelf": t.optional_of(own) if optional_old else own})
        )


def scope(schema: JSONSchemaProps, *, root: bool = False) -> Scope:
    """The scope of a schema; CompileError if expressions cannot see such values at all."""
    declared = declare(schema, _SELF, resource=root)
    if declared is None:
        raise CompileError("failed to convert to declType for CEL validation rules")
    return Scope(declared, schema, root)


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule as validation uses it. The verdict says whether it compiled; a rule that did not is never evaluated."""

    verdict: CompilationResult
    message_verdict: CompilationResult = _FINE
    uses_old: bool = False
    optional_old: bool = False
    scope: Scope | None = None
    program: Program | None = None
    message_program: Program | None = None

    @property
    def max_cardinality(self) -> int:
        return 1 if self.scope is None else self.scope.max_cardinality

    def evaluate(self, value: Any, old: Any) -> EvaluationResult:
        assert self.program is not None
        try:
            found, spent = self.program.run(self._variables(value, old), PER_CALL_LIMIT)
        except CostExceeded as failed:
            return EvaluationResult(holds=False, error=failed.message, cost=PER_CALL_LIMIT)
        if isinstance(found, EvaluationError):
            return EvaluationResult(holds=False, error=found.message, cost=spent)
        return EvaluationResult(holds=found is True, cost=spent)

    def wording(self, value: Any, old: Any) -> MessageResult:
        if self.message_program is None:
            return MessageResult()
        try:
            made, spent = self.message_program.run(self._variables(value, old), PER_CALL_LIMIT)
        except CostExceeded:
            return MessageResult(cost=PER_CALL_LIMIT, cancelled=True)
        text = made.strip() if isinstance(made, str) else ""
        usable = len(text.encode()) <= MAX_MESSAGE and not _BREAKS.search(text)
        return MessageResult(text if usable else "", spent)

    def _variables(self, value: Any, old: Any) -> dict[str, Value]:
        assert self.scope is not None
        variables = {"self": self.scope.value(value)}
        before = None if old is None else self.scope.value(old)
        if self.optional_old:
            variables["oldSelf"] = NONE if old is None else Optional(before)
        elif old is not None:
            variables["oldSelf"] = before
        return variables


def compile_rule(rule: ValidationRule, schema: JSONSchemaProps, *, root: bool) -> CompiledRule:
    """A rule of ``x-kubernetes-validations`` over values of a schema; verdicts are in upstream's words."""
    optional_old = bool(rule.get("optionalOldSelf"))
    try:
        place = scope(schema, root=root)
        declared = place.environment(optional_old=optional_old)
        node = compiler.check_text(rule["rule"], declared)
        if node.type is not t.BOOL:
            raise CompileError("cel expression must evaluate to a bool")
    except CompileError as wrong:
        return CompiledRule(CompilationResult(wrong.message))
    message, verdict = None, _FINE
    if expression := rule.get("messageExpression"):
        try:
            message = _message_node(expression, declared)
            verdict = CompilationResult(
                max_cost=compiler.max_cost(message, declared, hints=place.declared.hint)
            )
        except CompileError as wrong:
            verdict = CompilationResult(wrong.message)
    return CompiledRule(
        verdict=CompilationResult(max_cost=compiler.max_cost(node, declared, hints=place.declared.hint)),
        message_verdict=verdict,
        uses_old=_mentions(node, "oldSelf"),
        optional_old=optional_old,
        scope=place,
        program=compiler.program(node, declared),
        message_program=None if message is None else compiler.program(message, declared),
    )


def _message_node(expression: str, declared: Environment) -> Node:
    try:
        node = compiler.check_text(expression, declared)
    except CompileError as wrong:
        raise CompileError(f"messageExpression {wrong.message}", type=wrong.type) from None
    if node.type is not t.STRING:
        raise CompileError("messageExpression must evaluate to a string")
    return node


def _mentions(node: Node, name: str) -> bool:
    return any(isinstance(each, Ident) and each.name == name for each in walk(node))
