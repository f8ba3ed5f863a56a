"""HTTPS calls to webhooks: connections that are kept, bounded in time and size, with errors worded as Go words them."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import ceil
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httptools

_MOST_BYTES: Final = 16 << 20
_IDLE: Final = 4  # connections kept for each server
_CONTEXTS: Final = 64
_AGENT: Final = "kube-apiserver-admission"


class CallError(Exception):
    """A webhook could not be asked."""


class Address(NamedTuple):
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A webhook's address. ``resolve`` says where to connect to; ``host`` is whom the certificate must name."""

    url: str
    host: str
    resolve: Callable[[], Address]
    ca: str = ""  # base64 of PEM; empty: the system's roots

    @staticmethod
    def of_url(url: str, ca: str = "") -> Endpoint:
        parts = urlsplit(url)
        host = parts.hostname or ""
        address = Address(host, parts.port or 443)
        return Endpoint(url, host, lambda: address, ca)

    @property
    def path(self) -> str:
        return urlsplit(self.url).path or "/"

    @property
    def netloc(self) -> str:
        return urlsplit(self.url).netloc


class Answer(NamedTuple):
    code: int
    body: bytes


class _Reader:
    """Collects one response."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.body = bytearray()
        self.done = False
        self.keep = False

    def on_body(self, data: bytes) -> None:
        self.body += data
        if len(self.body) > _MOST_BYTES:
            raise CallError(f"the response is larger than {_MOST_BYTES} bytes")

    def on_message_complete(self) -> None:
        self.done = True
        self.keep = self.parser.should_keep_alive()


@dataclass(slots=True, eq=False)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def exchange(self, head: bytes, body: bytes) -> tuple[Answer, bool]:
        self.writer.write(head + body)
        await self.writer.drain()
        found = _Reader()
        while not found.done:
            data = await self.reader.read(1 << 16)
            if not data:
                raise CallError("EOF")
            try:
                found.parser.feed_data(data)
            except httptools.HttpParserCallbackError as e:
                raise e.__context__ if isinstance(e.__context__, CallError) else CallError(str(e)) from None
            except httptools.HttpParserError as e:
                raise CallError(f"net/http: HTTP/1.x transport connection broken: {e}") from None
        return Answer(found.parser.get_status_code(), bytes(found.body)), found.keep

    def close(self) -> None:
        self.writer.close()


class WebhookClient:
    """Makes calls, and keeps a few connections to each server for the next one."""

    def __init__(self) -> None:
        self._idle: dict[tuple[Address, str, str], list[_Connection]] = {}
        self._contexts: OrderedDict[str, ssl.SSLContext] = OrderedDict()

    async def post(self, endpoint: Endpoint, body: bytes, *, seconds: float) -> Answer:
        """The answer to a POST of JSON, or CallError."""
        target = f"{endpoint.path}?timeout={ceil(seconds)}s"
        where = f'Post "https://{endpoint.netloc}{target}"'
        head = (
            f"POST {target} HTTP/1.1\r\nHost: {endpoint.netloc}\r\nUser-Agent: {_AGENT}\r\n"
            "Accept: application/json, */*\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode()
        try:
            async with asyncio.timeout(seconds):
                return await self._post(endpoint, head, body)
        except TimeoutError:
            raise CallError(f"{where}: context deadline exceeded") from None
        except (CallError, OSError, ValueError) as e:
            raise CallError(f"{where}: {e}") from None

    async def _post(self, endpoint: Endpoint, head: bytes, body: bytes) -> Answer:
        address = endpoint.resolve()
        key = (address, endpoint.host, endpoint.ca)
        idle = self._idle.setdefault(key, [])
        while idle:
            # A server may have hung up meanwhile, before it saw anything: then a fresh connection is tried.
            with contextlib.suppress(CallError, OSError):
                return await self._exchange(idle.pop(), key, head, body)
        return await self._exchange(await self._connect(address, endpoint), key, head, body)

    async def _exchange(
        self, connection: _Connection, key: tuple[Address, str, str], head: bytes, body: bytes
    ) -> Answer:
        kept = False
        try:
            answer, kept = await connection.exchange(head, body)
        finally:
            idle = self._idle.setdefault(key, [])
            if kept and len(idle) < _IDLE:
                idle.append(connection)
            else:
                connection.close()
        return answer

    async def _connect(self, address: Address, endpoint: Endpoint) -> _Connection:
        try:
            reader, writer = await asyncio.open_connection(
                address.host, address.port, ssl=self._context(endpoint.ca), server_hostname=endpoint.host
            )
        except ssl.SSLCertVerificationError as e:
            raise CallError(f"tls: failed to verify certificate: x509: {_certificate_problem(e)}") from None
        except ssl.SSLError as e:
            raise CallError(f"tls: {e.reason or e}") from None
        except ConnectionRefusedError:
            words = f"dial tcp {address.host}:{address.port}: connect: connection refused"
            raise CallError(words) from None
        except OSError as e:
            raise CallError(f"dial tcp {address.host}:{address.port}: {e.strerror or e}") from None
        return _Connection(reader, writer)

    def _context(self, ca: str) -> ssl.SSLContext:
        found = self._contexts.get(ca)
        if found is None:
            found = ssl.create_default_context(cadata=b64decode(ca).decode() if ca else None)
            found.minimum_version = ssl.TLSVersion.TLSv1_2
            self._contexts[ca] = found
            if len(self._contexts) > _CONTEXTS:
                self._contexts.popitem(last=False)
        return found

    def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()


def _certificate_problem(error: ssl.SSLCertVerificationError) -> str:
    text = error.verify_message
    if "unable to get" in text or "self-signed" in text or "self signed" in text:
        return "certificate signed by unknown authority"
    if "expired" in text:
        return "certificate has expired or is not yet valid"
    return text


Post = Callable[[Endpoint, bytes], Awaitable[Answer]]
