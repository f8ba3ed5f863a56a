from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import aiohttp
import pytest

from dray.app.pki import Pki
from tests.support.tls_server import reached


async def test_the_servers_certificate_is_trusted_by_its_names(tmp_path: Path):
    async with reached(tmp_path) as it:
        port = it.server.url.rpartition(":")[2]
        for host in ("127.0.0.1", "localhost"):
            async with it.session.get(f"https://{host}:{port}/version") as answer:
                assert answer.status == 200


async def test_a_client_certificate_says_who_one_is(tmp_path: Path):
    async with reached(tmp_path) as it:
        context = ssl.create_default_context(cafile=str(it.server.pki.ca))
        admin = it.server.pki.leaf("admin")
        context.load_cert_chain(admin.certificate, admin.key)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
            async with session.post(it.server.url + path, json={}) as answer:
                found = (await answer.json())["status"]["userInfo"]
    assert found["username"] == "kubernetes-admin"
    assert found["groups"] == ["system:masters", "system:authenticated"]


async def test_a_client_certificate_of_another_authority_is_refused(tmp_path: Path):
    from dray.app import pki

    async with reached(tmp_path / "server") as it:
        other: Pki = pki.ensure(tmp_path / "other", [])
        context = ssl.create_default_context(cafile=str(it.server.pki.ca))
        context.load_cert_chain(other.leaf("admin").certificate, other.leaf("admin").key)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            with pytest.raises(aiohttp.ClientError):
                async with session.get(it.server.url + "/api/v1/namespaces") as answer:
                    await answer.read()


async def test_other_servers_read_whose_client_certificates_are_good_here(tmp_path: Path):
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    async with reached(tmp_path) as it:
        code, found = await it.call("GET", path)
        assert (code, found["data"]) == (200, {"client-ca-file": it.server.pki.ca.read_text()})


async def test_a_wrong_token_is_unauthorized_everywhere(tmp_path: Path):
    async with reached(tmp_path) as it:
        for path in ("/api/v1/pods", "/healthz"):
            code, body = await it.call("GET", path, headers={"Authorization": "Bearer wrong"})
            assert (code, body["reason"]) == (401, "Unauthorized")


async def test_plain_http_gets_an_answer_it_can_read(tmp_path: Path):
    async with reached(tmp_path) as it:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(it.server.url.rpartition(":")[2]))
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.0 400 Bad Request")
    assert b"Client sent an HTTP request to an HTTPS server." in answer


async def test_secrets_are_for_their_owner_only(tmp_path: Path):
    async with reached(tmp_path) as it:
        private = [it.server.pki.ca_key, it.server.pki.leaf("admin").key, tmp_path / "kubeconfig"]
        assert {path.stat().st_mode & 0o777 for path in private} == {0o600}


async def test_certificates_survive_a_restart_and_grow_with_new_addresses(tmp_path: Path):
    async with reached(tmp_path) as it:
        before = it.server.pki.leaf("apiserver").certificate.read_bytes()
        ca = it.server.pki.ca.read_bytes()
    async with reached(tmp_path) as it:
        assert it.server.pki.leaf("apiserver").certificate.read_bytes() == before
    from dray.app import pki

    again = pki.ensure(tmp_path / "pki", ["cluster.example.com"])
    assert again.leaf("apiserver").certificate.read_bytes() != before
    assert again.ca.read_bytes() == ca
