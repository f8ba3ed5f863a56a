"""Expressions that are run without a type check: names are looked up, everything else shows when it runs."""

from __future__ import annotations

from dray.cel.common import types as t
from dray.cel.common.ast import Call, Comprehension, Ident, Node, Select, qualified_name
from dray.cel.common.decls import Environment


def resolve_names(node: Node, environment: Environment) -> None:
    """Make a parsed tree ready to be planned, as if every type were dyn."""
    _Resolver(environment).visit(node, frozenset())


class _Resolver:
    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    def visit(self, node: Node, local: frozenset[str]) -> None:
        node.type = t.DYN
        match node:
            case Ident():
                self._name(node, local)
                return
            case Select():
                found = self._variable(qualified_name(node), local)
                if found is not None and not node.test:
                    node.resolved = Ident(node.offset, found)
                    node.resolved.type = t.DYN
                    return
            case Call():
                self._function(node)
            case Comprehension():
                inner = local | {node.accumulator}
                looped = inner | {node.variable, node.variable2}
                self.visit(node.range, local)
                self.visit(node.initial, local)
                self.visit(node.condition, looped)
                self.visit(node.step, looped)
                self.visit(node.result, inner)
                return
        for child in node.children():
            self.visit(child, local)

    def _name(self, node: Ident, local: frozenset[str]) -> None:
        if node.name in local:
            return
        found = self._variable(node.name, local)
        if found is not None:
            node.name = found
            return
        for candidate in self.environment.candidates(node.name):
            if candidate in self.environment.types:
                node.constant = self.environment.types[candidate]

    def _variable(self, name: str | None, local: frozenset[str]) -> str | None:
        if name is None or name.partition(".")[0] in local:
            return None
        for candidate in self.environment.candidates(name):
            if candidate in self.environment.variables:
                return candidate
        return None

    def _function(self, node: Call) -> None:
        names = [node.function]
        if node.target is not None:
            prefix = qualified_name(node.target)
            if prefix is not None:
                names.insert(0, f"{prefix}.{node.function}")
        for name in names:
            for candidate in self.environment.candidates(name):
                if candidate in self.environment.functions:
                    if name != node.function:
                        node.target = None
                    node.function = candidate
                    return
