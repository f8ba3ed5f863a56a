"""Checks of names, in upstream's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.validation import names

Check = Callable[[str], Sequence[str]]

GOOD: list[tuple[Check, list[str]]] = [
    (names.dns1123_label, ["a", "a-b", "0", "a" * 63]),
    (names.dns1123_subdomain, ["a", "a.b-c.d", "1.2", "a" * 253]),
    (names.dns1123_subdomain_caseless, ["Example.com"]),
    (names.dns1123_subdomain_with_underscore, ["_sip.example.com"]),
    (names.dns1035_label, ["a", "my-name"]),
    (names.qualified_name, ["MyName", "example.com/my.name", "a_b", "a" * 253 + "/" + "b" * 63]),
    (names.label_value, ["", "MyValue", "my_value", "12345", "a" * 63]),
    (names.c_identifier, ["my_name", "_x1"]),
    (names.config_map_key, ["key.name", "KEY_NAME", ".hidden"]),
    (names.env_var_name, ["my.env-name", "MY_ENV.NAME"]),
    (names.relaxed_env_var_name, ["a b$"]),
    (names.port_name, ["http", "a-1"]),
    (names.percent, ["0%", "93%"]),
    (names.http_header_name, ["X-Header-Name"]),
    (names.condition_reason, ["ReasonA,ReasonB", "A"]),
    (names.path_segment, ["anything goes", ""]),
]
BAD: list[tuple[Check, list[str]]] = [
    (names.dns1123_label, ["", "A", "-a", "a-", "a.b", "a" * 64, "a\n", "ä"]),
    (names.dns1123_subdomain, ["", "A", "a..b", ".a", "a" * 254]),
    (names.dns1035_label, ["1a", "", "a" * 64]),
    (names.qualified_name, ["", "a/b/c", "/a", "a/", "A/b", "-a", "x/" + "b" * 64]),
    (names.label_value, ["-", "a b", "a" * 64]),
    (names.c_identifier, ["1a", "a-b", ""]),
    (names.config_map_key, ["", "a/b", ".", "..", "..a", "a" * 254]),
    (names.env_var_name, ["1a", "a=b"]),
    (names.relaxed_env_var_name, ["", "a=b", "ü"]),
    (names.port_name, ["", "1", "a--b", "-a", "a-", "a" * 16, "A"]),
    (names.percent, ["1", "%", "-1%"]),
    (names.http_header_name, ["", "a b"]),
    (names.condition_reason, ["", "1", "a-"]),
    (names.path_segment, [".", "..", "a/b", "a%b"]),
]


@pytest.mark.parametrize(("check", "values"), GOOD)
def test_good_names_pass_in_silence(check: Check, values: list[str]) -> None:
    assert [value for value in values if check(value)] == []


@pytest.mark.parametrize(("check", "values"), BAD)
def test_bad_names_are_complained_about(check: Check, values: list[str]) -> None:
    assert [value for value in values if not check(value)] == []


@given(st.text(alphabet="aA0-_./ ", max_size=70))
def test_a_subdomain_is_labels_joined_by_dots(text: str) -> None:
    if not names.dns1123_subdomain(text):
        assert all(not names.dns1123_label(part) or len(part) > 63 for part in text.split("."))
    if not names.dns1123_label(text):
        assert not names.dns1123_subdomain(text)
        assert not names.qualified_name(text)


def test_complaints_have_upstreams_words() -> None:
    assert names.dns1123_label("a.b") == ["must not contain dots"]
    assert names.dns1123_label("a" * 64) == ["must be no more than 63 characters"]
    assert names.dns1123_label("A") == [
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
        "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    ]
    assert names.label_value("a" * 64) == ["must be no more than 63 bytes"]
    assert names.qualified_name("/a") == ["prefix part must be non-empty"]
    assert names.qualified_name("")[0] == "name part must be non-empty"
    assert names.path_segment("..") == ("may not be '..'",)


def test_lengths_are_counted_in_bytes() -> None:
    assert names.label_value("ü" * 32)[0] == "must be no more than 63 bytes"
    assert names.size("ü") == 2


@pytest.mark.parametrize("check", [check for check, _ in GOOD])
def test_a_very_long_name_is_judged_at_once(check: Check) -> None:
    check("a-" * 100_000 + "!")
