"""Commands over SPDY."""

from __future__ import annotations

import asyncio
import json

from dray.node.streaming.remotecommand_spdy import SpdyCommand
from dray.runtimes.interface import Session
from tests.support.cable import everything, spdy_client
from tests.support.echo_session import EchoSession


def command(echo: EchoSession, *streams: str, protocol: str = "v4.channel.k8s.io") -> SpdyCommand:
    async def start() -> Session:
        return echo

    return SpdyCommand(start, protocol=protocol, streams=streams)


async def test_a_command_gets_its_streams_and_tells_its_exit_code() -> None:
    echo = EchoSession()
    client, cable = spdy_client(command(echo, "stdin", "stdout", "stderr", "resize"))
    kinds = ("error", "stdin", "stdout", "stderr", "resize")
    streams = {kind: client.open_stream({"streamType": kind}) for kind in kinds}
    await streams["resize"].write(b'{"Width":80,"Hei')
    await streams["resize"].write(b'ght":24}\n')
    await streams["stdin"].write(b"hello")
    await streams["stdin"].write(b"!oops")
    while not echo.sizes:  # noqa: ASYNC110  (bounded by the test's own limit)
        await asyncio.sleep(0.001)
    streams["stdin"].end()
    assert await everything(streams["stdout"]) == b"hello"
    assert await everything(streams["stderr"]) == b"!oops"
    status = json.loads(await everything(streams["error"]))
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert echo.sizes == [(24, 80)]
    assert echo.closed and cable.closed


async def test_old_clients_get_the_exit_status_as_text() -> None:
    client, _ = spdy_client(command(EchoSession(), "stdin", "stdout", protocol="v2.channel.k8s.io"))
    streams = {kind: client.open_stream({"streamType": kind}) for kind in ("error", "stdin", "stdout")}
    streams["stdin"].end()
    assert await everything(streams["error"]) == b"command terminated with non-zero exit code: exit status 3"


async def test_a_client_that_leaves_ends_the_command() -> None:
    echo = EchoSession()
    served = command(echo, "stdout")
    client, _ = spdy_client(served)
    for kind in ("error", "stdout"):
        client.open_stream({"streamType": kind})
    await asyncio.sleep(0.01)
    served.lost()
    while not echo.closed:  # noqa: ASYNC110  (bounded by the test's own limit)
        await asyncio.sleep(0.001)
