"""Label and field selectors: parsing, printing, matching, and upstream's words for mistakes."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api import selectors
from dray.api.selectors import (
    EVERYTHING,
    NOTHING,
    FieldSelector,
    LabelSelector,
    Requirement,
    format_label_selector,
    label_selector,
    parse_field_selector,
    parse_label_selector,
)

LABELS = {"app": "web", "tier": "front", "size": "5", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web , tier", True),
        ("app!=web", False),
        ("other!=x", True),
        ("app in (web,db)", True),
        ("app in (db)", False),
        ("app notin (db)", True),
        ("other notin (db)", True),
        ("app", True),
        ("!app", False),
        ("!other", True),
        ("size>4", True),
        ("size<5", False),
        ("app>4", False),
        ("empty=", True),
        ("empty in ()", True),
        ("in in (in,notin)", False),
    ],
)
def test_a_selector_matches_labels(text: str, matches: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("=", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b,,c", "found ',', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, "
            "the value must be an integer",
        ),
    ],
)
def test_a_mistake_is_described_as_upstream_describes_it(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_label_selector(text)
    assert str(caught.value) == words


def test_keys_and_values_must_be_labels() -> None:
    with pytest.raises(ValueError, match='<nil>: Invalid value: "a/b/c": a valid label key'):
        parse_label_selector("a/b/c=d")
    with pytest.raises(ValueError, match=r'values\[0\]\[a\]: Invalid value: "%": a valid label must'):
        parse_label_selector("a=%")


_words = st.sampled_from(["a", "b", "example.com/c", "in", "x1"])
_requirements = st.one_of(
    st.builds(
        Requirement, _words, st.sampled_from(["=", "==", "!="]), st.tuples(st.sampled_from(["", "v", "w"]))
    ),
    st.builds(
        lambda key, operator, values: Requirement(key, operator, tuple(sorted(values))),
        _words,
        st.sampled_from(["in", "notin"]),
        st.sets(st.sampled_from(["v", "w", "notin"]), min_size=1),
    ),
    st.builds(Requirement, _words, st.sampled_from(["exists", "!"])),
)


@given(st.lists(_requirements, max_size=4))
def test_what_is_printed_parses_back(requirements: list[Requirement]) -> None:
    selector = LabelSelector(tuple(sorted(requirements, key=lambda r: r.key)))
    assert parse_label_selector(str(selector)) == selector


@given(
    st.lists(_requirements, max_size=3),
    st.dictionaries(_words, st.sampled_from(["", "v", "w"])),
)
def test_a_selector_matches_when_each_requirement_does(
    requirements: list[Requirement], labels: dict[str, str]
) -> None:
    selector = LabelSelector(tuple(requirements))
    assert selector.matches(labels) == all(r.matches(labels) for r in requirements)


@given(st.text(max_size=20))
def test_no_text_can_do_worse_than_be_refused(text: str) -> None:
    for parse in (parse_label_selector, parse_field_selector):
        try:
            assert str(parse(text)) is not None
        except ValueError as e:
            assert str(e)


def test_a_selector_object_means_what_its_parts_mean() -> None:
    assert label_selector(None) is NOTHING
    assert not NOTHING.matches(LABELS)
    assert label_selector({}) is EVERYTHING
    selector: dict[str, Any] = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "tier", "operator": "In", "values": ["front", "back"]}],
    }
    found = label_selector(selector)
    assert found.matches(LABELS)
    assert not found.matches({"app": "web"})
    assert str(found) == "app=web,tier in (back,front)"
    assert format_label_selector(selector) == "app=web,tier in (back,front)"
    assert format_label_selector({}) == "<none>"
    assert format_label_selector({"matchExpressions": [{"key": "a", "operator": "Near"}]}) == "<error>"
    assert selectors.from_labels({"b": "2", "a": "1"}).matches({"a": "1", "b": "2", "c": "3"})


def test_field_selectors_compare_with_what_the_object_says() -> None:
    found = parse_field_selector("metadata.name=a,spec.nodeName!=n")
    assert found.required("metadata.name") == "a"
    assert found.required("spec.nodeName") is None
    assert found.matches(lambda name: {"metadata.name": "a", "spec.nodeName": ""}[name])
    assert not found.matches(lambda name: "n")
    assert FieldSelector().empty


def test_field_selectors_escape_their_special_characters() -> None:
    found = parse_field_selector(r"a=b\,c\=d\\e,f==g")
    assert [(t.field, t.value) for t in found.terms] == [("a", "b,c=d\\e"), ("f", "g")]
    assert parse_field_selector(str(found)) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ("a=\\x", "invalid field selector: invalid escape sequence: \\x"),
    ],
)
def test_mistakes_in_field_selectors_are_named(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_field_selector(text)
    assert str(caught.value) == words


@pytest.mark.parametrize("parse", [parse_label_selector, parse_field_selector])
def test_a_selector_longer_than_anybody_needs_is_refused(parse: Any):
    with pytest.raises(ValueError, match="at most 16384 are read"):
        parse("a=" + "b" * selectors.LONGEST)


def test_symbols_are_read_in_one_pass():
    def cost(length: int) -> float:
        costs = []
        for _ in range(10):
            started = time.process_time()
            with pytest.raises(ValueError, match="expected: !, identifier"):
                parse_label_selector("=!" * (length // 2))
            costs.append(time.process_time() - started)
        return min(costs)

    # Eight times the symbols: one pass takes some eight times as long, a pass for each symbol 64 times.
    assert cost(selectors.LONGEST) < 24 * cost(selectors.LONGEST // 8)


def test_long_selectors_are_not_kept():
    text = ",".join(f"key{i}" for i in range(100))
    assert parse_label_selector(text) is not parse_label_selector(text)
    assert parse_label_selector("app=web") is parse_label_selector("app=web")
