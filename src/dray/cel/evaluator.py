"""The exact evaluator: a checked tree becomes a tree of Python functions that also count what they cost.

Errors are values here. ``&&``, ``||`` and comprehensions can absorb them, operators evaluate their right side
even if the left one failed, and the cost of all that is counted the way cel-go counts it. Where a rule looks odd
(a name in a branch of ``?:`` costs nothing, a constant list costs nothing to build) it is upstream's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dray.cel import metering, regex
from dray.cel import types as t
from dray.cel.ast import (
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Message,
    Node,
    Select,
)
from dray.cel.attributes import Attribute, Frame, Qualifier
from dray.cel.decls import Environment, Overload
from dray.cel.errors import CostExceeded, EvaluationError, no_such_overload
from dray.cel.limits import MAX_COPIED
from dray.cel.macros import ACCUMULATOR
from dray.cel.recursion import deep
from dray.cel.values import (
    SET_TYPES,
    Map,
    Optional,
    Value,
    accepts,
    equal,
    equals,
    go_type_of,
    is_list,
    is_map,
    make_map,
    show,
    type_of,
)

Step = Callable[[Frame], Value]
_NOT_CONSTANT: Final = object()
_UNSET: Final = object()
CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"}
)


class Unplannable(Exception):
    """An expression that type-checks but fails before it can run at all, such as ``int("x")``."""


class Plan:
    """How to evaluate a node: a constant, an attribute that may still grow, or a step."""

    __slots__ = ("_step", "attribute", "constant")

    def __init__(
        self, step: Step | None = None, *, constant: Value = _NOT_CONSTANT, attribute: Attribute | None = None
    ) -> None:
        self._step = step
        self.constant = constant
        self.attribute = attribute

    @property
    def is_constant(self) -> bool:
        return self.constant is not _NOT_CONSTANT

    @property
    def step(self) -> Step:
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

    def __init__(self, step: Step, locals: int) -> None:
        self._step = step
        self._locals = locals

    def run(self, variables: Mapping[str, Value], limit: int) -> tuple[Value, int]:
        """The value, an EvaluationError in its place, and the cost. Beyond the limit CostExceeded is raised."""
        return deep(self._run, variables, limit)

    def _run(self, variables: Mapping[str, Value], limit: int) -> tuple[Value, int]:
        frame = Frame(variables, [_UNSET] * self._locals, limit)
        value = self._step(frame)
        if frame.cost > limit:
            raise CostExceeded
        return value, frame.cost


def plan(node: Node, environment: Environment) -> Program:
    """A program for a checked tree."""
    planner = _Planner(environment)
    step = planner.plan(node).step
    return Program(step, planner.slots)


def implementation_of(environment: Environment, node: Call) -> tuple[Callable[..., Value], bool]:
    """What a call runs, and whether it is bound as a function of any number of arguments."""
    function = environment.functions.get(node.function)
    if function is None:
        return _dispatch(node.function, []), False
    if function.singleton is not None:
        return function.singleton, False
    if len(node.overloads) == 1:
        chosen = next(o for o in function.overloads if o.id == node.overloads[0])
    else:
        bound = [o for o in function.overloads if o.implementation is not None]
        if len(bound) != 1:
            return _dispatch(function.name, bound), True
        chosen = bound[0]
    return _guarded(chosen), chosen.variadic


def _failed(value: Value) -> bool:
    return value.__class__ is EvaluationError


class _Planner:
    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.scopes: list[dict[str, Step]] = []
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
        source: Step | None = None
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
            member = self._membership(args[0], args[1].constant)
            if member is not None:
                return member
        implementation, variadic = implementation_of(self.environment, node)
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
        price = self.environment.prices.get(overload) or metering.price(node.function, overload)
        steps = [arg.step for arg in args]
        if variadic or len(steps) not in (1, 2):
            return Plan(_variadic(steps, implementation, price))
        if len(steps) == 1:
            return Plan(
                _unary(steps[0], implementation, price, strict=node.function != "@not_strictly_false")
            )
        step = _binary(steps[0], steps[1], implementation, price)
        return Plan(_adding(step) if node.function == "_+_" else step)

    def _membership(self, element: Plan, values: Sequence[Value]) -> Plan | None:
        """``x in [constants]`` as a look into a set, which upstream counts as free."""
        if not values:
            return Plan(constant=False)
        if any(type(value) not in SET_TYPES for value in values):
            return None
        known = Map((value, True) for value in values)
        step = element.step

        def member(frame: Frame) -> Value:
            value = step(frame)
            if value.__class__ is EvaluationError:
                return value
            return type(value) in SET_TYPES and value in known

        return Plan(member)

    def _and(self, node: Call) -> Plan:
        return Plan(_logical([self.plan(arg).step for arg in node.args], decisive=False))

    def _or(self, node: Call) -> Plan:
        return Plan(_logical([self.plan(arg).step for arg in node.args], decisive=True))

    def _equals(self, node: Call) -> Plan:
        left, right = (self.plan(arg).step for arg in node.args)
        return Plan(_binary(left, right, equals, metering.price("_==_", "equals")))

    def _not_equals(self, node: Call) -> Plan:
        left, right = (self.plan(arg).step for arg in node.args)
        return Plan(_binary(left, right, _unequal, metering.price("_!=_", "not_equals")))

    def _or_optional(self, node: Call) -> Plan:
        assert node.target is not None
        first, second = self.plan(node.target).step, self.plan(node.args[0]).step
        unwrap = node.function == "orValue"

        def choose(frame: Frame) -> Value:
            value = first(frame)
            if type(value) is not Optional:
                return value
            if value.present:
                return value.value if unwrap else value
            return second(frame)

        return Plan(choose)

    def _or_method(self, node: Call) -> Plan:
        if node.target is not None and len(node.args) == 1:
            return self._or_optional(node)
        raise AssertionError(node.function)

    # Constructors

    def list_(self, node: ListNode) -> Plan:
        plans = [self.plan(element) for element in node.elements]
        optional = [i in node.optional for i in range(len(plans))]
        steps = [each.step for each in plans]

        def build(frame: Frame) -> Value:
            values: list[Value] = []
            for step, may_lack in zip(steps, optional, strict=True):
                value = step(frame)
                if value.__class__ is EvaluationError:
                    return value
                if may_lack:
                    if type(value) is not Optional:
                        return EvaluationError(
                            f"cannot initialize optional list element from non-optional value {show(value)}"
                        )
                    if not value.present:
                        continue
                    value = value.value
                values.append(value)
            return values

        return self._constructed(build, plans, metering.LIST)

    def map_(self, node: MapNode) -> Plan:
        plans = [plan for entry in node.entries for plan in (self.plan(entry.key), self.plan(entry.value))]
        entries = [
            (plans[2 * i].step, plans[2 * i + 1].step, entry.optional) for i, entry in enumerate(node.entries)
        ]

        def build(frame: Frame) -> Value:
            values: list[tuple[Value, Value]] = []
            for key_step, value_step, may_lack in entries:
                key = key_step(frame)
                if key.__class__ is EvaluationError:
                    return key
                value = value_step(frame)
                if value.__class__ is EvaluationError:
                    return value
                if may_lack:
                    if type(value) is not Optional:
                        return EvaluationError(
                            f"cannot initialize optional entry '{show(key)}' from non-optional value {show(value)}"
                        )
                    if not value.present:
                        values = [(k, v) for k, v in values if not equal(k, key)]
                        continue
                    value = value.value
                values.append((key, value))
            try:
                return make_map(values)
            except EvaluationError as failed:
                return failed

        return self._constructed(build, plans, metering.MAP)

    def _constructed(self, build: Step, plans: list[Plan], cost: int) -> Plan:
        if all(plan.is_constant for plan in plans):
            value = build(Frame({}, [], 0))
            if not _failed(value):
                return Plan(constant=value)

        def construct(frame: Frame) -> Value:
            value = build(frame)
            frame.cost += cost
            return value

        return Plan(construct)

    def message(self, node: Message) -> Plan:
        make = self.environment.constructors.get(node.name)
        if make is None:
            raise Unplannable(f"unknown type: {node.name}")
        fields = [(field.name, self.plan(field.value).step, field.optional) for field in node.fields]

        def build(frame: Frame) -> Value:
            values: dict[str, Value] = {}
            for name, step, may_lack in fields:
                value = step(frame)
                if value.__class__ is EvaluationError:
                    return value
                if may_lack:
                    if type(value) is not Optional:
                        return EvaluationError(
                            f"cannot initialize optional entry '{name}' from non-optional value {show(value)}"
                        )
                    if not value.present:
                        values.pop(name, None)
                        continue
                    value = value.value
                values[name] = value
            frame.cost += metering.MESSAGE
            try:
                return make(values)
            except EvaluationError as failed:
                return failed

        return Plan(build)

    # Comprehensions

    def comprehension(self, node: Comprehension) -> Plan:
        iterated = self.plan(node.range).step
        initial = self.plan(node.initial).step
        accumulator = self._slot()
        first, second = self._slot(), self._slot()
        builds = node.accumulator == ACCUMULATOR and isinstance(node.initial, ListNode | MapNode)

        def accumulated(frame: Frame) -> Value:
            value = frame.locals[accumulator]
            if value is _UNSET:
                value = initial(frame)
                if builds and not _failed(value):
                    # The loop's own list or map may grow in place: nobody else has seen it.
                    value = list(value) if is_list(value) else Map(value.items())
                frame.locals[accumulator] = value
            return value

        self.scopes.append({node.accumulator: accumulated})
        inner = {node.variable: _local(first)}
        if node.variable2:
            inner[node.variable2] = _local(second)
        self.scopes.append(inner)
        condition = self.plan(node.condition).step
        step = (self._growing(node.step, accumulated) if builds else None) or self.plan(node.step).step
        self.scopes.pop()
        result = self.plan(node.result).step
        self.scopes.pop()
        pairs = bool(node.variable2)

        def fold(frame: Frame) -> Value:
            locals = frame.locals
            locals[accumulator] = _UNSET
            values = iterated(frame)
            if values.__class__ is EvaluationError:
                return values
            if is_list(values):
                entries: Any = enumerate(values) if pairs else values
            elif is_map(values):
                entries = values.items() if pairs else values
            elif pairs:
                return EvaluationError(f"unsupported comprehension range type: {go_type_of(values)}")
            else:
                return EvaluationError(f"got '{go_type_of(values)}', expected iterable type")
            limit = frame.limit
            for entry in entries:
                if pairs:
                    locals[first], locals[second] = entry
                else:
                    locals[first] = entry
                going = condition(frame)
                if going is False:
                    break
                locals[accumulator] = step(frame)
                if frame.cost > limit:
                    raise CostExceeded
            value = result(frame)
            if builds and type(value) is Map:
                value = make_map(value.items())
            return value

        return Plan(fold)

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _growing(self, node: Node, accumulated: Step) -> Step | None:
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
            return _appending(accumulated, self.plan(node.args[1]).step)
        if node.function == "cel.@mapInsert":
            return _inserting(accumulated, [self.plan(arg).step for arg in node.args[1:]])
        return None


def _local(slot: int) -> Step:
    def read(frame: Frame) -> Value:
        return frame.locals[slot]

    return read


def _appending(accumulated: Step, addition: Step) -> Step:
    def append(frame: Frame) -> Value:
        values = accumulated(frame)
        more = addition(frame)
        frame.cost += metering.SELECT + 1
        if _failed(values):
            return values
        if _failed(more):
            return more
        values += more
        return values

    return append


def _inserting(accumulated: Step, additions: list[Step]) -> Step:
    def insert(frame: Frame) -> Value:
        values = accumulated(frame)
        frame.cost += metering.SELECT
        if _failed(values):
            if len(additions) == 1:
                additions[0](frame)
                frame.cost += 1
            return values
        given: list[Value] = []
        for addition in additions:
            value = addition(frame)
            if _failed(value):
                frame.cost += len(additions) == 1
                return value
            given.append(value)
        frame.cost += 1
        added = [tuple(given)] if len(given) == 2 else list(given[0].items())
        for key, value in added:
            if not values.insert(key, value):
                return EvaluationError(f"insert failed: key {show(key)} already exists")
        return values

    return insert


def _unequal(a: Value, b: Value) -> bool:
    return not equal(a, b)


def _guarded(overload: Overload) -> Callable[..., Value]:
    """The implementation behind a check of the argument types, for arguments known only at run time."""
    implementation = overload.implementation
    assert implementation is not None, overload.id
    if not overload.guarded or all(arg.kind in ("dyn", "any", "param") for arg in overload.args):
        return implementation
    wanted = overload.args
    name = overload.function

    def guarded(*args: Value) -> Value:
        if not all(map(accepts, wanted, args)):
            raise no_such_overload(name, *(type_of(arg).name for arg in args))
        return implementation(*args)

    return guarded


def _dispatch(name: str, overloads: list[Overload]) -> Callable[..., Value]:
    def dispatch(*args: Value) -> Value:
        for overload in overloads:
            if len(overload.args) == len(args) and all(map(accepts, overload.args, args)):
                assert overload.implementation is not None
                return overload.implementation(*args)
        raise no_such_overload(name, *(type_of(arg).name for arg in args))

    return dispatch


def _charge(frame: Frame, price: metering.Price, args: Sequence[Value], result: Value = None) -> None:
    if isinstance(price, int):
        frame.cost += price
        return
    frame.cost += price(args, result)
    # What is priced by size can grow by itself, so the limit must hold before the next call.
    if frame.cost > frame.limit:
        raise CostExceeded


def _adding(step: Step) -> Step:
    """Concatenation costs one unit whatever the lists, since upstream copies nothing; here it does, within reason."""

    def add(frame: Frame) -> Value:
        value = step(frame)
        if is_list(value):
            frame.copied += len(value)
            if frame.copied > MAX_COPIED:
                raise CostExceeded
        return value

    return add


def _unary(
    argument: Step, implementation: Callable[..., Value], price: metering.Price, *, strict: bool
) -> Step:
    call = _paid(implementation, price)

    def evaluate(frame: Frame) -> Value:
        value = argument(frame)
        if strict and value.__class__ is EvaluationError:
            _charge(frame, price, (value,), value)
            return value
        return call(frame, (value,))

    return evaluate


def _binary(left: Step, right: Step, implementation: Callable[..., Value], price: metering.Price) -> Step:
    call = _paid(implementation, price)

    def evaluate(frame: Frame) -> Value:
        a = left(frame)
        b = right(frame)
        if a.__class__ is EvaluationError:
            _charge(frame, price, (a, b), a)
            return a
        if b.__class__ is EvaluationError:
            _charge(frame, price, (a, b), b)
            return b
        return call(frame, (a, b))

    return evaluate


def _variadic(arguments: list[Step], implementation: Callable[..., Value], price: metering.Price) -> Step:
    call = _paid(implementation, price)

    def evaluate(frame: Frame) -> Value:
        values: list[Value] = []
        for argument in arguments:
            value = argument(frame)
            if value.__class__ is EvaluationError:
                return value
            values.append(value)
        return call(frame, values)

    return evaluate


def _paid(
    implementation: Callable[..., Value], price: metering.Price
) -> Callable[[Frame, Sequence[Value]], Value]:
    """A call with its price: paid before the work is done wherever it can be told."""

    def run(args: Sequence[Value]) -> Value:
        try:
            return implementation(*args)
        except CostExceeded:
            raise
        except EvaluationError as failed:
            return failed

    def prepaid(frame: Frame, args: Sequence[Value]) -> Value:
        _charge(frame, price, args)
        return run(args)

    def postpaid(frame: Frame, args: Sequence[Value]) -> Value:
        result = run(args)
        _charge(frame, price, args, result)
        return result

    return postpaid if isinstance(price, metering.ByResult) else prepaid


def _logical(terms: list[Step], *, decisive: bool) -> Step:
    """``&&`` (decided by false) and ``||`` (decided by true): a decisive term wins over any error."""

    def evaluate(frame: Frame) -> Value:
        error: EvaluationError | None = None
        for term in terms:
            value = term(frame)
            if value is decisive:
                return decisive
            if value is not True and value is not False and error is None:
                error = value if value.__class__ is EvaluationError else no_such_overload()
        return not decisive if error is None else error

    return evaluate


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
    "or": _Planner._or_method,
    "orValue": _Planner._or_method,
}
