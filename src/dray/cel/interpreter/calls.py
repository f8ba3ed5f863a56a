"""Calls: which implementation one runs, when its arguments are evaluated, and when it is paid for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dray.cel.common.ast import Call
from dray.cel.common.decls import Environment, Overload
from dray.cel.common.values import SET_TYPES, Map, Optional, Value, accepts, is_list, type_of
from dray.cel.cost import runtime
from dray.cel.errors import CostExceeded, EvaluationError, no_such_overload
from dray.cel.interpreter.attributes import Frame, Interpretable
from dray.cel.interpreter.limits import MAX_COPIED


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


def charge(frame: Frame, price: runtime.Price, args: Sequence[Value], result: Value = None) -> None:
    if isinstance(price, int):
        frame.cost += price
        return
    frame.cost += price(args, result)
    # What is priced by size can grow by itself, so the limit must hold before the next call.
    if frame.cost > frame.limit:
        raise CostExceeded


def with_copy_limit(step: Interpretable) -> Interpretable:
    """Concatenation costs one unit whatever the lists, since upstream copies nothing; here it does, within reason."""

    def add(frame: Frame) -> Value:
        value = step(frame)
        if is_list(value):
            frame.copied += len(value)
            if frame.copied > MAX_COPIED:
                raise CostExceeded
        return value

    return add


def unary(
    argument: Interpretable, implementation: Callable[..., Value], price: runtime.Price, *, strict: bool
) -> Interpretable:
    call = _tracked(implementation, price)

    def evaluate(frame: Frame) -> Value:
        value = argument(frame)
        if strict and value.__class__ is EvaluationError:
            charge(frame, price, (value,), value)
            return value
        return call(frame, (value,))

    return evaluate


def binary(
    left: Interpretable, right: Interpretable, implementation: Callable[..., Value], price: runtime.Price
) -> Interpretable:
    call = _tracked(implementation, price)

    def evaluate(frame: Frame) -> Value:
        a = left(frame)
        b = right(frame)
        if a.__class__ is EvaluationError:
            charge(frame, price, (a, b), a)
            return a
        if b.__class__ is EvaluationError:
            charge(frame, price, (a, b), b)
            return b
        return call(frame, (a, b))

    return evaluate


def variadic(
    arguments: list[Interpretable], implementation: Callable[..., Value], price: runtime.Price
) -> Interpretable:
    call = _tracked(implementation, price)

    def evaluate(frame: Frame) -> Value:
        values: list[Value] = []
        for argument in arguments:
            value = argument(frame)
            if value.__class__ is EvaluationError:
                return value
            values.append(value)
        return call(frame, values)

    return evaluate


def _tracked(
    implementation: Callable[..., Value], price: runtime.Price
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
        charge(frame, price, args)
        return run(args)

    def postpaid(frame: Frame, args: Sequence[Value]) -> Value:
        result = run(args)
        charge(frame, price, args, result)
        return result

    return postpaid if isinstance(price, runtime.ResultPrice) else prepaid


def logical(terms: list[Interpretable], *, decisive: bool) -> Interpretable:
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


def membership(element: Interpretable, values: Sequence[Value]) -> Interpretable | None:
    """``x in [constants]`` as a look into a set, if the constants can be in one."""
    if any(type(value) not in SET_TYPES for value in values):
        return None
    known = Map((value, True) for value in values)

    def member(frame: Frame) -> Value:
        value = element(frame)
        if value.__class__ is EvaluationError:
            return value
        return type(value) in SET_TYPES and value in known

    return member


def optional_or(first: Interpretable, second: Interpretable, *, unwrap: bool) -> Interpretable:
    """``or`` and ``orValue`` of optionals: the second is evaluated only if the first is empty."""

    def choose(frame: Frame) -> Value:
        value = first(frame)
        if type(value) is not Optional:
            return value
        if value.present:
            return value.value if unwrap else value
        return second(frame)

    return choose
