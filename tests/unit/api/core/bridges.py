"""What a server injects into rules so that they can judge CEL: expressions of policies, rules of schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dray.api.expressions import Outcome, Rule, Scope, Verdict
from dray.cel import CompileError, EvaluationError, admission, compiler
from dray.cel import types as t
from dray.cel.decls import Environment
from dray.cel.kubernetes import Release, base
from dray.cel.values import Optional

_LIMIT = 1_000_000
_SCALARS = {"string": t.STRING, "integer": t.INT, "number": t.DOUBLE, "boolean": t.BOOL}


def compile_policy(expression: str, scope: Scope) -> Verdict:
    flags = {"params": scope.params, "authorizer": scope.authorizer, "patch_types": scope.patches}
    variables = None
    if scope.variables is not None:
        variables = admission.compile_variables(scope.variables, **flags)
    try:
        admission.compile(expression, **flags, variables=variables, results=scope.results)
    except CompileError as problem:
        return Verdict(problem.message)
    return Verdict()


class _Types:
    """CEL's types for a schema; objects become messages of their own."""

    def __init__(self, schema: Mapping[str, Any], *, root: bool) -> None:
        self.messages: dict[str, dict[str, t.Type]] = {}
        self.self_type = self._type("selfType", schema, root=root)

    def _type(self, name: str, schema: Mapping[str, Any], *, root: bool = False) -> t.Type:
        kind = schema.get("type", "")
        if kind in _SCALARS:
            return _SCALARS[kind]
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
            meta = {"name": t.STRING, "generateName": t.STRING}
            self.messages[f"{name}.metadata"] = meta
            fields |= {
                "apiVersion": t.STRING,
                "kind": t.STRING,
                "metadata": t.object_type(f"{name}.metadata"),
            }
        self.messages[name] = fields
        return t.object_type(name)

    def _fields(self, name: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, t.Type]]:
        for key, inner in (schema.get("properties") or {}).items():
            yield key, self._type(f"{name}.{key}", inner)


class CompiledRule:
    def __init__(self, rule: Mapping[str, Any], environment: Environment) -> None:
        self._rule = rule
        self.uses_old = "oldSelf" in rule["rule"]
        self.message_verdict = Verdict()
        try:
            self._compiled = compiler.compile_text(rule["rule"], environment)
            self.verdict = Verdict()
        except CompileError as problem:
            self.verdict = Verdict(problem.message)

    def evaluate(self, value: Any, old: Any) -> Outcome:
        before = old
        if self._rule.get("optionalOldSelf"):
            before = Optional(old, present=old is not None)
        try:
            found, _ = self._compiled.program.run({"self": value, "oldSelf": before}, _LIMIT)
        except EvaluationError as problem:
            found = problem
        if isinstance(found, EvaluationError):
            return Outcome(holds=False, error=found.message)
        return Outcome(holds=found is True)


def compile_rule(rule: Mapping[str, Any], schema: Mapping[str, Any], *, root: bool) -> Rule:
    types = _Types(schema, root=root)
    old = t.optional_of(types.self_type) if rule.get("optionalOldSelf") else types.self_type
    variables = {"self": types.self_type, "oldSelf": old}
    return CompiledRule(rule, base(Release(1, 35)).with_messages(types.messages).with_variables(variables))
