"""All validation rules of a structural schema, held against a whole object and what it was before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dray.api.field import ErrorType, FieldError, Path
from dray.cel.errors import CompileError
from dray.cel.schemas import Schema
from dray.cel.validations import BUDGET, OutOfBudget, Rule, compile_rule, scope

_REASONS: Final = {
    "FieldValueForbidden": ErrorType.FORBIDDEN,
    "FieldValueRequired": ErrorType.REQUIRED,
    "FieldValueDuplicate": ErrorType.DUPLICATE,
}


class Validator:
    """The rules of a schema and of everything below it, compiled once."""

    __slots__ = ("_additional", "_items", "_properties", "_rules", "_schema")

    def __init__(self, schema: Schema, *, resource: bool = False) -> None:
        self._schema = schema
        self._rules: list[tuple[Rule | CompileError, Mapping[str, Any]]] = []
        rules = schema.get("x-kubernetes-validations") or ()
        if rules:
            place = scope(schema, resource=resource)
            for each in rules:
                try:
                    self._rules.append((compile_rule(each, place, stored=True), each))
                except CompileError as wrong:
                    self._rules.append((wrong, each))
        self._properties = {
            name: found
            for name, part in (schema.get("properties") or {}).items()
            if (found := _below(part)) is not None
        }
        self._items = _below(schema.get("items"))
        additional = schema.get("additionalProperties")
        self._additional = _below(additional if isinstance(additional, Mapping) else None)

    @property
    def empty(self) -> bool:
        return not (self._rules or self._properties or self._items or self._additional)

    def validate(
        self, document: Any, old: Any = None, *, path: Path, budget: int = BUDGET
    ) -> list[FieldError]:
        """What the rules find wrong; if the budget runs out, that is the last thing they find."""
        errors: list[FieldError] = []
        try:
            self._check(document, old, path, budget, errors)
        except OutOfBudget as spent:
            errors.append(
                FieldError(ErrorType.INVALID, str(path), self._schema.get("type", ""), spent.message)
            )
        return errors

    def _check(self, document: Any, old: Any, path: Path, budget: int, errors: list[FieldError]) -> int:
        if document is None:
            return budget
        for rule, given in self._rules:
            if isinstance(rule, CompileError):
                detail = f"rule compile error: {rule.message}"
                errors.append(FieldError(ErrorType.INVALID, str(path), self._schema.get("type", ""), detail))
                continue
            verdict = rule.evaluate(document, old, budget=budget)
            budget = verdict.budget
            # What an object had wrong before may stay as it was.
            ratcheted = not rule.uses_old_self and old is not None and document == old
            if verdict.complaint and not ratcheted:
                errors.append(self._error(verdict.complaint, verdict.failed, document, path, given))
        for inner, part, before, place in self._children(document, old, path):
            budget = inner._check(part, before, place, budget, errors)
        return budget

    def _error(
        self, complaint: str, failed: bool, document: Any, path: Path, rule: Mapping[str, Any]
    ) -> FieldError:
        kind = self._schema.get("type", "")
        if failed:
            return FieldError(ErrorType.INVALID, str(path), kind, complaint)
        below = (rule.get("fieldPath") or "").removeprefix(".")
        where = str(path.child(below)) if below else str(path)
        reason = _REASONS.get(rule.get("reason") or "", ErrorType.INVALID)
        if kind in ("object", "array"):
            return FieldError(reason, where, detail=complaint)
        return FieldError(reason, where, document, complaint)

    def _children(self, document: Any, old: Any, path: Path) -> Iterator[tuple[Validator, Any, Any, Path]]:
        """The parts that have rules, each with what it was before as far as that can be told."""
        if isinstance(document, dict):
            before = old if isinstance(old, dict) else {}
            for name, value in document.items():
                if name in self._properties:
                    yield self._properties[name], value, before.get(name), path.child(name)
                elif self._additional is not None:
                    yield self._additional, value, before.get(name), path.key(name)
        elif isinstance(document, list) and self._items is not None:
            known = self._by_key(old)
            for i, value in enumerate(document):
                yield self._items, value, known.get(self._key(value)), path.index(i)

    def _key(self, element: Any) -> tuple[Any, ...]:
        keys = self._schema.get("x-kubernetes-list-map-keys") or ()
        return tuple(element.get(name) for name in keys) if keys and isinstance(element, dict) else ()

    def _by_key(self, old: Any) -> dict[tuple[Any, ...], Any]:
        """Elements of the old list by key; only lists that are maps can be compared element by element."""
        if not isinstance(old, list) or self._schema.get("x-kubernetes-list-type") != "map":
            return {}
        return {self._key(element): element for element in old}


def _below(schema: Schema | None) -> Validator | None:
    """A validator of a part, None if there is nothing to validate."""
    if schema is None:
        return None
    found = Validator(schema, resource=bool(schema.get("x-kubernetes-embedded-resource")))
    return None if found.empty else found
