"""YAML as Kubernetes reads it, and documents made to hurt their reader."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import pytest

from dray.api import yamldocs

CHAIN = b"a0: &a0 {x: 1}\n" + b"".join(
    b"a%d: &a%d {<<: [*a%d,*a%d]}\n" % (n, n, n - 1, n - 1) for n in range(1, 60)
)
LAUGHS = b"a0: &a0 [x]\n" + b"".join(b"a%d: &a%d [*a%d,*a%d]\n" % (n, n, n - 1, n - 1) for n in range(1, 60))
DEEPER = b"a0: &a0 [x]\n" + b"".join(b"a%d: &a%d [*a%d]\n" % (n, n, n - 1) for n in range(1, 400))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", {"a": 1}), ("a: 0x1F", {"a": 31}), ("a: 0b11", {"a": 3}), ("a: 017", {"a": 15}), ("a: 0o17", {"a": 15}),
        ("a: -1_000", {"a": -1000}), ("a: 1e3", {"a": 1000.0}), ("a: 1.5", {"a": 1.5}), ("a: 22:22", {"a": "22:22"}),
        (f"a: 0x{'f' * 40}", {"a": "0x" + "f" * 40}), ("a: 18446744073709551615", {"a": 2**64 - 1}),
        ("a: 18446744073709551616", {"a": 1.8446744073709552e19}), ("a: " + "9" * 5000, {"a": "9" * 5000}),
        ("a: yes", {"a": True}), ("a: 'yes'", {"a": "yes"}), ("a: ~", {"a": None}), ("a:", {"a": None}), ("", None),
        ("a: 2001-01-01", {"a": "2001-01-01"}), ("1: a\ntrue: b", {"1": "a", "true": "b"}), ("- [a, {b: c}]", [["a", {"b": "c"}]]),
        ("a: !!str 1", {"a": "1"}), ("a: !!float 1", {"a": 1.0}), ("a: !!binary aGk=", {"a": "aGk="}),
        ("a: &x {k: 1}\nb: {<<: *x, k: 2, l: 3}", {"a": {"k": 1}, "b": {"k": 2, "l": 3}}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
    ],
)  # fmt: skip
def test_values_are_those_of_json(text: str, value: Any):
    assert yamldocs.load(text) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: !!bool x", "cannot decode !!str `x` as a !!bool"), ("a: !!int x", "as a !!int"), ("a: !!set {b}", "tag"),
        ("a: .inf", "json: unsupported value: +Inf"), ("[a]: b", "invalid map key"), ("a: *b", "unknown anchor 'b'"),
        ("a: &a [*a]", "anchor 'a' value contains itself"), ("a: {<<: 1}", "map merge requires"), ("a: [", "line"),
        ("a: !!binary x", "invalid base64"), ("a: \x01", "control characters"), ("~: a", "invalid map key"),
    ],
)  # fmt: skip
def test_what_json_cannot_hold_is_refused(text: str, words: str):
    with pytest.raises(yamldocs.InvalidYAML) as refused:
        yamldocs.load(text)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "data",
    [
        b"a: " + b"[" * 30_000, b"a: " + b"{a: " * 30_000, b"- " * 30_000, CHAIN, LAUGHS, DEEPER,
        b"a: &a " + b"x" * (1 << 20) + b"\nb: [" + b"*a," * 1000 + b"]",
    ],
    ids=["lists", "mappings", "blocks", "merges", "laughs", "aliased depth", "aliased text"],
)  # fmt: skip
def test_a_bomb_is_refused_in_less_time_than_a_plain_document_of_its_limits_takes(data: bytes):
    def bomb() -> None:
        for read in (yamldocs.load, yamldocs.check):
            with pytest.raises(yamldocs.TooLarge):
                read(data)

    plain = b"a: [" + b"x, " * 50_000 + b"]"
    assert _seconds(bomb) < 5 * _seconds(lambda: yamldocs.load(plain))


def _seconds(work: Callable[[], object]) -> float:
    """Processor time without that of the garbage collector, which depends on what other tests have left behind."""
    gc.disable()
    try:
        started = time.process_time()
        work()
        return time.process_time() - started
    finally:
        gc.enable()


def test_an_alias_is_a_copy():
    found = yamldocs.load("a: &x [1]\nb: *x")
    found["a"].append(2)
    assert found["b"] == [1]


def test_keys_that_occur_twice_are_told():
    found = yamldocs.load_document("a: 1\nb: 2\na: 3")
    assert found == ({"a": 3, "b": 2}, ['line 3: key "a" already set in map'])
