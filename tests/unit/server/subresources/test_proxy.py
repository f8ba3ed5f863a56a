"""Requests that the API server passes on to pods, services and nodes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from dray.api.errors import BadRequest, InternalError, ServiceUnavailable
from dray.server.endpoints.requestinfo import request_info
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responses import StreamBody
from dray.server.subresources import proxy
from dray.wire.messages import Headers, Query
from tests.support.apiserver import SERVED, make_server

PATH = "/api/v1/namespaces/default/pods/http:p:80/proxy/some path/"


def pod(address: str) -> Any:
    container = {"name": "c", "ports": [{"containerPort": 8080}]}
    return {"spec": {"containers": [container]}, "status": {"podIP": address, "podIPs": [{"ip": address}]}}


def endpoints(address: str) -> Any:
    reference = {"kind": "Pod", "namespace": "default", "name": "p"}
    addresses = [{"ip": address, "targetRef": reference}]
    return {"subsets": [{"addresses": addresses, "ports": [{"name": "web", "port": 8080}]}]}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("p", ("http", "10.1.2.3", 8080)),
        ("p:81", ("http", "10.1.2.3", 81)),
        ("https:p:443", ("https", "10.1.2.3", 443)),
    ],
)
def test_a_name_says_scheme_and_port(name: str, wanted: tuple[str, str, int]):
    assert proxy.pod_location(proxy.parse_target("pods", name), pod("10.1.2.3")) == wanted


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "0.0.0.0", ""],
)
def test_the_servers_own_machine_and_link_are_out_of_reach(address: str):
    with pytest.raises(BadRequest, match="address not allowed"):
        proxy.pod_location(proxy.parse_target("pods", "p"), pod(address))


def test_a_service_leads_to_its_pods_and_to_nothing_else():
    service: Any = {"spec": {"ports": [{"name": "web", "port": 80}]}}

    def find(name: str, holder: str) -> proxy.Location:
        target = proxy.parse_target("services", name)
        return proxy.service_location(target, service, endpoints("10.1.2.3"), lambda *_: pod(holder))

    assert find("s:80", "10.1.2.3") == find("s:web", "10.1.2.3") == ("http", "10.1.2.3", 8080)
    with pytest.raises(ServiceUnavailable, match="no service port 81"):
        find("s:81", "10.1.2.3")
    with pytest.raises(ServiceUnavailable, match="no endpoints available"):
        find("s:80", "10.9.9.9")  # somebody wrote an address into the endpoints that no pod has


async def test_a_request_is_passed_on_without_what_was_for_the_server():
    seen: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(4))
        writer.write(
            b"HTTP/1.1 418 Teapot\r\nContent-Type: text/x\r\nX-Own: 1\r\nContent-Length: 2\r\n\r\nhi"
        )
        writer.close()

    backend = await asyncio.start_server(answer, "127.0.0.1", 0)
    headers = Headers(
        [("authorization", "Bearer t"), ("impersonate-user", "u"), ("x-mine", "1"), ("accept", "text/x")]
    )
    request = Request("POST", PATH, Query("a=b%20c"), headers, b"body")
    request.info = request_info(request.method, request.path, request.query)
    call: Any = SimpleNamespace(request=request, info=request.info)
    async with backend:
        where = proxy.Location("http", "127.0.0.1", backend.sockets[0].getsockname()[1])
        response = await proxy.forward(call, where)
        assert isinstance(response.body, StreamBody)
        assert (response.code, response.body.content_type) == (418, "text/x")
        assert ("x-own", "1") in response.headers
    text = seen[0].decode().lower()
    assert text.startswith("post /some%20path/?a=b%20c http/1.1\r\n") and text.endswith("\r\n\r\nbody")
    assert "x-mine: 1" in text and "bearer" not in text and "impersonate" not in text


async def test_a_backend_changes_no_protocol_unasked():
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 101 Other\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
        )
        await writer.drain()
        writer.close()

    backend = await asyncio.start_server(answer, "127.0.0.1", 0)
    request = Request("GET", PATH)
    request.info = request_info(request.method, request.path, request.query)
    call: Any = SimpleNamespace(request=request, info=request.info)
    async with backend:
        where = proxy.Location("http", "127.0.0.1", backend.sockets[0].getsockname()[1])
        with pytest.raises(InternalError, match="changed the protocol unasked"):
            await proxy.forward(call, where)


async def test_backends_decide_about_media_types_themselves():
    server = await make_server(served=SERVED | {"endpoints"})
    client = server.as_user()
    with pytest.raises(BadRequest, match="address not allowed"):
        await client.request("POST", "/api/v1/nodes", body={"metadata": {"name": "n"}})
        await client.request("GET", "/api/v1/nodes/n:99/proxy/x", accept="text/html")
