"""The agent's own endpoint, asked as an API server elsewhere would."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dray.api.errors import BadRequest, Forbidden, NotFound, Unauthorized
from dray.client.config import Config
from dray.client.http import HttpTransport
from dray.node.server.authorization import Delegated
from dray.node.server.endpoint import Endpoint, allowed_by_certificate
from dray.node.server.host import PodLogOptions
from dray.runtimes.interface import Output


class Echo:
    def __init__(self, command: Sequence[str]) -> None:
        self._queue: asyncio.Queue[Output | None] = asyncio.Queue()
        self._queue.put_nowait(Output("stdout", " ".join(command).encode()))

    async def output(self) -> AsyncIterator[Output]:
        while (piece := await self._queue.get()) is not None:
            yield piece

    async def write(self, data: bytes) -> None:
        self._queue.put_nowait(Output("stderr", data))

    async def close_input(self) -> None:
        self._queue.put_nowait(None)

    async def resize(self, *, rows: int, columns: int) -> None: ...

    async def wait(self) -> int:
        return 7

    async def close(self) -> None: ...


class Proxy:
    """A node with one pod."""

    def pod(self, namespace: str, name: str) -> Any:
        if (namespace, name) != ("ns", "p"):
            raise NotFound(f'pods "{name}" not found')
        return {"metadata": {"name": "p"}}

    def pods(self, node: str = "") -> list[Any]:
        return [{"metadata": {"name": "p"}}]

    def metrics(self) -> str:
        return "dra_x 1\n"

    def logs(self, pod: Any, container: str, query: PodLogOptions) -> AsyncIterator[bytes]:
        async def pieces() -> AsyncIterator[bytes]:
            yield f"log of {container}\n".encode()
            yield f"tail={query.options.tail} follow={query.options.follow}\n".encode()

        return pieces()

    def check_running(self, pod: Any, container: str = "") -> None: ...

    async def exec(self, pod: Any, container: str, command: Sequence[str], *, tty: bool, stdin: bool) -> Any:
        return Echo(command)


async def _serving(**options: Any) -> tuple[Endpoint, HttpTransport]:
    endpoint = Endpoint(Proxy(), context=None, **{"allowed": lambda certificate: True, **options})  # type: ignore[arg-type]
    listener = socket.create_server(("127.0.0.1", 0))
    await endpoint.start(listener)
    return endpoint, HttpTransport(Config(server=f"http://127.0.0.1:{listener.getsockname()[1]}"))


async def test_logs_are_streamed_with_the_kubelets_parameters() -> None:
    endpoint, client = await _serving()
    async with client.stream(
        "/containerLogs/ns/p/main", query={"tailLines": "5", "follow": "true"}
    ) as pieces:
        text = b"".join([piece async for piece in pieces])
    assert text == b"log of main\ntail=5 follow=True\n"
    await client.close()
    await endpoint.stop()


async def test_commands_run_over_a_websocket() -> None:
    endpoint, client = await _serving()
    query = [("command", "ls"), ("command", "-l"), ("input", "1"), ("output", "1")]
    async with client.upgrade("/exec/ns/p/main", query=query, subprotocols=["v5.channel.k8s.io"]) as socket:
        assert await socket.receive() == b"\x01"  # the session is open
        assert await socket.receive() == b"\x01ls -l"
        await socket.send(b"\x00typed")
        assert await socket.receive() == b"\x02typed"
        await socket.send(b"\xff\x00")
        status = await socket.receive()
        assert status is not None
        assert json.loads(status[1:])["details"]["causes"][0]["message"] == "7"
    await client.close()
    await endpoint.stop()


async def test_other_paths_and_invalid_requests() -> None:
    endpoint, client = await _serving()
    assert (await client.request("GET", "/healthz")).body in (b"ok", "ok")
    assert (await client.request("GET", "/pods")).object["items"] == [{"metadata": {"name": "p"}}]
    with pytest.raises(NotFound, match='pods "q" not found'):
        await client.request("GET", "/containerLogs/ns/q/main")
    with pytest.raises(BadRequest, match="Upgrade request required"):
        await client.request("GET", "/exec/ns/p/main", query={"command": "ls"})
    await client.close()
    await endpoint.stop()


async def test_only_api_servers_and_administrators_may_ask() -> None:
    endpoint, client = await _serving(allowed=allowed_by_certificate)
    with pytest.raises(Forbidden):
        await client.request("GET", "/pods")
    await client.close()
    await endpoint.stop()
    good = certificate((NameOID.COMMON_NAME, "kube-apiserver-kubelet-client"))
    admin = certificate((NameOID.ORGANIZATION_NAME, "system:masters"), (NameOID.COMMON_NAME, "admin"))
    node = certificate((NameOID.ORGANIZATION_NAME, "system:nodes"), (NameOID.COMMON_NAME, "system:node:las1"))
    hidden = certificate(
        (NameOID.COMMON_NAME, "kube-apiserver-kubelet-client"), (NameOID.COMMON_NAME, "system:node:las1")
    )
    asking = (good, admin, node, hidden, None)
    assert [allowed_by_certificate(c) for c in asking] == [True, True, False, False, False]


def certificate(*subject: tuple[x509.ObjectIdentifier, str]) -> bytes:
    """A certificate in DER, signed by itself."""
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in subject])
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
    builder = builder.serial_number(1).not_valid_before(datetime(2026, 1, 1))
    signed = builder.not_valid_after(datetime(2027, 1, 1)).sign(key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.DER)


async def test_the_api_server_decides_about_clients_with_a_token() -> None:
    """A node knows no users: it asks who they are and what they may do with it."""
    asked: list[str] = []

    class Server:
        async def request(self, method: str, path: str, *, body: Any) -> Any:
            asked.append(path.rpartition("/")[2])
            if "tokenreviews" in path:
                user = {"good": "reader", "poor": "stranger"}.get(body["spec"]["token"])
                status: Any = {"authenticated": user is not None, "user": {"username": user or ""}}
            else:
                wanted = body["spec"]["resourceAttributes"]
                assert (wanted["resource"], wanted["subresource"], wanted["name"]) == (
                    "nodes",
                    "metrics",
                    "n1",
                )
                status = {"allowed": body["spec"]["user"] == "reader"}
            return SimpleNamespace(object={"status": status})

    delegated = Delegated(Server(), "n1")  # type: ignore[arg-type]
    endpoint, plain = await _serving(allowed=allowed_by_certificate, delegated=delegated)
    for token, expected in (
        ("", Unauthorized),
        ("forged", Unauthorized),
        ("poor", Forbidden),
        ("good", None),
    ):
        client = HttpTransport(replace(plain.config, token=token))
        if expected is None:
            for _ in range(2):
                assert b"dra_x" in (await client.request("GET", "/metrics")).body
        else:
            with pytest.raises(expected):
                await client.request("GET", "/metrics")
        await client.close()
    assert asked == ["tokenreviews"] * 2 + ["subjectaccessreviews", "tokenreviews", "subjectaccessreviews"]
    await plain.close()
    await endpoint.stop()


async def test_methods_that_no_kubelet_has_are_refused() -> None:
    from dray.api.errors import MethodNotAllowed

    endpoint, client = await _serving()
    with pytest.raises(MethodNotAllowed):
        await client.request("DELETE", "/pods")
    await client.close()
    await endpoint.stop()


async def test_a_session_ends_when_its_client_has_heard_of_the_end() -> None:
    endpoint, client = await _serving()
    query = [("command", "ls"), ("input", "1"), ("output", "1")]
    async with client.upgrade("/exec/ns/p/main", query=query, subprotocols=["v5.channel.k8s.io"]) as socket:
        await socket.send(b"\xff\x00")
        while await socket.receive() is not None:
            pass
    async with asyncio.timeout(5):
        while endpoint._server.connections:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    await client.close()
    await endpoint.stop()


def test_times_of_log_queries_compare_with_lines_of_the_log() -> None:
    query = PodLogOptions.of(lambda n: {"sinceTime": "2026-01-01T00:00:04Z"}.get(n, ""), now=0)
    assert query.options.since == "2026-01-01T00:00:04.000000000Z"
    with pytest.raises(BadRequest):
        PodLogOptions.of(lambda n: {"tailLines": "-1"}.get(n, ""), now=0)
