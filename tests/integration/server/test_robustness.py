"""Hostile and clumsy clients: a clear error each, and the server keeps serving."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import time
from pathlib import Path

import pytest

from dray.server.storage.codec import encode
from tests.support.looplag import LoopLag
from tests.support.tls_server import Reached, reached

MAPS = "/api/v1/namespaces/default/configmaps"
JSON = {"Content-Type": "application/json"}


async def alive(it: Reached) -> bool:
    return (await it.call("GET", "/readyz"))[0] == 200


@pytest.mark.parametrize(
    ("body", "type", "code", "words"),
    [
        (b"{", "application/json", 400, "unexpected end of JSON input"),
        (b"[" * 100_000, "application/json", 400, ""),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "application/json", 400, ""),
        (b'{"metadata":{"name":"a"},"data":' + b'{"x":' * 20_000 + b"1" + b"}" * 20_001, "application/json", 400, ""),
        (b"\xff\xfe", "application/json", 400, ""),
        (b'{"metadata":{"name":"\\ud800"}}', "application/json", 422, ""),
        (b"a: &a [*a]", "application/yaml", 400, ""),
        (b"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + b"".join(b"%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n" % (c + 1, c + 1, *([c] * 9)) for c in range(97, 107)), "application/yaml", 400, "excessive aliasing"),
        (b"k8s\x00\x12\xff\xff\xff\xff\x0f", "application/vnd.kubernetes.protobuf", 400, ""),
        (b"{}", "text/plain", 415, "unknown format"),
    ],
)  # fmt: skip
async def test_a_broken_body_is_refused(tmp_path: Path, body: bytes, type: str, code: int, words: str):
    async with reached(tmp_path) as it:
        found, status = await it.call("POST", MAPS, data=body, headers={"Content-Type": type})
        assert (found, status["kind"]) == (code, "Status"), status
        assert words in status["message"]
        assert await alive(it)


BOMBS = {
    "lists": b"a: " + b"[" * 30_000,
    "mappings": b"{a: " * 30_000,
    "merges": b"a0: &a0 {x: 1}\n"
    + b"".join(b"a%d: &a%d {<<: [*a%d,*a%d]}\n" % (n, n, n - 1, n - 1) for n in range(1, 60)),
    "aliased text": b"a: &a " + b"x" * (1 << 20) + b"\nb: [" + b"*a," * 1000 + b"]",
}


@pytest.mark.parametrize("name", BOMBS)
async def test_a_bomb_of_yaml_is_refused_while_the_loop_runs_on(tmp_path: Path, name: str):
    async with reached(tmp_path) as it, LoopLag() as lag:
        for path in ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", MAPS):
            headers = {"Content-Type": "application/yaml"}
            assert (await it.call("POST", path, data=BOMBS[name], headers=headers))[0] == 400
        headers = {"Content-Type": "application/apply-patch+yaml"}
        code, status = await it.call("PATCH", f"{MAPS}/a?fieldManager=x", data=BOMBS[name], headers=headers)
        assert (code, status["message"].partition(":")[0]) == (400, "error encoding patch")
        assert await alive(it)
    assert lag.longest < 0.5


async def test_a_large_document_of_yaml_is_converted_beside_the_loop(tmp_path: Path):
    rest = b"".join(b"- {a: 1, b: [x, y, 'z']}\n" for _ in range(25_000))
    started = time.monotonic()
    async with reached(tmp_path) as it, LoopLag() as lag:
        body = b"metadata: {name: a, name: b}\ndata: {k: v}\nignored:\n" + rest
        code, found = await it.call("POST", MAPS, data=body, headers={"Content-Type": "application/yaml"})
        assert (code, found["metadata"]["name"]) == (201, "b")
        code, status = await it.call(
            "POST", f"{MAPS}?fieldValidation=Strict", data=body, headers={"Content-Type": "application/yaml"}
        )
        assert code == 400
        assert 'line 1: key "name" already set in map' in status["message"]
    # Twice one half of the time, were it on the loop. What is left is the reading of the JSON.
    assert lag.longest < (time.monotonic() - started) * 0.35


async def test_a_huge_body_is_refused(tmp_path: Path):
    async with reached(tmp_path) as it:
        body = encode({"metadata": {"name": "big"}, "data": {"k": "x" * (4 << 20)}})
        code, status = await it.call("POST", MAPS, data=body, headers=JSON)
        assert (code, status["reason"]) == (413, "RequestEntityTooLarge")
        assert status["message"] == "Request entity too large: limit is 3145728"
        assert await alive(it)


@pytest.mark.parametrize(
    "query",
    [
        "labelSelector=%21%21%21", "labelSelector=a%20in%20%28", "fieldSelector=nope%3D1", "fieldSelector=%3D%3D",
        "limit=-9223372036854775809", "continue=%00", "resourceVersion=-1", "resourceVersionMatch=Never",
        "watch=1&resourceVersion=x", "timeoutSeconds=x", "timeout=never", "dryRun=Some", "limit=%F0%9F%98%80",
    ],
)  # fmt: skip
async def test_a_bad_query_is_the_clients_fault(tmp_path: Path, query: str):
    async with reached(tmp_path) as it:
        method = "DELETE" if "dryRun" in query else "GET"
        code, status = await it.call(method, f"{MAPS}?{query}")
        assert status["kind"] == "Status"
        # Upstream answers a watch from a version that is no number with a 500 of its own making.
        assert 400 <= code < 500 or "watch" in query
        assert await alive(it)


async def test_a_large_list_is_compressed_for_those_who_can_read_it(tmp_path: Path):
    async with reached(tmp_path) as it:
        for i in range(4):
            await it.call("POST", MAPS, json={"metadata": {"name": f"m{i}"}, "data": {"k": "x" * 50_000}})
        async with it.session.get(
            it.server.url + MAPS, headers={"Accept-Encoding": "gzip"}, auto_decompress=False
        ) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            assert len(json.loads(gzip.decompress(await answer.read()))["items"]) == 4
        async with it.session.get(it.server.url + MAPS, headers={"Accept-Encoding": "identity"}) as answer:
            assert "Content-Encoding" not in answer.headers


async def test_many_watchers_that_never_read_cost_little_and_hold_nobody_up(tmp_path: Path):
    """Writers are not slowed, a watcher that reads sees everything, and what the others hold is bounded."""
    async with reached(tmp_path) as it:
        cache = it.server.api.resource("", "configmaps").cache
        cache.lag = 64
        writers = []
        host, port = "127.0.0.1", int(it.server.url.rpartition(":")[2])
        context = ssl.create_default_context(cafile=str(it.server.pki.ca))
        request = (
            f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer integration\r\n\r\n".encode()
        )

        async def stall() -> None:
            _, writer = await asyncio.open_connection(host, port, ssl=context, limit=1 << 10)
            writer.transport.pause_reading()
            writer.write(request)
            writers.append(writer)

        for _ in range(5):
            await asyncio.gather(*(stall() for _ in range(20)))
        for _ in range(200):
            if cache.watchers == 100:
                break
            await asyncio.sleep(0.05)
        assert cache.watchers == 100

        async def read_all() -> None:
            async with it.session.get(f"{it.server.url}{MAPS}?watch=1") as answer:
                for _ in range(200):
                    assert await answer.content.readuntil(b"\n")

        reader = asyncio.create_task(read_all())
        for i in range(200):
            body = {"metadata": {"name": f"m{i}"}, "data": {"k": "x" * 20_000}}
            assert (await it.call("POST", MAPS, json=body))[0] == 201
        await asyncio.wait_for(reader, 20)
        # What each of them still waits for is bounded, and those beyond the bound are gone.
        assert all(len(w.pending) <= 64 for w in cache._all_watchers())
        assert cache.watchers < 100
        for writer in writers:
            writer.transport.abort()
        assert await alive(it)


async def test_metrics_have_labels_only_for_what_is_served(tmp_path: Path):
    long = "x" * 5000
    async with reached(tmp_path) as it:
        for i in range(20):
            for path in (f"/apis/{long}{i}/v1/things/a/{long}", f"/api/v1/pods/a/{long}{i}", f"/{long}{i}"):
                await it.call("GET", path, headers={"Authorization": "Bearer nobody"})
                assert (await it.call("GET", path))[0] == 404
            await it.call("DELETE", f"{MAPS}/a?dryRun={long}{i}")
        await it.call("GET", MAPS)
        text = (await it.call("GET", "/metrics"))[1].decode()
        assert "xxx" not in text
        assert 'resource="configmaps",scope="namespace",subresource="",verb="LIST",version="v1"' in text
        assert 'dry_run="invalid"' in text


class RawClient:
    """A client that sends what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, it: Reached) -> RawClient:
        host, _, port = it.server.url.removeprefix("https://").rpartition(":")
        context = ssl.create_default_context(cafile=str(it.server.pki.ca))
        return cls(*await asyncio.open_connection(host, int(port), ssl=context))

    def post(self, length: int, *lines: str) -> None:
        head = [f"POST {MAPS} HTTP/1.1", "Host: x", f"Content-Length: {length}", *lines]
        self.writer.write("\r\n".join([*head, "Content-Type: application/json", "", ""]).encode())

    async def code(self) -> int:
        head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 10)
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await self._reader.readexactly(int(length or 0))
        return int(head.split()[1])


async def test_a_caller_without_rights_is_refused_before_its_body_is_received(tmp_path: Path):
    async with reached(tmp_path) as it:
        clients = [await RawClient.connect(it) for _ in range(30)]
        for client in clients:
            client.post(3_000_000)
            client.writer.write(b"x" * 1000)
        assert {await client.code() for client in clients} <= {401, 403}
        last = clients[0]
        last.writer.write(b"x" * 2_999_000)
        last.post(2, "Expect: 100-continue")
        assert await last.code() in (401, 403)  # and not 100
        assert await alive(it)
        for client in clients:
            client.writer.close()


async def test_a_body_in_many_pieces_is_received_after_authorization(tmp_path: Path):
    async with reached(tmp_path) as it:
        body = encode({"metadata": {"name": "large"}, "data": {"a": "x" * 900_000}})
        for expect in ([], ["Expect: 100-continue"]):
            client = await RawClient.connect(it)
            client.post(len(body), "Authorization: Bearer integration", *expect)
            if expect:
                assert await client.code() == 100
            for start in range(0, len(body), 40_000):
                client.writer.write(body[start : start + 40_000])
                await asyncio.sleep(0.001)
            assert await client.code() == (409 if expect else 201)
            client.writer.close()
