"""The CEL rules of a schema (``x-kubernetes-validations``), applied to a custom resource.

Rules are compiled by whoever the server injects (``Context.rules``), once per schema. A tree mirrors the parts of the
schema that have rules anywhere below; the object is walked along it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dray.api.groups.apiextensions.pruning import EMBEDDED, RULES, Schema, additional, items
from dray.api.groups.apiextensions.values import MISSING, NO_FIELD, OldItems, same
from dray.api.validation.expressions import MessageResult, Rule, RuleCompiler
from dray.api.validation.field import OMIT, ErrorType, FieldError, quote

#: What evaluating all rules of one object may cost.
RUNTIME_COST_BUDGET: Final = 10_000_000

_BLOCKING: Final = frozenset(
    {
        ErrorType.NOT_SUPPORTED,
        ErrorType.REQUIRED,
        ErrorType.TOO_LONG,
        ErrorType.TOO_MANY,
        ErrorType.TYPE_INVALID,
    }
)
_UNCHECKED: Final = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_OUT_OF_BUDGET: Final = "failed due to running out of cost budget, no further validation rules will be run"
_CANCELLED: Final = "operation cancelled: actual cost limit exceeded"
_REASONS: Final = {
    "FieldValueForbidden": ErrorType.FORBIDDEN,
    "FieldValueRequired": ErrorType.REQUIRED,
    "FieldValueDuplicate": ErrorType.DUPLICATE,
}


@dataclass(slots=True)
class Node:
    """A part of a schema that has rules, or has parts that do."""

    schema: Schema
    root: bool
    properties: Mapping[str, Node] = field(default_factory=dict)
    additional: Node | None = None
    items: Node | None = None
    _compiled: tuple[RuleCompiler, Sequence[tuple[Mapping[str, Any], Rule]]] | None = None

    def rules(self, compiler: RuleCompiler) -> Sequence[tuple[Mapping[str, Any], Rule]]:
        """The rules of this very part, each with what was compiled of it."""
        if self._compiled is None or self._compiled[0] is not compiler:
            listed = self.schema.get(RULES) or ()
            compiled = [(rule, compiler(rule, self.schema, root=self.root)) for rule in listed]
            self._compiled = (compiler, compiled)
        return self._compiled[1]


def tree(schema: Schema | None, *, root: bool = True) -> Node | None:
    """The rules of a schema; None if it has none."""
    if schema is None:
        return None
    found: dict[str, Node] = {}
    for name, inner in (schema.get("properties") or {}).items():
        node = tree(inner, root=bool(inner.get(EMBEDDED)))
        if node is not None:
            found[name] = node
    more, own = (tree(s, root=bool(s and s.get(EMBEDDED))) for s in (additional(schema), items(schema)))
    if not (schema.get(RULES) or found or more or own):
        return None
    return Node(schema, root, found, more, own)


@dataclass(slots=True)
class CostBudget:
    """What validating one object may still cost. When that is spent, no further rule is looked at."""

    left: int = RUNTIME_COST_BUDGET
    over: bool = False

    def pay(self, cost: int) -> bool:
        """Whether there was enough left."""
        if cost > self.left:
            self.over = True
            return False
        self.left -= cost
        return True


def apply(
    node: Node | None, value: Any, old: Any, compiler: RuleCompiler, found: Sequence[FieldError]
) -> list[FieldError]:
    """What the rules find wrong, unless the object is so wrong already that they cannot be relied upon."""
    if node is None:
        return []
    if any(error.type in _BLOCKING for error in found):
        return [FieldError(ErrorType.INVALID, NO_FIELD, None, _UNCHECKED)]
    return list(check(node, value, old, compiler, ""))


def check(
    node: Node, value: Any, old: Any, compiler: RuleCompiler, path: str, meter: CostBudget | None = None
) -> Iterator[FieldError]:
    meter = meter or CostBudget()
    if value is None or meter.over:
        return
    yield from _check_own(node, value, old, compiler, path, meter)
    if isinstance(value, list):
        if node.items is not None:
            before = OldItems(node.schema, old)
            for i, item in enumerate(value):
                yield from check(node.items, item, before.get(item), compiler, f"{path}[{i}]", meter)
    elif isinstance(value, dict):
        earlier = old if isinstance(old, dict) else {}
        for name, inner in value.items():
            part = node.properties.get(name)
            if part is not None:
                at = f"{path}.{name}" if path else name
                yield from check(part, inner, earlier.get(name, MISSING), compiler, at, meter)
            elif node.additional is not None and name not in (node.schema.get("properties") or {}):
                yield from check(
                    node.additional, inner, earlier.get(name, MISSING), compiler, f"{path}[{name}]", meter
                )


def _check_own(
    node: Node, value: Any, old: Any, compiler: RuleCompiler, path: str, meter: CostBudget
) -> Iterator[FieldError]:
    kind, where = node.schema.get("type", ""), path or NO_FIELD
    before = None if old is MISSING else old
    for rule, compiled in node.rules(compiler):
        if compiled.verdict.error:
            words = f"rule compile error: {compiled.verdict.error}"
            yield FieldError(ErrorType.INVALID, where, kind, words)
            continue
        if compiled.uses_old and before is None and not rule.get("optionalOldSelf"):
            continue
        outcome = compiled.evaluate(value, before)
        if not meter.pay(outcome.cost):
            yield FieldError(ErrorType.INVALID, where, kind, f"validation {_OUT_OF_BUDGET}")
            return
        if outcome.error:
            yield FieldError(ErrorType.INVALID, where, kind, _explain(outcome.error, rule))
            if outcome.error.startswith(_CANCELLED):
                meter.over = True
                return
            continue
        if outcome.holds:
            continue
        wording = compiled.wording(value, before)
        trouble = _trouble(wording, rule, meter)
        # What was wrong already and has not changed is let pass.
        if compiled.uses_old or before is None or not same(value, before):
            if trouble:
                yield FieldError(ErrorType.INVALID, _below(rule, path), kind, trouble)
            else:
                yield _broken(rule, wording.text, OMIT if kind in ("object", "array") else value, path)
        if meter.over:
            return


def _trouble(wording: MessageResult, rule: Mapping[str, Any], meter: CostBudget) -> str:
    """Why nothing more can be validated after a messageExpression; empty if it can."""
    if not meter.pay(wording.cost):
        return f"messageExpression evaluation {_OUT_OF_BUDGET}"
    if wording.cancelled:
        meter.over = True
        return (
            "no further validation rules will be run due to call cost exceeds limit for messageExpression: "
            + quote(rule.get("messageExpression", ""))
        )
    return ""


def _explain(error: str, rule: Mapping[str, Any]) -> str:
    shown = (rule.get("message") or rule.get("rule", "")).strip()
    if error.startswith("no such overload"):
        signature = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{error}': {signature}: {shown}"
    if error.startswith(_CANCELLED):
        return f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
    return f"{error} evaluating rule: {shown}"


def _below(rule: Mapping[str, Any], path: str) -> str:
    """What a rule says it is about."""
    below: str = rule.get("fieldPath", "")
    return (f"{path}{below}" if path else below.removeprefix(".")) or NO_FIELD


def _broken(rule: Mapping[str, Any], message: str, value: Any, path: str) -> FieldError:
    where = _below(rule, path)
    detail = message or (rule.get("message") or "").strip() or f"failed rule: {rule.get('rule', '').strip()}"
    kind = _REASONS.get(rule.get("reason", ""), ErrorType.INVALID)
    if kind is ErrorType.DUPLICATE:
        return FieldError(kind, where, value)
    return FieldError(kind, where, value, detail)
