"""What one rule allows, and what rules cover."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.user import UserInfo
from dray.server.auth.authorizer import Attributes
from dray.server.auth.rbac import PolicyRule, uncovered
from dray.server.auth.rbac.escalation import compact_rules

USER = UserInfo("alice")


def asks(verb: str, resource: str, *, group: str = "", sub: str = "", name: str = "") -> Attributes:
    return Attributes(USER, verb, group, "v1", resource, sub, "default", name)


@pytest.mark.parametrize(
    ("rule", "attributes", "allowed"),
    [
        (PolicyRule(("get",), ("",), ("pods",)), asks("get", "pods"), True),
        (PolicyRule(("get",), ("",), ("pods",)), asks("get", "pods", sub="log"), False),
        (PolicyRule(("get",), ("",), ("pods/log",)), asks("get", "pods", sub="log"), True),
        (PolicyRule(("get",), ("",), ("pods/log",)), asks("get", "pods"), False),
        (PolicyRule(("get",), ("",), ("*/scale",)), asks("get", "deployments", sub="scale"), True),
        (PolicyRule(("get",), ("",), ("*/scale",)), asks("get", "deployments"), False),
        (PolicyRule(("get",), ("",), ("pods/*",)), asks("get", "pods", sub="log"), False),
        (PolicyRule(("*",), ("*",), ("*",)), asks("anything", "x", group="y", sub="z"), True),
        (PolicyRule(("get",), ("apps",), ("pods",)), asks("get", "pods"), False),
        (PolicyRule(("get",), ("",), ("pods",), ("a",)), asks("get", "pods", name="a"), True),
        (PolicyRule(("get",), ("",), ("pods",), ("a",)), asks("get", "pods", name="b"), False),
        (PolicyRule(("list",), ("",), ("pods",), ("a",)), asks("list", "pods"), False),
        (PolicyRule(("get",), urls=("/healthz/*",)), Attributes(USER, "get", path="/healthz/etcd"), True),
        (PolicyRule(("get",), urls=("/healthz/*",)), Attributes(USER, "get", path="/healthz"), False),
        (PolicyRule(("get",), urls=("/healthz",)), Attributes(USER, "post", path="/healthz"), False),
        (PolicyRule(("get",), urls=("*",)), asks("get", "pods"), False),
    ],
)
def test_a_rule_allows_what_it_says_and_no_more(
    rule: PolicyRule, attributes: Attributes, allowed: bool
) -> None:
    assert rule.allows(attributes) is allowed


WORDS = st.lists(st.sampled_from(["a", "b", "a/x", "*", "*/x"]), min_size=1, max_size=3, unique=True).map(
    tuple
)
RULES = st.builds(
    PolicyRule, WORDS, WORDS, WORDS, st.lists(st.sampled_from(["n", "m"]), max_size=2).map(tuple)
)


@given(RULES)
def test_a_rule_covers_itself(rule: PolicyRule) -> None:
    assert not uncovered([rule], [rule])


@given(st.lists(RULES, max_size=3), RULES, st.sampled_from(["a", "b"]), st.sampled_from(["", "x"]))
def test_who_holds_what_is_covered_can_do_all_of_it(
    owned: list[PolicyRule], wanted: PolicyRule, word: str, sub: str
) -> None:
    if uncovered(owned, [wanted]):
        return
    for name in ("", "n", "m"):
        asked = asks(word, "a", group=word, sub=sub, name=name)
        assert not wanted.allows(asked) or any(rule.allows(asked) for rule in owned)


def test_what_is_missing_is_told_thing_by_thing() -> None:
    owned = [PolicyRule(("get",), ("",), ("pods",))]
    missing = uncovered(owned, [PolicyRule(("get", "delete", "patch"), ("",), ("pods",))])
    assert [str(rule) for rule in compact_rules(missing)] == [
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete" "patch"]}'
    ]
