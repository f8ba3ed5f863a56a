"""The type checker: resolves names and overloads, finds every node's type, and words what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dray.cel.common import types as t
from dray.cel.common.ast import (
    Call,
    Comprehension,
    Entry,
    Field,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Message,
    Node,
    Select,
    qualified_name,
)
from dray.cel.common.decls import Environment, Function, Overload
from dray.cel.common.source import Issue
from dray.cel.common.values import type_of


def check(node: Node, environment: Environment) -> list[Issue]:
    """Set the type of every node below; the problems found, none if the expression is sound."""
    checker = _Checker(environment)
    checker.check(node)
    checker.finish()
    return checker.issues


class _Checker:
    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.issues: list[Issue] = []
        self.substitution = t.Substitution()
        self.scopes: list[dict[str, t.Type]] = []
        self.nodes: list[Node] = []
        self.free = 0

    def issue(self, offset: int, message: str) -> None:
        self.issues.append(Issue(offset, message))

    def finish(self) -> None:
        """Replace what type parameters are left by what they were found to be, or by dyn."""
        apply = self.substitution.apply
        for node in self.nodes:
            if not node.type.concrete:
                node.type = apply(node.type, free_to_dyn=True)

    def check(self, node: Node) -> None:
        node.type = _CHECKS[type(node)](self, node)
        self.nodes.append(node)

    def fresh(self) -> t.Type:
        self.free += 1
        return t.type_param(f"_var{self.free - 1}")

    # Names

    def lookup(self, name: str) -> Ident | None:
        """The variable or type a name stands for, with its type set."""
        # A local variable hides whatever the container may have under its name.
        for scope in reversed(self.scopes):
            if name in scope:
                return self._ident(name, scope[name])
        for candidate in self.environment.candidates(name):
            variable = self.environment.variables.get(candidate)
            if variable is not None:
                return self._ident(candidate, variable)
            if candidate in self.environment.messages:
                return self._ident(candidate, t.type_of(t.object_type(candidate)))
            named = self.environment.types.get(candidate)
            if named is not None:
                found = self._ident(candidate, t.type_of(named))
                found.constant = named
                return found
        return None

    def _is_local(self, name: str) -> bool:
        """Whether a dotted name starts with a local variable, so that the rest are fields of it."""
        head = name.partition(".")[0]
        return any(head in scope for scope in self.scopes)

    def _ident(self, name: str, type: t.Type) -> Ident:
        found = Ident(0, name)
        found.type = type
        return found

    def function(self, name: str) -> Function | None:
        for candidate in self.environment.candidates(name):
            found = self.environment.functions.get(candidate)
            if found is not None:
                return found
        return None

    def undeclared(self, offset: int, name: str) -> t.Type:
        self.issue(offset, f"undeclared reference to '{name}' (in container '{self.environment.container}')")
        return t.ERROR

    # Nodes

    def literal(self, node: Literal) -> t.Type:
        return type_of(node.value)

    def ident(self, node: Ident) -> t.Type:
        found = self.lookup(node.name)
        if found is None:
            return self.undeclared(node.offset, node.name)
        node.name = found.name
        node.constant = found.constant
        return found.type

    def select(self, node: Select) -> t.Type:
        if not node.test:
            name = qualified_name(node)
            found = self.lookup(name) if name is not None and not self._is_local(name) else None
            if found is not None:
                found.offset = node.offset
                node.resolved = found
                return found.type
        result = self.field_type(node.offset, node.operand, node.field, optional=False)
        return t.BOOL if node.test else self.substitution.apply(result)

    def field_type(self, offset: int, operand: Node, field: str, *, optional: bool) -> t.Type:
        self.check(operand)
        target, was_optional = t.unwrap_optional(self.substitution.apply(operand.type))
        result = t.DYN
        match target.kind:
            case "map":
                result = target.params[1]
            case "struct":
                result = self.declared_field(offset, target.name, field) or t.ERROR
            case "param":
                self.substitution.assignable(t.DYN, target)
            case "dyn" | "any" | "error":
                pass
            case _:
                self.issue(offset, f"type '{target.text}' does not support field selection")
        return t.optional_of(result) if optional or was_optional else result

    def declared_field(self, offset: int, message: str, field: str) -> t.Type | None:
        fields = self.environment.messages.get(message)
        if fields is None:
            self.issue(offset, f"unexpected failed resolution of '{message}'")
            return None
        if field not in fields:
            self.issue(offset, f"undefined field '{field}'")
            return None
        return fields[field]

    def call(self, node: Call) -> t.Type:
        if node.function == "_?._":
            return self._optional_select(node)
        for arg in node.args:
            self.check(arg)
        if node.target is None:
            function = self.function(node.function)
            if function is None:
                return self.undeclared(node.offset, node.function)
            node.function = function.name
            return self.resolve(node, function)
        prefix = qualified_name(node.target)
        if prefix is not None:
            function = self.function(f"{prefix}.{node.function}")
            if function is not None:
                node.function = function.name
                node.target = None
                return self.resolve(node, function)
        self.check(node.target)
        function = self.function(node.function)
        if function is None:
            return self.undeclared(node.offset, node.function)
        return self.resolve(node, function)

    def _optional_select(self, node: Call) -> t.Type:
        operand, field = node.args
        assert isinstance(field, Literal)
        field.type = t.STRING
        result = self.field_type(node.offset, operand, field.value, optional=True)
        node.overloads = ("select_optional_field",)
        return self.substitution.apply(result)

    def resolve(self, node: Call, function: Function) -> t.Type:
        """The result type of a call, from every overload that its arguments fit."""
        if function.name in ("_&&_", "_||_"):
            return self._logical(node, function)
        args = [arg.type for arg in node.args]
        if node.target is not None:
            args.insert(0, node.target.type)
        member = node.target is not None
        result: t.Type | None = None
        fitting: list[str] = []
        for overload in function.overloads:
            if overload.member != member or len(overload.args) != len(args) or self._disabled(overload):
                continue
            wanted, produced = self._instance(overload)
            if self.substitution.all_assignable(args, wanted):
                fitting.append(overload.id)
                produced = self.substitution.apply(produced)
                if result is None:
                    result = produced
                elif not result.dynamic and not t.same(produced, result):
                    result = t.DYN
        if result is None:
            self._no_overload(node, function.name, args)
            return t.ERROR
        node.overloads = tuple(fitting)
        return result

    def _disabled(self, overload: Overload) -> bool:
        # Upstream forgets the restriction inside comprehensions.
        return overload.id in _CROSS_TYPE and not self.environment.cross_type_comparisons and not self.scopes

    def _logical(self, node: Call, function: Function) -> t.Type:
        sound = True
        for arg in node.args:
            if not self.substitution.assignable(arg.type, t.BOOL):
                self._mismatch(arg.offset, t.BOOL, arg.type)
                sound = False
        if not sound:
            return t.ERROR
        node.overloads = (function.overloads[0].id,)
        return t.BOOL

    def _instance(self, overload: Overload) -> tuple[tuple[t.Type, ...], t.Type]:
        """The signature with fresh type parameters."""
        if not overload.params:
            return overload.args, overload.result
        renaming = t.Substitution()
        renaming.known = {name: self.fresh() for name in overload.params}
        return tuple(renaming.apply(arg) for arg in overload.args), renaming.apply(overload.result)

    def _no_overload(self, node: Call, name: str, args: list[t.Type]) -> None:
        shown = [self.substitution.apply(arg, free_to_dyn=True).text for arg in args]
        target = f"{shown.pop(0)}." if node.target is not None else ""
        signature = f"{target}({', '.join(shown)})"
        self.issue(node.offset, f"found no matching overload for '{name}' applied to '{signature}'")

    def _mismatch(self, offset: int, expected: t.Type, actual: t.Type) -> None:
        self.issue(offset, f"expected type '{expected.text}' but found '{actual.text}'")

    def list_(self, node: ListNode) -> t.Type:
        element: t.Type | None = None
        for i, each in enumerate(node.elements):
            self.check(each)
            given = each.type
            if i in node.optional:
                given = self._unwrapped(each)
            element = self.join(each, element, given)
        return t.list_of(element or self.fresh())

    def map_(self, node: MapNode) -> t.Type:
        key: t.Type | None = None
        value: t.Type | None = None
        for entry in node.entries:
            self.check(entry.key)
            key = self.join(entry.key, key, entry.key.type)
            self.check(entry.value)
            value = self.join(entry.value, value, self._entry_type(entry))
        if key is None or value is None:
            key, value = self.fresh(), self.fresh()
        return t.map_of(key, value)

    def _entry_type(self, entry: Entry | Field) -> t.Type:
        return self._unwrapped(entry.value) if entry.optional else entry.value.type

    def _unwrapped(self, node: Node) -> t.Type:
        inner, is_optional = t.unwrap_optional(node.type)
        if not is_optional and not inner.dynamic:
            self._mismatch(node.offset, t.optional_of(inner), inner)
        return inner

    def join(self, node: Node, previous: t.Type | None, current: t.Type) -> t.Type:
        if previous is None:
            return current
        if self.substitution.assignable(previous, current):
            return t.most_general(previous, current)
        if not self.environment.homogeneous:
            return t.DYN
        self._mismatch(node.offset, previous, current)
        return t.ERROR

    def message(self, node: Message) -> t.Type:
        found = self.lookup(node.name)
        if found is None:
            return self.undeclared(node.offset, node.name)
        node.name = found.name
        result = t.ERROR
        if found.type.kind != "type":
            if found.type.kind != "error":
                self.issue(node.offset, f"'{found.type.shown}' is not a type")
        else:
            result = found.type.params[0]
            if result.kind != "struct":
                self.issue(node.offset, f"'{result.shown}' is not a message type")
                result = t.ERROR
        for field in node.fields:
            self.check(field.value)
            declared = self.declared_field(field.offset, node.name, field.name) or t.ERROR
            given = self._entry_type(field)
            if not self.substitution.assignable(declared, given):
                self.issue(
                    field.offset,
                    f"expected type of field '{field.name}' is '{declared.text}' but provided type is '{given.text}'",
                )
        return result

    def comprehension(self, node: Comprehension) -> t.Type:
        self.check(node.range)
        self.check(node.initial)
        range_type = self.substitution.apply(node.range.type)
        accumulated = node.initial.type
        first, second = self._iterated(node, range_type)
        self.scopes.append({node.accumulator: accumulated})
        self.scopes.append({node.variable: first})
        if node.variable2:
            self.scopes[-1][node.variable2] = second
        self.check(node.condition)
        self._assert(node.condition, t.BOOL)
        self.check(node.step)
        self._assert(node.step, accumulated)
        self.scopes.pop()
        self.check(node.result)
        self.scopes.pop()
        return self.substitution.apply(node.result.type)

    def _iterated(self, node: Comprehension, range_type: t.Type) -> tuple[t.Type, t.Type]:
        """The types of the iteration variables; the second counts only if there are two."""
        match range_type.kind:
            case "list":
                element = range_type.params[0]
                return (t.INT, element) if node.variable2 else (element, element)
            case "map":
                return range_type.params[0], range_type.params[1]
            case "dyn" | "error" | "param":
                self.substitution.assignable(t.DYN, range_type)
                return t.DYN, t.DYN
        self.issue(
            node.range.offset,
            f"expression of type '{range_type.text}' cannot be range of a comprehension "
            "(must be list, map, or dynamic)",
        )
        return t.ERROR, t.ERROR

    def _assert(self, node: Node, wanted: t.Type) -> None:
        if not self.substitution.assignable(wanted, node.type):
            self._mismatch(node.offset, wanted, node.type)


_CHECKS: Final[dict[type, Callable[[_Checker, Any], t.Type]]] = {
    Literal: _Checker.literal,
    Ident: _Checker.ident,
    Select: _Checker.select,
    Call: _Checker.call,
    ListNode: _Checker.list_,
    MapNode: _Checker.map_,
    Message: _Checker.message,
    Comprehension: _Checker.comprehension,
}

_CROSS_TYPE: Final = frozenset(
    f"{relation}_{a}_{b}"
    for relation in ("less", "less_equals", "greater", "greater_equals")
    for a in ("int64", "uint64", "double")
    for b in ("int64", "uint64", "double")
    if a != b
)
