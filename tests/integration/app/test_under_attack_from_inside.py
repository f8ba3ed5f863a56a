"""``dray up`` under attack by those it works with: nodes that lie, pods that nobody can schedule, and too few descriptors.

As in ``test_under_attack.py``, it answers its health check in time and its memory stays bounded all the while.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dray.app import nodeserver
from tests.support.attacker import Attacker
from tests.support.process import DrayProcess, dray_process
from tests.support.wait import wait_for
from tests.support.watchdog import Watchdog

pytestmark = pytest.mark.xdist_group("attacks")

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrayProcess]:
    with dray_process(tmp_path_factory.mktemp("attacked"), "up", "--nodes", "1") as server:
        yield server


@pytest.fixture
def watched(cluster: DrayProcess) -> Iterator[DrayProcess]:
    with Watchdog(cluster) as dog:
        yield cluster
    print(f"longest {dog.longest:.3f} s, {dog.peak >> 20} MB")


# -- a node ----------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def node(server: DrayProcess, folder: Path, beginning: bytes, again: bytes) -> AsyncIterator[str]:
    """A node with a pod ``p`` that answers every request with this beginning, and then the same bytes without end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ssl.SSLError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(beginning)
            while not writer.is_closing() and not reader.at_eof():
                writer.write(again)
                await writer.drain()
                await asyncio.sleep(0)
        writer.transport.abort()

    authority = (server.data / "pki" / "ca.crt").read_bytes()
    context = nodeserver.server_tls(folder / "node", name="liar", address="127.0.0.1", client_ca=authority)
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as listener:
        port = listener.sockets[0].getsockname()[1]
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        admin = Attacker(server, server.token)
        container = {"name": "c", "image": "i"}
        pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "liar", "containers": [container]}}
        assert (await admin.call("POST", "/api/v1/nodes", {"metadata": {"name": "liar"}}))[0] == 201
        assert (await admin.call("PATCH", "/api/v1/nodes/liar/status", {"status": status}, MERGE))[0] == 200
        assert (await admin.call("POST", PODS, pod))[0] == 201
        yield f"{PODS}/p/log"
        assert (await admin.call("DELETE", f"{PODS}/p?gracePeriodSeconds=0"))[0] == 200
        assert (await admin.call("DELETE", "/api/v1/nodes/liar"))[0] == 200


async def test_a_log_without_end_that_nobody_reads(watched: DrayProcess, tmp_path: Path):
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    async with node(watched, tmp_path, b"HTTP/1.1 200 OK\r\n" + CHUNKED, chunk) as path:
        it = Attacker(watched, watched.token)
        wires = [await it.connect() for _ in range(30)]
        for wire in wires:
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await wire.send(it.request("GET", path))
        await asyncio.sleep(2)
        for wire in wires:
            wire.close()


@pytest.mark.parametrize(
    ("beginning", "again"),
    [
        (b"HTTP/1.1 500 No\r\n" + CHUNKED, b"8000\r\n" + b"x" * 0x8000 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nA: ", b"x" * 65_536),
        (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 10_000),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000),
        (b"HTTP/1.1 200 OK\r\n" + CHUNKED, b"0"),
        (b"HTTP/1.1 200 OK\r\n" + CHUNKED, b"1\r\nx\r\n" * 10_000),
    ],
    ids=["error", "header", "headers", "continue", "size of a chunk", "small chunks"],
)
async def test_an_answer_of_a_node_without_end(
    watched: DrayProcess, tmp_path: Path, beginning: bytes, again: bytes
):
    async with node(watched, tmp_path, beginning, again) as path:
        it = Attacker(watched, watched.token)

        async def ask() -> None:
            with contextlib.suppress(TimeoutError):
                async with it.wire(limit=1 << 16) as wire, asyncio.timeout(5):
                    await wire.send(it.request("GET", path))
                    await wire.answer()

        await asyncio.gather(*(ask() for _ in range(5)))


# -- the scheduler ---------------------------------------------------------------------------------------------------


async def test_the_dearest_selectors_on_hundreds_of_devices(watched: DrayProcess):
    """31 selectors near the limit of what one may cost, on 640 devices: hours of work, of which an attempt does little."""
    admin = Attacker(watched, watched.token)
    slices, classes = "/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1/deviceclasses"
    for number in range(5):
        devices = [{"name": f"d-{number}-{i}", "attributes": {"n": {"int": i}}} for i in range(128)]
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 5}
        spec = {"driver": "dear.example.com", "nodeName": "node-1", "pool": pool, "devices": devices}
        code, said = await admin.call("POST", slices, {"metadata": {"name": f"dear-{number}"}, "spec": spec})
        assert code == 201, said[:300]
    cheap = [{"cel": {"expression": 'device.driver == "dear.example.com"'}}]
    made = await admin.call("POST", classes, {"metadata": {"name": "dear"}, "spec": {"selectors": cheap}})
    assert made[0] == 201
    numbers = list(range(40))
    dear = f"{numbers}.all(x, {numbers}.all(y, {numbers}.all(z, x + y + z >= 0)))"
    own = 'device.attributes["dear.example.com"].n'
    selectors = [{"cel": {"expression": f"{own} >= -{i} && {dear}"}} for i in range(31)]
    request = {"name": "r", "exactly": {"deviceClassName": "dear", "selectors": selectors}}
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    claim = {"metadata": {"name": "dear"}, "spec": {"devices": {"requests": [request]}}}
    code, said = await admin.call("POST", claims, claim)
    assert code == 201, said[:300]
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "c"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "c", "resourceClaimName": "dear"}]}
    assert (await admin.call("POST", PODS, {"metadata": {"name": "dear"}, "spec": spec}))[0] == 201
    plain = {"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert (await admin.call("POST", PODS, plain))[0] == 201

    async def spec_of(name: str) -> dict[str, object]:
        spec: dict[str, object] = json.loads((await admin.call("GET", f"{PODS}/{name}"))[1])["spec"]
        return spec

    async def is_scheduled() -> bool:
        return "nodeName" in await spec_of("plain")

    await wait_for("the other pod to be scheduled", is_scheduled)
    await asyncio.sleep(15)  # longer than an attempt may take
    assert "nodeName" not in await spec_of("dear")
    for path in (f"{PODS}/dear", f"{PODS}/plain"):
        assert (await admin.call("DELETE", f"{path}?gracePeriodSeconds=0"))[0] == 200
    assert (await admin.call("DELETE", f"{claims}/dear"))[0] == 200
    assert (await admin.call("DELETE", f"{classes}/dear"))[0] == 200
    for number in range(5):
        assert (await admin.call("DELETE", f"{slices}/dear-{number}"))[0] == 200


# -- descriptors -----------------------------------------------------------------------------------------------------


async def test_a_pod_runs_although_idle_connections_want_all_descriptors(tmp_path: Path):
    """256 of them, and 300 clients that say nothing."""
    with dray_process(tmp_path, "up", "--nodes", "1", descriptors=256) as server, Watchdog(server):
        it, admin = Attacker(server), Attacker(server, server.token)
        wires = []
        for _ in range(300):
            with contextlib.suppress(OSError):
                wires.append(await it.connect())
        pod = {"metadata": {"name": "next"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert (await admin.call("POST", PODS, pod))[0] == 201

        async def runs() -> bool:
            return b'"phase":"Running"' in (await admin.call("GET", f"{PODS}/next"))[1]

        await wait_for("the pod to run", runs)
        assert (await admin.call("POST", PODS.replace("pods", "configmaps"), {"metadata": {"name": "a"}}))[
            0
        ] == 201
        for wire in wires:
            wire.close()
        assert server.process.poll() is None
