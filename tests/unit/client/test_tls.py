from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest

from dray.client.transport import Unreachable
from tests.support.http_peer import Request, http_peer, replies, reply, transport_to


class Authority:
    """Certificates for one test."""

    def __init__(self) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        def name(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        def build(
            subject: str, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey, *, ca: bool
        ) -> bytes:
            now = datetime.now(UTC)
            names = x509.SubjectAlternativeName(
                [x509.DNSName("api.example.com"), x509.IPAddress(ip_address("127.0.0.1"))][
                    : 1 if subject == "named" else 2
                ]
            )
            certificate = (
                x509.CertificateBuilder()
                .subject_name(name(subject))
                .issuer_name(name("authority"))
                .public_key(key.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - timedelta(hours=1))
                .not_valid_after(now + timedelta(hours=1))
                .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
                .add_extension(names, critical=False)
                .sign(signer, hashes.SHA256())
            )
            return certificate.public_bytes(serialization.Encoding.PEM)

        root = ec.generate_private_key(ec.SECP256R1())
        self.ca = build("authority", root, root, ca=True)
        self._build, self._root = build, root
        self._serialization, self._ec = serialization, ec

    def issue(self, subject: str) -> tuple[bytes, bytes]:
        key = self._ec.generate_private_key(self._ec.SECP256R1())
        encoding = self._serialization
        pem = key.private_bytes(encoding.Encoding.PEM, encoding.PrivateFormat.PKCS8, encoding.NoEncryption())
        return self._build(subject, key, self._root, ca=False), pem

    def server_context(self, tmp_path, subject: str = "server", *, client: bool = False) -> ssl.SSLContext:
        certificate, key = self.issue(subject)
        (tmp_path / "server.pem").write_bytes(certificate + key)
        (tmp_path / "ca.pem").write_bytes(self.ca)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "server.pem")
        if client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(tmp_path / "ca.pem")
        return context


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


async def test_a_server_is_trusted_by_its_authority_only(authority, tmp_path):
    tls = authority.server_context(tmp_path)
    async with http_peer(replies(reply(200, {"ok": 1})), tls=tls) as server:
        async with transport_to(server, ca=authority.ca) as transport:
            assert (await transport.request("GET", "/")).object == {"ok": 1}
        async with transport_to(server, ca=Authority().ca) as transport:
            with pytest.raises(Unreachable, match="not trusted"):
                await transport.request("GET", "/")
        async with transport_to(server, insecure=True) as transport:
            assert (await transport.request("GET", "/")).object == {"ok": 1}


async def test_a_server_may_have_another_name_than_its_address(authority, tmp_path):
    tls = authority.server_context(tmp_path, "named")
    async with http_peer(replies(reply(200, {"ok": 1})), tls=tls) as server:
        async with transport_to(server, ca=authority.ca) as transport:
            with pytest.raises(Unreachable, match="not trusted"):
                await transport.request("GET", "/")
        async with transport_to(server, ca=authority.ca, server_name="api.example.com") as transport:
            assert (await transport.request("GET", "/")).object == {"ok": 1}


async def test_a_client_certificate_is_shown(authority, tmp_path):
    seen = []

    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("peercert")["subject"])
        writer.write(reply(200, {}))

    certificate, key = authority.issue("jane")
    async with http_peer(handle, tls=authority.server_context(tmp_path, client=True)) as server:
        async with transport_to(server, ca=authority.ca, certificate=certificate, key=key) as transport:
            await transport.request("GET", "/")
        async with transport_to(server, ca=authority.ca) as transport:
            with pytest.raises(Unreachable):
                await transport.request("GET", "/")
    assert seen == [((("commonName", "jane"),),)]


async def test_a_renewed_client_certificate_is_shown_from_then_on(authority, tmp_path, monkeypatch):
    from dray.client import config

    monkeypatch.setattr(config, "CERTIFICATE_LIFE", 0.0)
    seen = []

    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(dict(writer.get_extra_info("peercert")["subject"][0])["commonName"])
        writer.write(reply(200, {}))

    file = tmp_path / "own.pem"

    def keep(subject: str) -> bytes:
        pem = b"".join(authority.issue(subject))
        new = tmp_path / "new.pem"
        new.write_bytes(pem)
        new.replace(file)
        return pem

    pem = keep("first")
    named = {"certificate": pem, "certificate_file": file, "key_file": file}
    async with (
        http_peer(handle, tls=authority.server_context(tmp_path, client=True)) as server,
        transport_to(server, ca=authority.ca, **named) as transport,
    ):
        await transport.request("GET", "/")
        await transport.request("GET", "/")
        keep("second")
        await transport.request("GET", "/")
        file.write_text("half of a certif")
        await transport.request("GET", "/")
    assert seen == ["first", "first", "second", "second"]
