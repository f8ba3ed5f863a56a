"""CEL for validation: what ``Context`` hands to rules. CEL itself is imported when the first expression is seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from dray.api.expressions import Environment, Outcome, Rule, Scope, Verdict

if TYPE_CHECKING:
    from dray.cel.decls import Environment as Declared
    from dray.cel.types import Type

_RULE_LIMIT: Final = 1_000_000  # what evaluating one rule of a custom resource may cost


@lru_cache(maxsize=4096)
def compile_expression(
    expression: str,
    *,
    environment: Environment = Environment.DEVICE,
    list_attributes: bool = False,
    consumable_capacity: bool = True,
) -> Verdict:
    """The verdict on a selector of devices or of named resources."""
    from dray.cel import CompileError, Kind

    try:
        match environment:
            case Environment.DEVICE:
                from dray.cel import devices

                found = devices.compile(
                    expression, list_attributes=list_attributes, consumable_capacity=consumable_capacity
                )
                return Verdict(max_cost=found.max_cost)
            case Environment.NAMED_RESOURCES:
                from dray.cel import named_resources

                named_resources.compile(expression)
                return Verdict()
            case Environment.DERIVED:
                from dray.cel import compiler, devices

                declared = devices.environment(
                    list_attributes=list_attributes, consumable_capacity=consumable_capacity, stored=False
                )
                compiler.check_text(expression, declared)
                return Verdict()
    except CompileError as e:
        return Verdict(e.message, internal=e.kind is Kind.INTERNAL)


class _Types:
    """CEL's types for a structural schema; objects with properties become messages of their own."""

    def __init__(self, schema: Mapping[str, Any], *, root: bool) -> None:
        self.messages: dict[str, dict[str, Type]] = {}
        self.self_type = self._type("selfType", schema, root=root)

    def _type(self, name: str, schema: Mapping[str, Any], *, root: bool = False) -> Type:
        from dray.cel import types as t

        scalars = {"string": t.STRING, "integer": t.INT, "number": t.DOUBLE, "boolean": t.BOOL}
        kind = schema.get("type", "")
        if kind in scalars:
            return scalars[kind]
        if kind == "array":
            return t.list_of(self._type(f"{name}.@items", schema.get("items") or {}))
        if kind != "object":
            return t.DYN
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            return t.map_of(t.STRING, self._type(f"{name}.@values", more))
        if not schema.get("properties") and not root:
            return t.DYN
        fields = dict(self._fields(name, schema))
        if root:
            self.messages[f"{name}.metadata"] = {"name": t.STRING, "generateName": t.STRING}
            meta = t.object_type(f"{name}.metadata")
            fields |= {"apiVersion": t.STRING, "kind": t.STRING, "metadata": meta}
        self.messages[name] = fields
        return t.object_type(name)

    def _fields(self, name: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, Type]]:
        for key, inner in (schema.get("properties") or {}).items():
            yield key, self._type(f"{name}.{key}", inner)


class _CompiledRule:
    """A rule of a schema (``x-kubernetes-validations``) and its messageExpression."""

    def __init__(self, rule: Mapping[str, Any], declared: Declared) -> None:
        self._optional_old = bool(rule.get("optionalOldSelf"))
        self.uses_old = "oldSelf" in rule["rule"]
        self._program, self.verdict = _compiled(rule["rule"], declared)
        self._message, self.message_verdict = None, Verdict()
        if words := rule.get("messageExpression"):
            self._message, self.message_verdict = _compiled(words, declared)

    def evaluate(self, value: Any, old: Any) -> Outcome:
        from dray.cel import EvaluationError
        from dray.cel.values import Optional

        if self._program is None:
            return Outcome(holds=False, error=self.verdict.error)
        before = Optional(old, present=old is not None) if self._optional_old else old
        variables = {"self": value, "oldSelf": before}
        found = _run(self._program, variables)
        if isinstance(found, EvaluationError):
            return Outcome(holds=False, error=found.message)
        if found is True:
            return Outcome()
        message = _run(self._message, variables) if self._message is not None else ""
        return Outcome(holds=False, message=message if isinstance(message, str) else "")


def _run(program: Any, variables: Mapping[str, Any]) -> Any:
    from dray.cel import EvaluationError

    try:
        found, _ = program.run(variables, _RULE_LIMIT)
    except EvaluationError as e:
        return e
    return found


def _compiled(text: str, declared: Declared) -> tuple[Any, Verdict]:
    from dray.cel import CompileError, compiler

    try:
        return compiler.compile_text(text, declared).program, Verdict()
    except CompileError as e:
        return None, Verdict(e.message)


def compile_rule(rule: Mapping[str, Any], schema: Mapping[str, Any], *, root: bool) -> Rule:
    """A rule over values of a structural schema."""
    from dray.cel import types as t
    from dray.cel.kubernetes import Release, base

    types = _Types(schema, root=root)
    old = t.optional_of(types.self_type) if rule.get("optionalOldSelf") else types.self_type
    declared = base(Release(1, 35)).with_messages(types.messages)
    return _CompiledRule(rule, declared.with_variables({"self": types.self_type, "oldSelf": old}))


@lru_cache(maxsize=1024)
def compile_policy(expression: str, scope: Scope) -> Verdict:
    """The verdict on an admission policy's expression, as ``Context.policies`` promises it."""
    from dray.cel import CompileError, Kind, admission

    variables = None
    if scope.variables is not None:
        variables = admission.compile_variables(
            scope.variables,
            params=scope.params,
            authorizer=scope.authorizer,
            patch_types=scope.patches,
            stored=False,
        )
    try:
        admission.compile(
            expression,
            params=scope.params,
            authorizer=scope.authorizer,
            patch_types=scope.patches,
            variables=variables,
            results=scope.results,
        )
    except CompileError as e:
        return Verdict(e.message, internal=e.kind is Kind.INTERNAL)
    return Verdict()
