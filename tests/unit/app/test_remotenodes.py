"""Nodes elsewhere: where they are, what is said when they are not, and whom they let in."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.errors import InternalError, NotFound, StatusError
from dray.app import nodeserver, pki, remotenodes
from dray.app.remotenodes import Address, RemoteNodes, address_of
from dray.node.server.endpoint import Endpoint
from dray.node.server.host import PodLogOptions
from dray.wire.client_connection import HIGH_WATER
from dray.wire.http_server import HTTPServer
from dray.wire.messages import Reply, Request


def node(port: int, *addresses: tuple[str, str]) -> dict[str, Any]:
    return {
        "status": {
            "addresses": [{"type": kind, "address": address} for kind, address in addresses],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
    }


def test_a_node_is_reached_by_its_internal_address_first() -> None:
    names = (("Hostname", "las1"), ("InternalIP", "192.0.2.7"))
    assert address_of(node(10250, *names)) == Address("192.0.2.7", 10250)
    assert address_of(node(10250, ("Hostname", "las1"))) == Address("las1", 10250)
    assert address_of(node(0, *names)) is None
    assert address_of(node(10250)) is None
    assert address_of({}) is None


class Proxy:
    """A node with one pod that has said something."""

    def pod(self, namespace: str, name: str) -> Any:
        if name != "p":
            raise NotFound(f'pods "{name}" not found')
        return {"metadata": {"name": name, "uid": "u"}}

    def metrics(self) -> str:
        return "m 1\n"

    def logs(self, pod: Any, container: str, query: PodLogOptions) -> AsyncIterator[bytes]:
        async def pieces() -> AsyncIterator[bytes]:
            for number in range(query.options.tail or 0):
                yield b"%d\n" % number

        return pieces()


class Sink:
    congested = closed = False

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    async def drained(self) -> None:
        return


def keys(folder: Path) -> pki.Pki:
    return pki.ensure(folder, ["127.0.0.1"])


async def read(nodes: RemoteNodes, address: Address, path: str, **query: str) -> bytes:
    response: Any = await nodes._get(address, path, list(query.items()))
    sink = Sink()
    await response.body.stream.run(sink)
    return sink.data


def test_the_api_server_is_let_in_by_its_certificate_and_others_are_not(tmp_path: Path) -> None:
    own, other = keys(tmp_path / "own"), keys(tmp_path / "other")

    async def play() -> None:
        listener = nodeserver.listen("127.0.0.1", 0)
        address = Address("127.0.0.1", listener.getsockname()[1])
        context = nodeserver.server_tls(
            tmp_path / "node", name="las1", address="127.0.0.1", client_ca=own.ca.read_bytes()
        )
        endpoint = Endpoint(Proxy(), context=context)  # type: ignore[arg-type]
        await endpoint.start(listener)
        friend, stranger = RemoteNodes(own), RemoteNodes(other)
        assert await read(friend, address, "/containerLogs/ns/p/main", tailLines="3") == b"0\n1\n2\n"
        assert await read(friend, address, "/metrics") == b"m 1\n"
        with pytest.raises(NotFound, match='pods "q" not found'):
            await read(friend, address, "/containerLogs/ns/q/main")
        with pytest.raises(StatusError):
            await read(stranger, address, "/metrics")
        await endpoint.stop()

    asyncio.run(play())


def test_a_node_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(InternalError, match=f"error dialing backend: dial tcp 127.0.0.1:{port}"):
        asyncio.run(read(RemoteNodes(keys(tmp_path)), Address("127.0.0.1", port), "/metrics"))


def test_an_api_server_is_not_called_as_a_node_not_even_through_a_relay(tmp_path: Path) -> None:
    own = keys(tmp_path)

    async def play() -> None:
        asked: list[Request] = []

        async def serve(request: Request) -> Reply:
            asked.append(request)
            return Reply(200, (), b"every secret")

        listener = nodeserver.listen("127.0.0.1", 0)
        server = HTTPServer(serve, request_type=Request, tls=own.context())
        await server.listen(listener)
        port = listener.getsockname()[1]

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)

            async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
                while data := await source.read(65536):
                    to.write(data)
                to.close()

            await asyncio.gather(copy(reader, up_writer), copy(up_reader, writer), return_exceptions=True)

        async with await asyncio.start_server(relay, "127.0.0.1", 0) as between:
            for announced in (port, between.sockets[0].getsockname()[1]):
                with pytest.raises(StatusError, match="is an API server, not a node"):
                    await read(RemoteNodes(own), Address("127.0.0.1", announced), "/api/v1/secrets")
        assert asked == []
        await server.drain(1)

    asyncio.run(play())


@contextlib.asynccontextmanager
async def answering(folder: Path, beginning: bytes, again: bytes) -> AsyncIterator[Address]:
    """A node that answers every request with this beginning, and then the same bytes without end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(beginning)
            while again:
                writer.write(again)
                await writer.drain()
            await reader.read()
        writer.close()

    context = nodeserver.server_tls(
        folder / "node", name="las1", address="127.0.0.1", client_ca=keys(folder).ca.read_bytes()
    )
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as node:
        yield Address("127.0.0.1", node.sockets[0].getsockname()[1])


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
CHUNK = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"


def test_an_endless_error_of_a_node_is_cut(tmp_path: Path) -> None:
    async def play() -> None:
        async with answering(tmp_path, b"HTTP/1.1 500 No\r\n" + CHUNKED, CHUNK) as address:
            with pytest.raises(StatusError) as told:
                await read(RemoteNodes(keys(tmp_path)), address, "/metrics")
            assert len(told.value.message) == 64 << 10

    asyncio.run(asyncio.wait_for(play(), 20))


def test_an_error_that_does_not_end_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remotenodes, "_ERROR_SECONDS", 0.1)

    async def play() -> None:
        async with answering(tmp_path, b"HTTP/1.1 500 No\r\n" + CHUNKED + b"3\r\nwhy\r\n", b"") as address:
            with pytest.raises(StatusError, match="why"):
                await read(RemoteNodes(keys(tmp_path)), address, "/metrics")

    asyncio.run(asyncio.wait_for(play(), 20))


@pytest.mark.parametrize("again", [b"a" * 65536, b"X-Y: z\r\n" * 5000], ids=["one value", "many headers"])
def test_endless_headers_of_a_node_end_the_connection(tmp_path: Path, again: bytes) -> None:
    async def play() -> None:
        async with answering(tmp_path, b"HTTP/1.1 200 OK\r\nX-A: ", again) as address:
            with pytest.raises(InternalError, match="headers of the answer are larger than 262144 bytes"):
                await read(RemoteNodes(keys(tmp_path)), address, "/metrics")

    asyncio.run(asyncio.wait_for(play(), 20))


def test_a_node_cannot_send_more_of_a_log_than_was_asked_for(tmp_path: Path) -> None:
    async def play() -> None:
        async with answering(tmp_path, b"HTTP/1.1 200 OK\r\n" + CHUNKED, CHUNK) as address:
            response: Any = await RemoteNodes(keys(tmp_path))._get(address, "/x", (), limit=100_000)
            sink = Sink()
            await response.body.stream.run(sink)
            assert len(sink.data) == 100_000

    asyncio.run(asyncio.wait_for(play(), 20))


def test_an_endless_log_waits_for_its_reader(tmp_path: Path) -> None:
    async def play() -> None:
        async with answering(tmp_path, b"HTTP/1.1 200 OK\r\n" + CHUNKED, b"1\r\nx\r\n" * 10_000) as address:
            connection, _ = await RemoteNodes(keys(tmp_path))._send(address, "GET", "/x", (), ())
            await asyncio.sleep(0.5)
            assert len(connection._pieces) * 64 < 2 * HIGH_WATER
            connection.close()

    asyncio.run(asyncio.wait_for(play(), 20))
