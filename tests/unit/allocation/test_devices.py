from __future__ import annotations

import gc
import weakref

import pytest

from dray.allocation.devices import EvaluationPending, Shapes
from dray.allocation.features import Features
from dray.allocation.selectors import cel_device, derived_attribute, expression
from dray.cel import EvaluationError
from dray.cel.environment.devices import compile

FEATURES = Features(derived_attributes=True)
NUMBERS = list(range(14))
LONG = f"{NUMBERS}.all(x, {NUMBERS}.all(y, {NUMBERS}.all(z, x + y + z >= 0)))"
DEVICE = {"name": "x", "attributes": {"n": {"int": 3}}}


def test_a_selector_that_may_take_long_is_settled_beside_an_attempt():
    shapes = Shapes()
    shape, selector = shapes.of("d", DEVICE), expression(LONG, FEATURES)
    shapes.evaluations.seconds_left = 1.0
    with pytest.raises(EvaluationPending) as pending:
        shape.verdict(selector)
    assert pending.value.settle() > 0
    assert shape.verdict(selector) is True


def test_a_derived_attribute_that_may_take_long_is_settled_beside_an_attempt():
    shapes = Shapes()
    shape, attribute = shapes.of("d", DEVICE), derived_attribute(LONG, FEATURES)
    shapes.evaluations.seconds_left = 1.0
    with pytest.raises(EvaluationPending) as pending:
        shape.derive(attribute)
    assert pending.value.settle() > 0
    assert shape.derive(attribute) == {("bool", True)}


def test_a_derived_attribute_that_is_cheap_is_evaluated_at_once_while_there_is_time():
    shapes = Shapes()
    shape, attribute = shapes.of("d", DEVICE), derived_attribute("1 + 1", FEATURES)
    shapes.evaluations.seconds_left = 0.0
    with pytest.raises(EvaluationPending):
        shape.derive(attribute)
    shapes.evaluations.seconds_left = 1.0
    assert shape.derive(attribute) == {("int", 2)}
    assert shapes.evaluations.seconds_left < 1.0


def test_the_error_of_a_derived_attribute_is_kept_and_raised_again():
    shapes = Shapes()
    shape, attribute = shapes.of("d", DEVICE), derived_attribute('device.attributes["d"].nosuch', FEATURES)
    shapes.evaluations.seconds_left = 0.0
    with pytest.raises(EvaluationPending) as pending:
        shape.derive(attribute)
    pending.value.settle()
    for _ in range(2):
        with pytest.raises(EvaluationError):
            shape.derive(attribute)


def test_a_long_selector_is_neither_compiled_nor_evaluated_in_an_attempt():
    shapes = Shapes()
    shape = shapes.of("d", DEVICE)
    long = expression(" && ".join(["device.driver == 'd'"] * 100), FEATURES)
    shapes.evaluations.seconds_left = 1.0
    with pytest.raises(EvaluationPending) as pending:
        shape.verdict(long)
    assert not long.is_compiled
    pending.value.settle()
    assert shape.verdict(long) is True


@pytest.mark.parametrize("source", ["device.driver == 'd'", LONG])
def test_a_compiled_selector_goes_at_once_when_nobody_needs_it(source: str):
    shape = Shapes().of("d", DEVICE)
    gc.collect()
    gc.disable()
    try:
        selector = compile.__wrapped__(source)  # without the cache
        known = weakref.ref(selector)
        assert selector.matches(cel_device(shape.driver, shape.document))
        del selector
        assert known() is None
    finally:
        gc.enable()
