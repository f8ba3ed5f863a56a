"""A webhook for tests: HTTPS on loopback, with a certificate of its own and answers that a test chooses."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from dray.api.scheme.kinds import Object

Answer = Callable[[Object], Any]


@cache
def certificate(*names: str) -> tuple[bytes, bytes]:
    """A certificate for these DNS names and loopback that vouches for itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook")])
    now = datetime.datetime.now(datetime.UTC)
    alternatives = [
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        *map(x509.DNSName, names),
    ]
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return made.public_bytes(pem), private


class WebhookServer:
    """What was asked, and what is answered: an AdmissionResponse, or bytes, or a code and bytes."""

    def __init__(self, port: int, ca: bytes) -> None:
        self.port = port
        self.ca = b64encode(ca).decode()
        self.requests: list[Object] = []
        self.connections = 0
        self.answer: Answer = lambda request: {"allowed": True}
        self.delay = asyncio.Event()  # set unless a test wants the answer to wait
        self.delay.set()
        self._arrived = asyncio.Condition()

    async def asked(self, count: int) -> None:
        """Wait until so many requests have come in."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)

    @property
    def config(self) -> Object:
        return {"url": f"https://127.0.0.1:{self.port}/hook", "caBundle": self.ca}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length")
                )
                review = msgspec.json.decode(await reader.readexactly(length))
                async with self._arrived:
                    self.requests.append(review["request"])
                    self._arrived.notify_all()
                await self.delay.wait()
                code, body = self._reply(review)
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (code, len(body), body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _reply(self, review: Object) -> tuple[int, bytes]:
        answer = self.answer(review["request"])
        if isinstance(answer, tuple):
            return answer
        if isinstance(answer, bytes):
            return 200, answer
        response = {"uid": review["request"]["uid"], **answer}
        document = {"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}
        return 200, msgspec.json.encode(document)


@asynccontextmanager
async def webhook(directory: Path, *names: str) -> AsyncIterator[WebhookServer]:
    public, private = certificate(*names)
    file = directory / "webhook.pem"
    file.write_bytes(private + public)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    found: WebhookServer

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await found.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    found = WebhookServer(server.sockets[0].getsockname()[1], public)
    try:
        yield found
    finally:
        found.delay.set()
        server.close()


def configuration(family: str, name: str, hook: Object) -> Object:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": ["configmaps"],
    }
    whole = {
        "name": f"{name}.example.com",
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **hook,
    }
    return {"metadata": {"name": name}, "webhooks": [whole]}
