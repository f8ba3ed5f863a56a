"""Pods in network namespaces of their own, on a bridge of this host."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dray.runtimes.interface import ContainerConfig, HostPort, RuntimeFailure, SandboxConfig, SandboxStatus
from dray.runtimes.process.runtime import ProcessRuntime
from tests.support.process import free_port
from tests.support.wait import wait_for

#: A server on every address of the pod, and what a client reads from it.
SERVER = (
    "import socket, sys; s = socket.create_server((sys.argv[1], 8080));\n"
    "while True: c = s.accept()[0]; c.sendall(sys.argv[2].encode()); c.close()"
)


@asynccontextmanager
async def networked(
    directory: Path, *, api_server: tuple[str, int] | None = None
) -> AsyncIterator[ProcessRuntime]:
    runtime = ProcessRuntime(directory / "runtime", api_server=api_server)
    await runtime.start()
    try:
        if not await runtime.node_address(0):
            pytest.skip("this host does not allow network namespaces with a bridge")
        yield runtime
    finally:
        await runtime.close(keep=False)


async def pod(
    runtime: ProcessRuntime,
    directory: Path,
    name: str,
    *command: str,
    host_network: bool = False,
    host_users: bool = True,
    ports: tuple[HostPort, ...] = (),
) -> SandboxStatus:
    sandbox = await runtime.run_sandbox(
        SandboxConfig(
            uid=name,
            name=name,
            namespace="ns",
            hostname=name,
            host_network=host_network,
            host_users=host_users,
            log_directory=directory,
            ports=ports,
            api_service=("10.96.0.1", 443),
        )
    )
    config = ContainerConfig(
        name="main", image="any", command=command or ("sleep", "60"), log_path=directory / f"{name}.log"
    )
    created = await runtime.create_container(sandbox.id, config)
    await runtime.start_container(created.id)
    return sandbox


async def read(ip: str, port: int) -> bytes:
    try:
        reader, writer = await asyncio.open_connection(ip, port)
    except ConnectionRefusedError:
        return b""
    try:
        return await reader.read()
    finally:
        writer.close()


def test_pods_that_listen_on_the_same_port_are_reached_by_their_own_addresses(tmp_path: Path) -> None:
    async def play() -> None:
        async with networked(tmp_path) as runtime:
            command = ("python3", "-c", SERVER, "0.0.0.0")
            pods = {name: await pod(runtime, tmp_path, name, *command, name) for name in ("one", "two")}
            assert pods["one"].ip != pods["two"].ip
            for name, status in pods.items():
                where = status.ip
                assert await wait_for(f"{name} on {where}", lambda w=where: read(w, 8080)) == name.encode()
            [one] = [c for c in (await runtime.list()).containers if c.name == "main" and c.pod_uid == "one"]
            script = (
                f"import socket; print(socket.create_connection(('{pods['two'].ip}', 8080)).recv(9).decode())"
            )
            seen = await runtime.exec_sync(one.id, ["python3", "-c", script], timeout=20)
            assert seen.stdout == b"two\n"

    asyncio.run(play())


def test_a_port_of_the_pods_loopback_is_forwarded(tmp_path: Path) -> None:
    async def play() -> None:
        async with networked(tmp_path) as runtime:
            sandbox = await pod(runtime, tmp_path, "shy", "python3", "-c", SERVER, "127.0.0.1", "inside")

            async def forwarded() -> bytes:
                try:
                    connection = await runtime.port_forward(sandbox.id, 8080)
                except RuntimeFailure:
                    return b""
                try:
                    return b"".join([data async for data in connection.received()])
                finally:
                    await connection.close()

            assert await wait_for("an answer from inside", forwarded) == b"inside"
            assert await read(sandbox.ip, 8080) == b""

    asyncio.run(play())


def test_pods_reach_the_api_server_of_the_hosts_loopback_by_its_service(tmp_path: Path) -> None:
    async def play() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"it is " + await reader.readline())
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with networked(tmp_path, api_server=server.sockets[0].getsockname()) as runtime:
            await pod(runtime, tmp_path, "client")
            [client] = (await runtime.list()).containers
            script = (
                "import socket; s = socket.create_connection(('10.96.0.1', 443)); s.sendall(b'me\\n');"
                "print(s.makefile().read())"
            )
            seen = await runtime.exec_sync(client.id, ["python3", "-c", script], timeout=20)
            assert seen.stdout.split() == [b"it", b"is", b"me"]
        server.close()

    asyncio.run(play())


def test_a_port_of_the_host_leads_to_the_pod_and_is_one_pods_alone(tmp_path: Path) -> None:
    async def play() -> None:
        async with networked(tmp_path) as runtime:
            host, port = await runtime.node_address(0), free_port()
            mine = (HostPort(host, port, 8080),)
            server = await pod(
                runtime, tmp_path, "server", "python3", "-c", SERVER, "0.0.0.0", "served", ports=mine
            )
            assert await wait_for("an answer on the host", lambda: read(host, port)) == b"served"
            with pytest.raises(RuntimeFailure, match=f"host port {port}"):
                await pod(runtime, tmp_path, "other", ports=mine)
            assert [s.name for s in (await runtime.list()).sandboxes] == ["server"]
            await runtime.remove_sandbox(server.id)
            assert await read(host, port) == b""

    asyncio.run(play())


def test_the_network_of_a_pod_with_users_of_its_own_is_its_own(tmp_path: Path) -> None:
    """Its root may listen below 1024 there, although it is nobody on the host."""
    python = shutil.which("python3", path="/usr/bin:/bin")
    if not python:
        pytest.skip("there is no Python that nobody may run")
    server = (
        "import socket, sys; s = socket.create_server(('', 80)); socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\n"
        "while True: c = s.accept()[0]; c.sendall(b'mine'); c.close()"
    )

    async def play() -> None:
        async with networked(tmp_path) as runtime:
            if runtime.mode != "root":
                pytest.skip("user namespaces of pods are for root alone")
            found = await pod(runtime, tmp_path, "own", python, "-c", server, host_users=False)

            async def answers() -> bool:
                return await read(found.ip, 80) == b"mine"

            await wait_for("the pod to answer", answers)
            os.kill(runtime.supervisor_pid, signal.SIGKILL)
            await wait_for("the supervisor to be missed", lambda: runtime._writer is None)
            await pod(runtime, tmp_path, "another", host_users=False)
            kept = {s.name: s.ip for s in (await runtime.list()).sandboxes}
            assert kept["own"] == found.ip != kept["another"]

    asyncio.run(play())


#: In a host of its own that forwards: a pod of one cluster listens, and one of another cluster and one of its own call it.
NEIGHBOURS = """
import pathlib, socket, sys
from dray.runtimes.process import isolation, netlink
from dray.runtimes.process.network import PodNetwork
isolation.unshare(isolation.NEWNET)
for name in ("all", "default"):
    pathlib.Path(f"/proc/sys/net/ipv4/conf/{name}/forwarding").write_text("1")
netlink.send(netlink.up(1))
one, two = PodNetwork(sys.argv[1] + "/one"), PodNetwork(sys.argv[1] + "/two")
listening, own, other = one.attach(()), one.attach(()), two.attach(())
with one.inside(listening.handle):
    server = socket.create_server((listening.ip, 80))
host = socket.create_server(("127.0.0.1", 0))
def reaches(network, pod, address):
    with network.inside(pod.handle), socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(address) == 0
print(reaches(one, own, (listening.ip, 80)), reaches(two, other, (listening.ip, 80)))
print(*(reaches(one, own, (ip, host.getsockname()[1])) for ip in ("127.0.0.1", one.gateway, two.gateway)))
"""


def test_a_pod_reaches_neither_another_cluster_nor_the_loopback_of_the_host(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NEIGHBOURS, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "unshare" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip("this host does not allow network namespaces with a bridge")
    assert done.stdout.split() == ["True", "False", "False", "False", "False"], done.stderr


def test_a_pod_may_share_the_hosts_network(tmp_path: Path) -> None:
    async def play() -> None:
        async with networked(tmp_path) as runtime:
            own = await pod(runtime, tmp_path, "own")
            shared = await pod(runtime, tmp_path, "shared", host_network=True)
            assert (bool(own.ip), shared.ip) == (True, "")

    asyncio.run(play())


def test_pods_keep_their_addresses_when_the_supervisor_was_killed(tmp_path: Path) -> None:
    async def play() -> None:
        async with networked(tmp_path) as runtime:
            first = await pod(runtime, tmp_path, "first")
            second = await pod(runtime, tmp_path, "second")
            os.kill(runtime.supervisor_pid, signal.SIGKILL)
            await wait_for("the supervisor to be missed", lambda: runtime._writer is None)
            third = await pod(runtime, tmp_path, "third")
            kept = {s.name: s.ip for s in (await runtime.list()).sandboxes}
            assert (kept["first"], kept["second"]) == (first.ip, second.ip)
            assert third.ip not in (first.ip, second.ip)

    asyncio.run(play())


def test_nothing_of_the_network_is_left_when_the_runtime_has_ended(tmp_path: Path) -> None:
    before = {name for _, name in socket.if_nameindex()}

    async def play() -> None:
        async with networked(tmp_path) as runtime:
            await pod(runtime, tmp_path, "one")
            mine = {name for _, name in socket.if_nameindex()} - before
            assert any(name.startswith("dray") for name in mine)
            bridges.update(name for name in mine if name.startswith("dray") and "pod" not in name)

    bridges: set[str] = set()
    asyncio.run(play())
    assert bridges and not bridges & {name for _, name in socket.if_nameindex()}
