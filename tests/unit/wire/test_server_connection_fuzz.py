"""Requests as bytes: split anywhere, pipelined, mutated. What reaches the handler never depends on the segments."""

from __future__ import annotations

import itertools
import random

import pytest

from dray.wire.messages import Limits
from tests.support.http_bytes import Exchange

BODY = b"DELETE /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
CORPUS = (
    b"GET /a?b=c HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n",
    b"FOO /odd HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\r\nHEAD /h HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY,
    b"BAR /q HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY,
    b"PUT /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"%x;e=1\r\n" % len(BODY) + BODY + b"\r\n3\r\nabc\r\n0\r\nAuthorization: a\r\n\r\n",
    b"GET /u HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: none\r\n\r\n",
    b"POST /e HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi",
)
LIMITS = Limits(body_bytes=2000, header_bytes=1000)
ANSWERS = {100, 200, 400, 408, 413, 431, 501, 505}
INTERESTING = (
    b"\r\n",
    b"\n",
    b"\r\n\r\n",
    b" ",
    b":",
    b"0",
    b"\x00",
    b"\xff",
    b"Content-Length: 5\r\n",
    b"GET /",
    *CORPUS,
)


async def outcome(pieces: list[bytes]) -> tuple[list[tuple[str, str, bytes]], list[int]]:
    exchange = Exchange(LIMITS)
    await exchange.feed(pieces)
    codes = [code for code in exchange.codes if code != 100]
    assert set(codes) <= ANSWERS
    for request in exchange.requests:
        assert "authorization" not in request.headers
    exchange.lose()
    await exchange.settle()
    assert exchange.server._held == 0
    return exchange.seen, codes


def mutated(rng: random.Random, data: bytes) -> bytes:
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        to = min(len(data), at + rng.choice((0, 1, 1, 2, 8)))
        data = data[:at] + rng.choice(INTERESTING) + data[to:]
    return data


def split(rng: random.Random, data: bytes) -> list[bytes]:
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randint(0, 6)))
    return [data[a:b] for a, b in itertools.pairwise([0, *cuts, len(data)]) if a < b]


@pytest.mark.parametrize("request_", CORPUS)
async def test_a_request_is_the_same_however_it_is_split(request_):
    whole = await outcome([request_])
    assert len(whole[0]) == 1 and whole[1] == [200]
    assert await outcome([bytes([byte]) for byte in request_]) == whole
    for at in range(1, len(request_)):
        assert await outcome([request_[:at], request_[at:]]) == whole


@pytest.mark.parametrize("pair", [*itertools.product(range(len(CORPUS)), repeat=2)])
async def test_two_pipelined_requests_are_the_same_however_they_are_split(pair):
    first, second = (CORPUS[i] for i in pair)
    expected = (await outcome([first]))[0] + (await outcome([second]))[0]
    stream = first + second
    for at in range(0, len(stream), 3):
        assert (await outcome([stream[:at], stream[at:]]))[0] == expected


@pytest.mark.parametrize("seed", range(20))
async def test_mutated_requests_are_the_same_however_they_are_split(seed):
    rng = random.Random(seed)
    for _ in range(60):
        data = mutated(rng, b"".join(rng.choices(CORPUS, k=rng.randint(1, 4))))
        whole = await outcome([data])
        for _ in range(3):
            pieces = split(rng, data)
            assert await outcome(pieces) == whole, pieces
