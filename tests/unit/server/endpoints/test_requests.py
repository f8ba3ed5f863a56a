from __future__ import annotations

import pytest

from dray.api.errors import BadRequest
from dray.server.endpoints.requests import Request, integer
from dray.wire import messages
from dray.wire.messages import Query


@pytest.mark.parametrize("text", ["x", "1x", "", "9223372036854775808", "९"])
def test_numbers_are_checked_as_go_checks_them(text):
    if not text:
        assert integer(Query("n="), "n") is None
        return
    with pytest.raises(BadRequest, match=r"strconv\.ParseInt"):
        integer(Query(f"n={text}"), "n")


def test_the_same_warning_is_given_once():
    request = Request("GET", "/")
    request.warn("careful")
    request.warn("careful")
    assert list(request.warnings) == ["careful"]


def test_thousands_of_warnings_take_linear_time_and_a_bounded_list():
    request = Request("GET", "/")
    for number in range(150_000):
        request.warn(f"unknown field {number}")
    assert len(request.warnings) == 4096


def test_the_fields_that_the_http_server_fills_by_position_come_first():
    fields = messages.Request.__struct_fields__
    assert Request.__struct_fields__[: len(fields)] == fields
