"""Probes count as pods say."""

from __future__ import annotations

import asyncio

import grpc.aio
import pytest

from dray.node.prober import ResultCounter, grpc_check, http_get


def test_results_are_reported_at_thresholds_and_on_change() -> None:
    counter = ResultCounter({"failureThreshold": 2, "successThreshold": 2}, initially=False)
    assert [counter.add(ok) for ok in (True, True, True, False, False, True, True)] == [
        False, True, False, False, True, False, True,
    ]  # fmt: skip


def test_a_liveness_probe_that_keeps_failing_keeps_saying_so() -> None:
    counter = ResultCounter({"failureThreshold": 1}, initially=True)
    assert [counter.add(False), counter.add(False)] == [True, True]


async def _serve(answer: bytes) -> tuple[asyncio.Server, int]:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


async def test_http_statuses_from_200_to_399_are_good() -> None:
    for answer, good in ((b"HTTP/1.1 204 No Content\r\n\r\n", True), (b"HTTP/1.1 503 Busy\r\n\r\n", False)):
        server, port = await _serve(answer)
        outcome = await http_get({"path": "/healthz"}, port, "127.0.0.1")
        assert outcome.ok is good
        server.close()
    assert outcome.text == "HTTP probe failed with statuscode: 503"


@pytest.mark.parametrize(
    ("service", "sent"),
    [("", b""), ("liveness", b"\x0a\x08liveness"), ("s" * 300, b"\x0a\xac\x02" + b"s" * 300)],
)
async def test_grpc_health_is_asked_in_its_own_protocol(service: str, sent: bytes) -> None:
    async def check(request: bytes, context: object) -> bytes:
        assert request == sent
        return b"\x08\x01"

    handler = grpc.method_handlers_generic_handler(
        "grpc.health.v1.Health", {"Check": grpc.unary_unary_rpc_method_handler(check)}
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    assert (await grpc_check("127.0.0.1", port, service)).ok
    await server.stop(None)
    assert not (await grpc_check("127.0.0.1", port, service)).ok
