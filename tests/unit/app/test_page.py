from __future__ import annotations

import asyncio

import pytest

from dray.app.page import page


async def ask(port: int, request: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{request} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.decode()


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        ("GET /metrics", "200 OK", "some_total 1\n"),
        ("HEAD /metrics", "200 OK", ""),
        ("GET /readyz?verbose", "200 OK", "ok"),
        ("GET /other", "404 Not Found", "404 page not found\n"),
        ("POST /metrics", "405 Method Not Allowed", ""),
    ],
)
async def test_metrics_and_health_are_served(request_line: str, status: str, body: str):
    async with page("127.0.0.1", 0, lambda: "some_total 1\n") as port:
        answer = await ask(port, request_line)
    head, _, rest = answer.partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status}\r\n")
    assert rest == body
