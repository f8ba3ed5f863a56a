"""What a selector reads of a device: for devices that agree in that, one evaluation is enough."""

from __future__ import annotations

from dataclasses import dataclass

from dray.cel.common.ast import Call, Comprehension, Ident, ListNode, Literal, Node, Select

Name = tuple[str, str]
"""Domain and identifier."""


@dataclass(frozen=True, slots=True)
class Reads:
    """The parts of a device an expression refers to, each by name."""

    driver: bool = False
    allow_multiple_allocations: bool = False
    attributes: frozenset[Name] = frozenset()
    capacity: frozenset[Name] = frozenset()
    attribute_domains: frozenset[str] = frozenset()
    capacity_domains: frozenset[str] = frozenset()


class _Unknown(Exception):
    """Something is looked up by a name that only the evaluation knows."""


def reads(node: Node) -> Reads | None:
    """What the expression reads, or None if that cannot be told from its text."""
    collector = _Collector()
    try:
        collector.visit(node)
    except _Unknown:
        return None
    return Reads(
        driver="driver" in collector.fields,
        allow_multiple_allocations="allowMultipleAllocations" in collector.fields,
        attributes=frozenset(collector.names["attributes"]),
        capacity=frozenset(collector.names["capacity"]),
        attribute_domains=frozenset(collector.domains["attributes"]),
        capacity_domains=frozenset(collector.domains["capacity"]),
    )


class _Collector:
    def __init__(self) -> None:
        self.fields: set[str] = set()
        self.names: dict[str, set[Name]] = {"attributes": set(), "capacity": set()}
        self.domains: dict[str, set[str]] = {"attributes": set(), "capacity": set()}
        # Local variables: a table and domain for one bound to that, None for any other.
        self.locals: dict[str, tuple[str, str] | None] = {}

    def visit(self, node: Node) -> None:
        access = self._access(node)
        if access is not None:
            self._note(*access)
            return
        match node:
            case Ident(name=name):
                # The device itself, or a whole domain, goes somewhere this cannot follow.
                if name == "device" and name not in self.locals:
                    raise _Unknown
                if self.locals.get(name) is not None:
                    raise _Unknown
            case Call(function="@in", args=[Literal(value=str() as name), Node() as container]):
                table = self._table(container)
                domain = self._domain(container)
                if table is not None:
                    self.domains[table].add(name)
                elif domain is not None:
                    self.names[domain[0]].add((domain[1], name))
                else:
                    self.visit(container)
            case Comprehension():
                self._comprehension(node)
            case _:
                if self._table(node) is not None or self._domain(node) is not None:
                    raise _Unknown
                for child in node.children():
                    self.visit(child)

    def _comprehension(self, node: Comprehension) -> None:
        self.visit(node.range)
        before = dict(self.locals)
        binding = isinstance(node.range, ListNode) and not node.range.elements
        domain = self._domain(node.initial) if binding else None
        if domain is None:
            self.visit(node.initial)
        self.locals[node.accumulator] = domain
        for name in (node.variable, node.variable2):
            if name:
                self.locals[name] = None
        if not binding:
            self.visit(node.condition)
            self.visit(node.step)
        self.visit(node.result)
        self.locals = before

    def _note(self, table: str, name: str, domain: str | None) -> None:
        if domain is None:
            self.fields.add(table)
        else:
            self.names[table].add((domain, name))

    def _access(self, node: Node) -> tuple[str, str, str | None] | None:
        """``device.driver`` and the like, or one entry of a domain."""
        match node:
            case Select(operand=Ident(name="device"), field="driver" | "allowMultipleAllocations" as field):
                return (field, "", None) if "device" not in self.locals else None
            case Select(operand=operand, field=name):
                pass
            case Call(function="_[_]" | "_[?_]" | "_?._", args=[operand, Literal(value=str() as name)]):
                pass
            case _:
                return None
        domain = self._domain(operand)
        return (domain[0], name, domain[1]) if domain is not None else None

    def _domain(self, node: Node) -> tuple[str, str] | None:
        match node:
            case Ident(name=name):
                return self.locals.get(name)
            case Call(function="_[_]" | "_[?_]", args=[table_node, Literal(value=str() as domain)]):
                pass
            case Select(operand=table_node, field=domain, test=False):
                pass
            case _:
                return None
        table = self._table(table_node)
        return (table, domain) if table is not None else None

    def _table(self, node: Node) -> str | None:
        match node:
            case Select(operand=Ident(name="device"), field="attributes" | "capacity" as table, test=False):
                return table if "device" not in self.locals else None
        return None
