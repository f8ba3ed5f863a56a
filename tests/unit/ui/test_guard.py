from __future__ import annotations

import pytest

from dray.ui.guard import HEADERS, Guard, cookie_name
from dray.wire.messages import Headers, Query, Request

LOOPBACK = Guard.of("secret", listen="127.0.0.1")
OWN = {"host": "127.0.0.1:8010", "authorization": "Bearer secret"}


def ask(path: str = "/", *, method: str = "GET", query: str = "", **headers: str) -> Request:
    pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return Request(method, path, Query(query), Headers(pairs))


def code(guard: Guard, request: Request) -> int:
    refused = guard.refuse(request)
    return 200 if refused is None else refused.code


@pytest.mark.parametrize("host", ["127.0.0.1:8010", "localhost:9000", "[::1]:8010", "LOCALHOST", "127.0.0.1"])
def test_loopback_names_are_answered(host: str):
    assert code(LOOPBACK, ask(**{**OWN, "host": host})) == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8010", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil.example", ""],
)
def test_foreign_names_are_refused(host: str):
    assert code(LOOPBACK, ask(**{**OWN, "host": host})) == 403


def test_a_server_beyond_loopback_answers_to_addresses_and_names_it_was_told():
    guard = Guard.of("secret", listen="0.0.0.0", hosts=("dash.example",))
    assert code(guard, ask(**{**OWN, "host": "10.0.0.1:80"})) == 200
    assert code(guard, ask(**{**OWN, "host": "DASH.example"})) == 200
    assert code(guard, ask(**{**OWN, "host": "evil.example"})) == 403


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Basic secret"}, 401),
        ({"authorization": "bearer secret"}, 200),
        ({"cookie": "dray-ui-8010=secret"}, 200),
        ({"cookie": "a=b; dray-ui-8010=secret"}, 200),
        ({"cookie": "dray-ui-8011=secret"}, 401),  # the cookie of another dashboard of this machine
        ({"cookie": "dray-ui-8010="}, 401),
    ],
)
def test_only_the_token_opens(headers: dict[str, str], expected: int):
    assert code(LOOPBACK, ask(host="127.0.0.1:8010", **headers)) == expected


def test_the_token_in_the_address_is_kept_in_a_cookie_that_scripts_and_other_sites_cannot_use():
    request = ask(query="token=secret", host="127.0.0.1:8010")
    assert code(LOOPBACK, request) == 200
    cookie = LOOPBACK.cookie(request)
    assert cookie == ("Set-Cookie", "dray-ui-8010=secret; Path=/; HttpOnly; SameSite=Strict")
    assert LOOPBACK.cookie(ask(query="token=other", host="127.0.0.1:8010")) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:3000"},  # another server of this machine, whose pages share our cookies
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_requests_of_other_pages_are_refused_even_with_the_token(headers: dict[str, str]):
    assert code(LOOPBACK, ask("/api/stream", **OWN, **headers)) == 403


def test_a_link_may_lead_to_the_page_but_not_to_its_data():
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    assert code(LOOPBACK, ask("/", **OWN, **link)) == 200
    assert code(LOOPBACK, ask("/api/object", **OWN, **link)) == 403


def test_our_own_page_is_answered():
    own = {"origin": "http://127.0.0.1:8010", "sec_fetch_site": "same-origin"}
    assert code(LOOPBACK, ask("/api/whatif", method="POST", **OWN, **own)) == 200


@pytest.mark.parametrize("path", ["/../etc/passwd", "/page/../../x", "/..", "/a\\b", "/a\0b"])
def test_paths_that_climb_are_refused(path: str):
    assert code(LOOPBACK, ask(path, **OWN)) == 400


def test_the_policy_allows_files_of_this_server_alone():
    policy = dict(HEADERS)["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_dashboards_on_different_ports_have_different_cookies():
    assert cookie_name("localhost:1") != cookie_name("localhost:2")
