"""A client's end of a connection to a server that may send without end."""

from __future__ import annotations

from dray.wire.client_connection import ClientConnection
from tests.support.http_bytes import FakeTransport


class Transport(FakeTransport):
    aborted = False

    def abort(self) -> None:
        self.aborted = self.closing = True


def connected() -> tuple[ClientConnection, Transport]:
    connection, transport = ClientConnection(), Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    return connection, transport


async def test_an_answer_that_has_not_ended_is_cut_off_without_reading_its_rest() -> None:
    for rest, aborted in ((b"x", True), (b"x" * 10, False)):
        connection, transport = connected()
        connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + rest)
        assert (await connection.head()).status == 200
        connection.close()
        assert (transport.closing, transport.aborted) == (True, aborted)


async def test_a_server_that_sends_faster_than_is_read_waits() -> None:
    connection, transport = connected()
    connection.hold_at_most(1000)
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + b"x" * 900)
    assert not transport.paused
    connection.data_received(b"x" * 900)
    assert transport.paused
    assert len(await connection.read() or b"") == 1800
    assert not transport.paused
