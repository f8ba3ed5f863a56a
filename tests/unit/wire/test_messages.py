from __future__ import annotations

import pytest

from dray.wire.messages import Headers, Query


def test_a_query_is_read_as_a_form():
    query = Query("a=1&a=2&b=x%3Dy&c&d=+z")
    assert query.get("a") == "1" and query.all("a") == ["1", "2"]
    assert (query.get("b"), query.get("c"), query.get("d"), query.get("e")) == ("x=y", "", " z", "")
    assert "c" in query and "e" not in query


@pytest.mark.parametrize(
    ("text", "value"), [("x=1", True), ("x=", True), ("x=false", False), ("x=0", False), ("", False)]
)
def test_a_flag_is_set_unless_it_says_no(text, value):
    assert Query(text).boolean("x") is value


def test_a_repeated_header_keeps_every_value():
    headers = Headers([("accept", "a"), ("impersonate-group", "x"), ("impersonate-group", "y")])
    assert headers.get("impersonate-group") == "x"
    assert headers.all("impersonate-group") == ["x", "y"]
    assert headers.all("accept") == ["a"] and headers.all("host") == []


def test_what_fields_say_is_read_once_until_there_are_more_of_them():
    headers, reads = Headers([("accept", "a")]), []

    def accept(headers: Headers) -> str | None:
        reads.append(headers)
        return headers.get("accept") or None

    assert [headers.once(accept) for _ in range(3)] == ["a"] * 3
    headers.add("accept", "b")
    assert headers.once(accept) == "a"
    assert len(reads) == 2
    nothing = Headers()
    assert [nothing.once(accept) for _ in range(2)] == [None, None]
    assert len(reads) == 3


def test_fields_with_another_length_say_the_same_otherwise():
    headers, reads = Headers([("accept", "a"), ("content-length", "1"), ("via", "x"), ("via", "y")]), []

    def accept(headers: Headers) -> str:
        reads.append(headers)
        return headers.get("accept")

    others = headers.with_length("20")
    assert (others.get("content-length"), headers.get("content-length")) == ("20", "1")
    assert others.all("via") == ["x", "y"] and list(others) == list(headers)
    assert headers.once(accept) == others.once(accept) == "a"
    assert len(reads) == 1
    assert headers.with_length("1") is headers
