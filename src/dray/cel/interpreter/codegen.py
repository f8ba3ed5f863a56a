"""The fast form of a selector: one Python function, compiled, for the case that all goes well.

It covers what selectors usually do (look up attributes and capacities, compare them, call functions, combine)
and takes every short cut the checker's types allow. Whenever something is not as expected (a missing attribute, a
value of another type, any error) it fails, and the exact evaluator decides. Evaluation has no side effects, so
starting over is always right. What it does not cover has no fast form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from dray.cel.common import operators, regex
from dray.cel.common.ast import Call, Comprehension, Ident, ListNode, Literal, Node, Select
from dray.cel.common.decls import Environment
from dray.cel.common.values import SET_TYPES, Map, Value, equal, equals
from dray.cel.errors import EvaluationError
from dray.cel.interpreter.calls import implementation_of
from dray.cel.interpreter.planner import CONVERSIONS, SPECIAL
from dray.cel.parser.macros import ACCUMULATOR

_CLASSES: Final = {"string": "str", "int": "int", "bool": "bool", "double": "float", "bytes": "bytes"}
_RELATIONS: Final = {
    "_<_": ("<", "less"),
    "_<=_": ("<=", "less_equals"),
    "_>_": (">", "greater"),
    "_>=_": (">=", "greater_equals"),
}
_ARITHMETIC: Final = {
    "_+_": operators.add,
    "_-_": operators.subtract,
    "_*_": operators.multiply,
    "_/_": operators.divide,
    "_%_": operators.modulo,
}
_AFFIXES: Final = {"startsWith": "startswith", "endsWith": "endswith"}
_OPPOSITE: Final = {"isGreaterThan": ">", "isLessThan": "<"}
_KEYED: Final = {"kubernetes.Quantity": ("Quantity", "nano"), "kubernetes.Semver": ("Version", "key")}


class Unsupported(Exception):
    """An expression that has no fast form."""


class Unexpected(Exception):
    """Raised by a fast function when a value is not what it was compiled for."""


class Domain:
    """Not a value but a place: ``device.attributes["…"]`` or ``device.capacity["…"]``."""

    __slots__ = ("name", "table")

    def __init__(self, table: str, name: str) -> None:
        self.table = table
        self.name = name


def generate(
    node: Node, environment: Environment, names: Mapping[str, Any], *, attributes: str, capacity: str
) -> Callable[[Any], bool]:
    """A function from a device to the selector's answer, which asks ``again`` if something is not as expected.

    ``attributes`` and ``capacity`` name the device's slots with the values by ``domain/name``; ``names`` is what
    the code may refer to, the function ``again`` among it.
    """
    generator = _Generator(environment, attributes=attributes, capacity=capacity)
    try:
        body = generator.boolean(node)
        scope = {**names, **generator.constants}
        exec(compile(_TEMPLATE.format(body=body), "<selector>", "exec"), scope)
    except (SyntaxError, RecursionError, MemoryError) as failed:
        # Python's own compiler has limits on nesting.
        raise Unsupported from failed
    made: Callable[[Any], bool] = scope.pop("matches")  # and so not in a circle with its own scope
    return made


_TEMPLATE: Final = """\
def matches(device):
    try:
        return {body}
    except Exception:
        return again(device)
"""


def _not_bool() -> bool:
    raise Unexpected


class _Generator:
    def __init__(self, environment: Environment, *, attributes: str, capacity: str) -> None:
        self.environment = environment
        self.tables = {"attributes": attributes, "capacity": capacity}
        self.constants: dict[str, Any] = {"equal": equal, "equals": equals, "not_bool": _not_bool}
        self.bound: dict[str, str | Domain] = {}
        self.temporaries = 0

    def keep(self, value: Value) -> str:
        """A name for a constant."""
        name = f"K{len(self.constants)}"
        self.constants[name] = value
        return name

    def temporary(self) -> str:
        self.temporaries += 1
        return f"t{self.temporaries}"

    # Expressions

    def boolean(self, node: Node) -> str:
        """Code that is True or False, or fails."""
        code = self.value(node)
        if node.type.kind == "bool":
            return code
        name = self.temporary()
        return f"(({name} := {code}) is True or ({name} is not False and not_bool()))"

    def value(self, node: Node) -> str:
        match node:
            case Literal():
                return self.literal(node.value)
            case Ident():
                return self.ident(node)
            case Select():
                return self.select(node)
            case Call():
                return self.call(node)
            case Comprehension():
                return self.binding(node)
        raise Unsupported

    def literal(self, value: Value) -> str:
        if value is None or type(value) in (str, int, bool):
            return repr(value)
        return self.keep(value)

    def ident(self, node: Ident) -> str:
        if node.constant is not None:
            return self.keep(node.constant)
        known = self.bound.get(node.name)
        if isinstance(known, str):
            return known
        raise Unsupported

    def domain(self, node: Node) -> Domain | None:
        """The domain a node stands for, if its name is written down."""
        if isinstance(node, Ident):
            known = self.bound.get(node.name)
            return known if isinstance(known, Domain) else None
        match node:
            case Call(function="_[_]", args=[Select() as table, Literal(value=str() as name)]):
                pass
            case Select(test=False, resolved=None, operand=Select() as table, field=name):
                pass
            case _:
                return None
        return Domain(table.field, name) if self.is_table(table) else None

    def is_table(self, node: Node) -> bool:
        match node:
            case Select(
                test=False, resolved=None, operand=Ident(name="device"), field="attributes" | "capacity"
            ):
                return "device" not in self.bound
        return False

    def entry(self, domain: Domain, name: str) -> tuple[str, str]:
        """The slot and the key of one attribute or capacity."""
        return f"device.{self.tables[domain.table]}", repr(f"{domain.name}/{name}")

    def select(self, node: Select) -> str:
        if node.resolved is not None:
            return self.ident(node.resolved)
        domain = self.domain(node.operand)
        if domain is not None:
            slot, key = self.entry(domain, node.field)
            return f"({key} in {slot})" if node.test else f"{slot}[{key}]"
        if isinstance(node.operand, Ident) and node.operand.name == "device" and "device" not in self.bound:
            match node.field:
                case "driver" if not node.test:
                    return "device.driver"
                case "allowMultipleAllocations" if not node.test:
                    return "device.allow_multiple_allocations"
        raise Unsupported

    def call(self, node: Call) -> str:
        name = node.function
        match name:
            case "_&&_":
                return f"({self.boolean(node.args[0])} and {self.boolean(node.args[1])})"
            case "_||_":
                return f"({self.boolean(node.args[0])} or {self.boolean(node.args[1])})"
            case "!_":
                return f"(not {self.boolean(node.args[0])})"
            case "_?_:_":
                condition, then, otherwise = node.args
                return f"({self.value(then)} if {self.boolean(condition)} else {self.value(otherwise)})"
            case "_==_":
                return self.equality(node, "equals")
            case "_!=_":
                return f"(not {self.equality(node, 'equal')})"
            case "@in":
                return self.membership(node)
            case "_[_]":
                return self.index(node)
            case "orValue" | "hasValue":
                return self.optional(node)
        if name in _RELATIONS:
            return self.relation(node)
        if name in _ARITHMETIC:
            helper = self.keep(_ARITHMETIC[name])
            return f"{helper}({self.value(node.args[0])}, {self.value(node.args[1])})"
        constant = self.folded(node)
        if constant is not None:
            return constant
        return self.inlined(node) or self.general(node)

    def index(self, node: Call) -> str:
        domain = self.domain(node.args[0])
        match node.args[1]:
            case Literal(value=str() as name) if domain is not None:
                slot, key = self.entry(domain, name)
                return f"{slot}[{key}]"
        raise Unsupported

    def optional(self, node: Call) -> str:
        """``….?name.orValue(default)`` and ``….?name.hasValue()``; optionals as such have no fast form."""
        match node.target:
            case Call(function="_?._" | "_[?_]", args=[place, Literal(value=str() as name)]):
                domain = self.domain(place)
                if domain is None:
                    raise Unsupported
            case _:
                raise Unsupported
        slot, key = self.entry(domain, name)
        if node.function == "hasValue":
            return f"({key} in {slot})"
        return f"({slot}[{key}] if {key} in {slot} else {self.value(node.args[0])})"

    def equality(self, node: Call, helper: str) -> str:
        left, right = node.args
        if left.type is right.type and left.type.kind in _CLASSES:
            return f"({self.value(left)} == {self.value(right)})"
        literal, other = (right, left) if isinstance(right, Literal) else (left, right)
        if not isinstance(literal, Literal) or type(literal.value) not in (str, int, bool):
            return f"{helper}({self.value(left)}, {self.value(right)})"
        name, word = self.temporary(), repr(literal.value)
        given = (name, word) if other is left else (word, name)
        operator = "is" if isinstance(literal.value, bool) else "=="
        return (
            f"({name} {operator} {word} if ({name} := {self.value(other)}).__class__ is "
            f"{type(literal.value).__name__} else {helper}({given[0]}, {given[1]}))"
        )

    def relation(self, node: Call) -> str:
        left, right = node.args
        operator, helper_name = _RELATIONS[node.function]
        compared = self.compared(left, right, operator)
        if compared is not None:
            return compared
        if left.type is right.type and left.type.kind in ("int", "string"):
            return f"({self.value(left)} {operator} {self.value(right)})"
        helper = self.keep(getattr(operators, helper_name))
        if isinstance(right, Literal) and type(right.value) in (str, int):
            name, word = self.temporary(), repr(right.value)
            return (
                f"({name} {operator} {word} if ({name} := {self.value(left)}).__class__ is "
                f"{type(right.value).__name__} else {helper}({name}, {word}))"
            )
        return f"{helper}({self.value(left)}, {self.value(right)})"

    def compared(self, left: Node, right: Node, operator: str) -> str | None:
        """``a.compareTo(b) >= 0`` as a plain comparison of what orders the two."""
        match left, right:
            case (
                Call(function="compareTo", target=Node() as target, args=[Node() as argument]),
                Literal(value=0),
            ):
                return self.ordered(left, target, argument, operator, f" {operator} 0")
        return None

    def ordered(self, node: Call, target: Node, argument: Node, operator: str, rest: str) -> str | None:
        """Two quantities or versions compared by the number or tuple that orders them."""
        keyed = _KEYED.get(argument.type.name)
        if keyed is None or len(node.overloads) != 1:
            return None
        kind, key = keyed
        other = self.value(argument)
        if target.type is argument.type:
            return f"({self.value(target)}.{key} {operator} {other}.{key})"
        name = self.temporary()
        helper = self.keep(implementation_of(self.environment, node)[0])
        return (
            f"({name}.{key} {operator} {other}.{key} if ({name} := {self.value(target)}).__class__ is {kind} "
            f"else {helper}({name}, {other}){rest})"
        )

    def membership(self, node: Call) -> str:
        element, container = node.args
        domain = self.domain(container)
        if domain is not None and isinstance(element, Literal) and type(element.value) is str:
            slot, key = self.entry(domain, element.value)
            return f"({key} in {slot})"
        if not isinstance(container, ListNode) or container.optional:
            raise Unsupported
        values = [each.value for each in container.elements if isinstance(each, Literal)]
        if len(values) != len(container.elements) or any(type(value) not in SET_TYPES for value in values):
            raise Unsupported
        code = self.value(element)
        if all(type(value) is str for value in values):
            known = self.keep(frozenset(values))
            if element.type.kind == "string":
                return f"({code} in {known})"
            # Nothing but a string equals one, so any other value is not in the set.
            name = self.temporary()
            return f"(({name} := {code}).__class__ is str and {name} in {known})"
        members = Map((value, True) for value in values)
        helper = self.keep(lambda value: type(value) in SET_TYPES and value in members)
        return f"{helper}({code})"

    def folded(self, node: Call) -> str | None:
        """A call on constants alone, worked out now."""
        if node.target is not None or not node.args or node.function == "dyn":
            return None
        if not all(isinstance(arg, Literal) for arg in node.args):
            return None
        if node.function not in CONVERSIONS and node.function not in ("quantity", "semver"):
            return None
        try:
            values = [arg.value for arg in node.args if isinstance(arg, Literal)]
            return self.keep(implementation_of(self.environment, node)[0](*values))
        except EvaluationError:
            raise Unsupported from None

    def inlined(self, node: Call) -> str | None:
        """The calls worth writing out."""
        if node.target is None or len(node.args) != 1:
            return None
        argument = node.args[0]
        if node.function in _OPPOSITE:
            return self.ordered(node, node.target, argument, _OPPOSITE[node.function], "")
        if not isinstance(argument, Literal) or type(argument.value) is not str:
            return None
        if node.function in _AFFIXES:
            code = f".{_AFFIXES[node.function]}({argument.value!r})"
        elif node.function == "contains":
            code = f".__contains__({argument.value!r})"
        elif node.function == "matches":
            pattern = regex.compile_pattern(argument.value)
            name = self.temporary()
            search = self.keep(pattern.search)
            return (
                f"({search}({name}) is not None if ({name} := {self.value(node.target)}).__class__ is str "
                "else not_bool())"
            )
        else:
            return None
        if node.target.type.kind == "string":
            return f"{self.value(node.target)}{code}"
        name = self.temporary()
        return f"({name}{code} if ({name} := {self.value(node.target)}).__class__ is str else not_bool())"

    def general(self, node: Call) -> str:
        if node.function in SPECIAL:
            raise Unsupported
        parts = node.args if node.target is None else [node.target, *node.args]
        helper = self.keep(implementation_of(self.environment, node)[0])
        return f"{helper}({', '.join(self.value(part) for part in parts)})"

    def binding(self, node: Comprehension) -> str:
        """``cel.bind``; loops have no fast form."""
        if not isinstance(node.range, ListNode) or node.range.elements or node.accumulator == ACCUMULATOR:
            raise Unsupported
        domain = self.domain(node.initial)
        before = self.bound.get(node.accumulator)
        if domain is not None:
            self.bound[node.accumulator] = domain
            code = self.value(node.result)
        else:
            name = self.temporary()
            initial = self.value(node.initial)
            self.bound[node.accumulator] = name
            code = f"({name} := {initial}, {self.value(node.result)})[1]"
        if before is None:
            del self.bound[node.accumulator]
        else:
            self.bound[node.accumulator] = before
        return code
