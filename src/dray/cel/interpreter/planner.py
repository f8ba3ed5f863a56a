"""The exact evaluator: a checked tree becomes a tree of Python functions that also count what they cost.

Errors are values here. ``&&``, ``||`` and comprehensions can absorb them, operators evaluate their right side
even if the left one failed, and the cost of all that is counted the way cel-go counts it. Where a rule looks odd
(a name in a branch of ``?:`` costs nothing, a constant list costs nothing to build) it is upstream's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from dray.cel.common import regex
from dray.cel.common import types as t
from dray.cel.common.ast import Call, Comprehension, Ident, ListNode, Literal, MapNode, Message, Node, Select
from dray.cel.common.decls import Environment
from dray.cel.common.recursion import with_deep_stack
from dray.cel.common.values import Value, equal, equals
from dray.cel.cost import runtime
from dray.cel.errors import CostExceeded, EvaluationError
from dray.cel.interpreter import calls, comprehensions, constructors
from dray.cel.interpreter.attributes import Attribute, Frame, Interpretable, Qualifier
from dray.cel.interpreter.comprehensions import Slots
from dray.cel.parser.macros import ACCUMULATOR

_NOT_CONSTANT: Final = object()
CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"}
)


class Unplannable(Exception):
    """An expression that type-checks but fails before it can run at all, such as ``int("x")``."""


class Plan:
    """How to evaluate a node: a constant, an attribute that may still grow, or a step."""

    __slots__ = ("_step", "attribute", "constant")

    def __init__(
        self,
        step: Interpretable | None = None,
        *,
        constant: Value = _NOT_CONSTANT,
        attribute: Attribute | None = None,
    ) -> None:
        self._step = step
        self.constant = constant
        self.attribute = attribute

    @property
    def is_constant(self) -> bool:
        return self.constant is not _NOT_CONSTANT

    @property
    def step(self) -> Interpretable:
        if self._step is None:
            if self.attribute is not None:
                self._step = self.attribute.step()
            else:
                value = self.constant
                self._step = lambda frame: value
        return self._step


class Program:
    """An expression ready to run."""

    __slots__ = ("_locals", "_step")

    def __init__(self, step: Interpretable, locals: int) -> None:
        self._step = step
        self._locals = locals

    def run(self, variables: Mapping[str, Value], limit: int) -> tuple[Value, int]:
        """The value, an EvaluationError in its place, and the cost. Beyond the limit CostExceeded is raised."""
        return with_deep_stack(self._run, variables, limit)

    def _run(self, variables: Mapping[str, Value], limit: int) -> tuple[Value, int]:
        frame = Frame(variables, [comprehensions.UNSET] * self._locals, limit)
        value = self._step(frame)
        if frame.cost > limit:
            raise CostExceeded
        return value, frame.cost


def plan(node: Node, environment: Environment) -> Program:
    """A program for a checked tree."""
    planner = _Planner(environment)
    step = planner.plan(node).step
    return Program(step, planner.slots)


class _Planner:
    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.scopes: list[dict[str, Interpretable]] = []
        self.slots = 0

    def plan(self, node: Node) -> Plan:
        return _PLANS[type(node)](self, node)

    # Leaves and attributes

    def literal(self, node: Literal) -> Plan:
        return Plan(constant=node.value)

    def ident(self, node: Ident) -> Plan:
        if node.constant is not None:
            return Plan(constant=node.constant)
        for scope in reversed(self.scopes):
            if node.name in scope:
                return Plan(attribute=Attribute(scope[node.name]))
        if node.type.kind == "type" and node.name in self.environment.messages:
            return Plan(constant=t.object_type(node.name))
        name = node.name

        def read(frame: Frame) -> Value:
            try:
                return frame.variables[name]
            except KeyError:
                return EvaluationError(f"no such attribute(s): {name}")

        return Plan(attribute=Attribute(read))

    def select(self, node: Select) -> Plan:
        if node.resolved is not None:
            return self.ident(node.resolved)
        attribute = self._attribute(self.plan(node.operand))
        strict = self.environment.strict_presence
        if node.test:
            return Plan(attribute=attribute.tested(node.field, strict=strict))
        attribute.add(Qualifier(node.field, None, strict=strict))
        return Plan(attribute=attribute)

    def _attribute(self, operand: Plan) -> Attribute:
        return operand.attribute or Attribute(operand.step)

    def _index(self, node: Call, *, optional: bool) -> Plan:
        attribute = self._attribute(self.plan(node.args[0]))
        key = self.plan(node.args[1])
        source: Interpretable | None = None
        if not key.is_constant:
            source = key.attribute.resolver() if key.attribute is not None else key.step
        strict = self.environment.strict_presence
        constant = key.constant if key.is_constant else None
        attribute.add(Qualifier(constant, source, optional=optional, strict=strict))
        return Plan(attribute=attribute)

    def _conditional(self, node: Call) -> Plan:
        condition, then, otherwise = (self.plan(arg) for arg in node.args)
        return Plan(
            attribute=Attribute.conditional(condition.step, self._attribute(then), self._attribute(otherwise))
        )

    # Calls

    def call(self, node: Call) -> Plan:
        special = SPECIAL.get(node.function)
        if special is not None:
            return special(self, node)
        parts = node.args if node.target is None else [node.target, *node.args]
        args = [self.plan(part) for part in parts]
        overload = node.overloads[0] if len(node.overloads) == 1 else ""
        if node.function == "@in" and overload == "in_list" and args[1].is_constant:
            # Upstream counts a look into a set as free, and one into nothing as known.
            if not args[1].constant:
                return Plan(constant=False)
            member = calls.membership(args[0].step, args[1].constant)
            if member is not None:
                return Plan(member)
        implementation, variadic = calls.implementation_of(self.environment, node)
        if node.function in CONVERSIONS and len(args) == 1 and args[0].is_constant:
            try:
                return Plan(constant=implementation(args[0].constant))
            except EvaluationError as failed:
                raise Unplannable(failed.message) from None
        if node.function in _REGEX_FUNCTIONS and len(args) > 1 and type(args[1].constant) is str:
            # A constant pattern is compiled beforehand, which also makes the call a variadic one.
            variadic = True
            try:
                regex.compile_pattern(args[1].constant)
            except EvaluationError as failed:
                raise Unplannable(failed.message) from None
        price = self.environment.prices.get(overload) or runtime.price(node.function, overload)
        steps = [arg.step for arg in args]
        if variadic or len(steps) not in (1, 2):
            return Plan(calls.variadic(steps, implementation, price))
        if len(steps) == 1:
            return Plan(
                calls.unary(steps[0], implementation, price, strict=node.function != "@not_strictly_false")
            )
        step = calls.binary(steps[0], steps[1], implementation, price)
        return Plan(calls.with_copy_limit(step) if node.function == "_+_" else step)

    def _and(self, node: Call) -> Plan:
        return Plan(calls.logical([self.plan(arg).step for arg in node.args], decisive=False))

    def _or(self, node: Call) -> Plan:
        return Plan(calls.logical([self.plan(arg).step for arg in node.args], decisive=True))

    def _equals(self, node: Call) -> Plan:
        left, right = (self.plan(arg).step for arg in node.args)
        return Plan(calls.binary(left, right, equals, runtime.price("_==_", "equals")))

    def _not_equals(self, node: Call) -> Plan:
        left, right = (self.plan(arg).step for arg in node.args)
        return Plan(calls.binary(left, right, _unequal, runtime.price("_!=_", "not_equals")))

    def _alternative(self, node: Call) -> Plan:
        assert node.target is not None
        first, second = self.plan(node.target).step, self.plan(node.args[0]).step
        return Plan(calls.optional_or(first, second, unwrap=node.function == "orValue"))

    # Constructors

    def list_(self, node: ListNode) -> Plan:
        plans = [self.plan(element) for element in node.elements]
        elements = [(plan.step, i in node.optional) for i, plan in enumerate(plans)]
        return self._constructed(constructors.build_list(elements), plans, runtime.LIST)

    def map_(self, node: MapNode) -> Plan:
        planned = [(self.plan(entry.key), self.plan(entry.value), entry.optional) for entry in node.entries]
        entries = [(key.step, value.step, optional) for key, value, optional in planned]
        parts = [part for key, value, _ in planned for part in (key, value)]
        return self._constructed(constructors.build_map(entries), parts, runtime.MAP)

    def _constructed(self, build: Interpretable, parts: list[Plan], cost: int) -> Plan:
        if all(part.is_constant for part in parts):
            value = constructors.constant(build)
            if value.__class__ is not EvaluationError:
                return Plan(constant=value)
        return Plan(constructors.with_cost(build, cost))

    def message(self, node: Message) -> Plan:
        make = self.environment.constructors.get(node.name)
        if make is None:
            raise Unplannable(f"unknown type: {node.name}")
        fields = [(field.name, self.plan(field.value).step, field.optional) for field in node.fields]
        return Plan(constructors.with_cost(constructors.build_message(fields, make), runtime.MESSAGE))

    # Comprehensions

    def comprehension(self, node: Comprehension) -> Plan:
        iterated = self.plan(node.range).step
        initial = self.plan(node.initial).step
        slots = Slots(self._slot(), self._slot(), self._slot() if node.variable2 else None)
        grows = node.accumulator == ACCUMULATOR and isinstance(node.initial, ListNode | MapNode)
        read = comprehensions.accumulated(slots.accumulator, initial, grows=grows)
        variables = {node.variable: comprehensions.local(slots.first)}
        if slots.second is not None:
            variables[node.variable2] = comprehensions.local(slots.second)
        self.scopes.append({node.accumulator: read})
        self.scopes.append(variables)
        condition = self.plan(node.condition).step
        step = (self._growing(node.step, read) if grows else None) or self.plan(node.step).step
        self.scopes.pop()
        result = self.plan(node.result).step
        self.scopes.pop()
        return Plan(comprehensions.fold(iterated, slots, condition, step, result, grows=grows))

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _growing(self, node: Node, accumulated: Interpretable) -> Interpretable | None:
        """The step of a comprehension that collects: it adds to the accumulator instead of copying it."""
        if not isinstance(node, Call) or not node.args:
            return None
        if node.function == "_?_:_":
            grown = self._growing(node.args[1], accumulated)
            if grown is None or not isinstance(node.args[2], Ident):
                return None
            return Plan(
                attribute=Attribute.conditional(
                    self.plan(node.args[0]).step, Attribute(grown), self._attribute(self.plan(node.args[2]))
                )
            ).step
        if not isinstance(node.args[0], Ident) or node.args[0].name != ACCUMULATOR:
            return None
        if node.function == "_+_" and isinstance(node.args[1], ListNode):
            return comprehensions.append_to(accumulated, self.plan(node.args[1]).step)
        if node.function == "cel.@mapInsert":
            return comprehensions.insert_into(accumulated, [self.plan(arg).step for arg in node.args[1:]])
        return None


def _unequal(a: Value, b: Value) -> bool:
    return not equal(a, b)


_REGEX_FUNCTIONS: Final = frozenset({"matches", "find", "findAll"})

_PLANS: Final[dict[type, Callable[[_Planner, Any], Plan]]] = {
    Literal: _Planner.literal,
    Ident: _Planner.ident,
    Select: _Planner.select,
    Call: _Planner.call,
    ListNode: _Planner.list_,
    MapNode: _Planner.map_,
    Message: _Planner.message,
    Comprehension: _Planner.comprehension,
}

SPECIAL: Final[dict[str, Callable[[_Planner, Call], Plan]]] = {
    "_&&_": _Planner._and,
    "_||_": _Planner._or,
    "_?_:_": _Planner._conditional,
    "_==_": _Planner._equals,
    "_!=_": _Planner._not_equals,
    "_[_]": lambda planner, node: planner._index(node, optional=False),
    "_[?_]": lambda planner, node: planner._index(node, optional=True),
    "_?._": lambda planner, node: planner._index(node, optional=True),
    "or": _Planner._alternative,
    "orValue": _Planner._alternative,
}
