"""Device selectors: what they see, how they fail, what they cost, and that the fast form tells the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.cel import CompileError, CostExceeded, ErrorType, EvaluationError
from dray.cel.environment import devices
from dray.cel.environment.devices import Device, compile

GPU: dict[str, Any] = {
    "attributes": {
        "model": {"string": "A100"},
        "index": {"int": 3},
        "driverVersion": {"version": "1.2.0"},
        "healthy": {"bool": True},
        "other.example.com/numa": {"int": 1},
    },
    "capacity": {"memory": {"value": "80Gi"}},
}


def gpu(**changes: Any) -> Device:
    return Device.of("gpu.example.com", {**GPU, **changes})


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ('device.driver == "gpu.example.com"', True),
        ('device.attributes["gpu.example.com"].model == "A100"', True),
        ('device.attributes["gpu.example.com"].model == "H100"', False),
        ('device.attributes["other.example.com"].numa == 1', True),
        ('device.attributes["gpu.example.com"].index in [1, 2, 3]', True),
        ('device.attributes["gpu.example.com"].model in ["H100", "A100"]', True),
        ('"model" in device.attributes["gpu.example.com"]', True),
        ('"nope" in device.attributes["gpu.example.com"]', False),
        ('"gpu.example.com" in device.attributes', True),
        ('"nope.example.com" in device.attributes', False),
        ('has(device.attributes["gpu.example.com"].model)', True),
        ('device.attributes["gpu.example.com"].healthy', True),
        ('device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0', True),
        ('device.capacity["gpu.example.com"].memory.isLessThan(quantity("40Gi"))', False),
        ('device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("1.1.0"))', True),
        ('device.attributes["gpu.example.com"].driverVersion.compareTo(semver("1.2.0")) == 0', True),
        ('cel.bind(d, device.attributes["gpu.example.com"], d.model == "A100" && d.index > 2)', True),
        ('cel.bind(m, device.attributes["gpu.example.com"].model, m.startsWith("A") && m.endsWith("00"))', True),
        ('device.attributes["gpu.example.com"].model.matches("^A[0-9]+$")', True),
        ('device.attributes["gpu.example.com"].model.contains("B")', False),
        ('device.attributes["gpu.example.com"].?nope.orValue("x") == "x"', True),
        ('device.attributes["nope"].?nope.hasValue()', False),
        ("device.attributes.exists(d, d == 'other.example.com')", True),
        ("device.allowMultipleAllocations", False),
        ('device.attributes["gpu.example.com"].index == 3.0 || false', True),
        ('!(device.attributes["gpu.example.com"].index != 3)', True),
        ('device.attributes["gpu.example.com"].index + 1 == 4 ? true : false', True),
        ('device.attributes["gpu.example.com"].model.lowerAscii() == "a100"', True),
        ('size(device.attributes) == 2', True),
        ('device.attributes["gpu.example.com"].nope == 1 || true', True),
        ('device.attributes["gpu.example.com"].index == "3" || device.driver != ""', True),
    ],
)  # fmt: skip
def test_selectors_see_the_device(expression: str, selected: bool) -> None:
    selector = compile(expression)
    device = gpu()
    assert selector.matches(device) is selected
    assert selector.matches(device) is selected
    assert selector.match_with_cost(device)[0] is selected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('device.attributes["gpu.example.com"].nope == 1', "no such key: nope"),
        ('device.attributes["gpu.example.com"].index.isGreaterThan(quantity("0"))',
         "no such overload: isGreaterThan(int, kubernetes.Quantity)"),
        ('device.attributes["gpu.example.com"].model && true', "no such overload"),
        ('device.attributes["gpu.example.com"].index',
         "CEL result of type int could not be converted to bool: unsupported type conversion from 'int' to bool"),
        ('device.attributes["gpu.example.com"].driverVersion == "1.2.0"', "no such overload"),
    ],
)  # fmt: skip
def test_failures_have_upstreams_words(expression: str, message: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        compile(expression).matches(gpu())
    assert failed.value.message == message


def test_a_device_with_an_unusable_attribute_fails_every_selector() -> None:
    selector = compile("device.driver != ''")
    listed = gpu(attributes={"names": {"strings": ["a"]}})
    with pytest.raises(EvaluationError, match="attribute names: unsupported attribute value"):
        compile('device.attributes["gpu.example.com"].names == 1').matches(listed)
    with pytest.raises(EvaluationError, match="attribute names: unsupported attribute value"):
        selector.match_with_cost(listed)
    broken = gpu(attributes={"v": {"version": "1"}})
    with pytest.raises(
        EvaluationError, match=r"attribute v: parse semantic version: No Major\.Minor\.Patch elements found"
    ):
        selector.match_with_cost(broken)


def test_list_attributes_are_lists_where_the_feature_is_on() -> None:
    device = gpu(attributes={"names": {"strings": ["a", "b"]}, "one": {"int": 1}})
    for expression in (
        'device.attributes["gpu.example.com"].names.includes("b")',
        'device.attributes["gpu.example.com"].one.includes(1)',
        'device.attributes["gpu.example.com"].names.exists(n, n == "a")',
        'device.attributes["gpu.example.com"].names.size() == 2',
    ):
        assert compile(expression, list_attributes=True).matches(device) is True
    with pytest.raises(CompileError, match="undeclared reference to 'includes'"):
        compile('device.attributes["gpu.example.com"].names.includes("b")')


def test_stored_expressions_keep_what_the_gates_no_longer_offer() -> None:
    expression = "device.allowMultipleAllocations"
    with pytest.raises(CompileError, match="undefined field 'allowMultipleAllocations'"):
        compile(expression, consumable_capacity=False)
    assert compile(expression, consumable_capacity=False, stored=True).matches(gpu()) is False


def test_a_selector_must_be_a_bool_or_of_unknown_type() -> None:
    for expression, type in (
        ("1 + 1", "int"),
        ("device.attributes", "map(string, map(string, google.protobuf.Any))"),
    ):
        with pytest.raises(CompileError) as refused:
            compile(expression)
        assert refused.value.message == f"must evaluate to bool or the unknown type, not {type}"
        assert refused.value.type is ErrorType.INVALID


def test_compiled_selectors_are_kept() -> None:
    assert compile("true") is compile("true")
    assert compile("true") is not compile("true", stored=True)


def test_evaluation_stops_at_the_cost_limit() -> None:
    bomb = "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a + b + c >= 0)))"
    selector = compile(bomb)
    assert selector.max_cost > devices.MAX_COST
    with pytest.raises(CostExceeded, match="operation cancelled: actual cost limit exceeded"):
        selector.matches(gpu())


def test_a_selector_says_what_it_reads() -> None:
    selector = compile(
        'device.driver == "x" && device.attributes["a.b"].c == 1 && "d" in device.attributes["a.b"] && '
        'cel.bind(q, device.capacity["a.b"], q.mem.isInteger()) && "z" in device.attributes && '
        'device.attributes["a.b"].?e.hasValue() && has(device.attributes["a.b"].f)'
    )
    reads = selector.reads
    assert reads is not None
    assert reads.attributes == {("a.b", "c"), ("a.b", "d"), ("a.b", "e"), ("a.b", "f")}
    assert reads.capacity == {("a.b", "mem")}
    assert reads.attribute_domains == {"z"}
    assert reads.driver and not reads.allow_multiple_allocations


@pytest.mark.parametrize(
    "expression",
    [
        "device.attributes.exists(d, d == 'x')",
        "device.attributes[device.driver].x == 1",
        "size(device.attributes['x']) == 0",
        "cel.bind(d, device, d.driver == 'x')",
        "cel.bind(d, device.attributes['x'], size(d) == 0)",
        "device == device",
    ],
)
def test_reads_are_unknown_where_only_evaluation_can_tell(expression: str) -> None:
    assert compile(expression).reads is None


_values = st.sampled_from(
    [{"int": 0}, {"int": 1}, {"bool": True}, {"string": "a"}, {"string": "1.0.0"}, {"version": "1.0.0"}, {"version": "2.0.0-rc1"}]
)  # fmt: skip
_devices = st.builds(
    lambda a, b, m, multi: Device.of(
        "d.x",
        {
            "attributes": {name: value for name, value in (("a", a), ("o.x/b", b)) if value},
            "capacity": {"m": {"value": m}} if m else {},
            "allowMultipleAllocations": multi,
        },
    ),
    st.none() | _values,
    st.none() | _values,
    st.sampled_from(["", "1", "2Gi"]),
    st.booleans(),
)
_term = st.sampled_from(
    [
        'device.attributes["d.x"].a', 'device.attributes["o.x"]["b"]', 'device.attributes["o.x"].b', "device.driver",
        "device.allowMultipleAllocations", "dyn(1)", 'dyn("a")', "dyn(true)", 'dyn(semver("1.0.0"))',
    ]
)  # fmt: skip
_atoms = st.one_of(
    st.builds("({} {} {})".format, _term.map("dyn({})".format), st.sampled_from(["==", "!=", "<", ">="]), _term.map("dyn({})".format)),
    st.builds("({} {} {})".format, _term.filter(lambda t: "[" in t), st.sampled_from(["==", "!="]), st.sampled_from(["1", "0", "'a'", "true"])),
    st.builds("({} {} {})".format, _term.filter(lambda t: "[" in t), st.sampled_from(["<", ">="]), st.sampled_from(["1", "'a'"])),
    st.builds("({} in {})".format, _term.filter(lambda t: "[" in t), st.sampled_from(["['a', 'b']", "[0, 1]", "[true]"])),
    st.sampled_from(
        [
            '"a" in device.attributes["d.x"]', 'has(device.attributes["o.x"].b)', '"o.x" in device.attributes',
            'device.capacity["d.x"].m.compareTo(quantity("1")) > 0', 'device.attributes["d.x"].a.isGreaterThan(semver("1.0.0"))',
            'device.attributes["d.x"].a.startsWith("a")', 'device.attributes["d.x"].a', 'device.attributes["o.x"].b.compareTo(semver("1.0.0")) <= 0',
            'cel.bind(q, device.attributes["d.x"], q.a == 1)',
        ]
    ),
)  # fmt: skip
_selectors = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["&&", "||"]), inner),
        st.builds("!({})".format, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
    ),
    max_leaves=5,
)


@settings(max_examples=200, deadline=None)
@given(_selectors, _devices)
def test_generated_code_agrees_with_the_exact_program(expression: str, device: Device) -> None:
    try:
        selector = compile(expression)
    except CompileError:
        return
    exact = selector.outcome(device)
    for _ in range(2):
        try:
            found: object = selector.matches(device)
        except EvaluationError as failed:
            found = failed.message
        assert found == (exact.error.message if exact.error is not None else exact.match)
