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

from dray.wire.client_connection import ClientConnection
from dray.wire.errors import ConnectionLost, ProtocolError, TooLarge
from dray.wire.http_client import ConnectionPool, connect, encode, read_all

_MOST_BYTES: Final = 16 << 20
_IDLE: Final = 4  # connections kept for each server
_CONTEXTS: Final = 64
_HEADERS: Final = (
    ("User-Agent", "kube-apiserver-admission"),
    ("Accept", "application/json, */*"),
    ("Content-Type", "application/json"),
)


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


#: Calls with the same address, name on the certificate and authorities share connections.
_Key = tuple[Address, str, str]


class WebhookClient:
    """Makes calls, and keeps a few connections to each server for the next one."""

    def __init__(self) -> None:
        self._pool: ConnectionPool[_Key] = ConnectionPool(_IDLE)
        self._contexts: OrderedDict[str, ssl.SSLContext] = OrderedDict()

    async def post(self, endpoint: Endpoint, body: bytes, *, seconds: float) -> Answer:
        """The answer to a POST of JSON, or CallError."""
        target = f"{endpoint.path}?timeout={ceil(seconds)}s"
        where = f'Post "https://{endpoint.netloc}{target}"'
        try:
            request = encode("POST", target, (("Host", endpoint.netloc), *_HEADERS), body)
            async with asyncio.timeout(seconds):
                return await self._post(endpoint, request)
        except TimeoutError:
            raise CallError(f"{where}: context deadline exceeded") from None
        except (CallError, OSError, ValueError) as e:
            raise CallError(f"{where}: {e}") from None

    async def _post(self, endpoint: Endpoint, request: bytes) -> Answer:
        address = endpoint.resolve()
        key = (address, endpoint.host, endpoint.ca)
        while (connection := self._pool.take(key)) is not None:
            # A server may have hung up meanwhile, before it saw anything: then a fresh connection is tried.
            with contextlib.suppress(CallError):
                return await self._exchange(connection, key, request)
        return await self._exchange(await self._connect(address, endpoint), key, request)

    async def _exchange(self, connection: ClientConnection, key: _Key, request: bytes) -> Answer:
        try:
            connection.send(request)
            head = await connection.head()
            return Answer(head.status, await read_all(connection, limit=_MOST_BYTES))
        except ProtocolError as e:
            raise CallError(f"net/http: HTTP/1.x transport connection broken: {e.reason}") from None
        except ConnectionLost as e:
            raise CallError(str(e.reason) if e.reason else "EOF") from None
        except TooLarge as e:
            raise CallError(str(e)) from None
        finally:
            self._pool.give(key, connection)

    async def _connect(self, address: Address, endpoint: Endpoint) -> ClientConnection:
        try:
            context = self._context(endpoint.ca)
            return await connect(address.host, address.port, tls=context, server_name=endpoint.host)
        except ssl.SSLCertVerificationError as e:
            raise CallError(f"tls: failed to verify certificate: x509: {_certificate_problem(e)}") from None
        except ssl.SSLError as e:
            raise CallError(f"tls: {e.reason or e}") from None
        except ConnectionRefusedError:
            words = f"dial tcp {address.host}:{address.port}: connect: connection refused"
            raise CallError(words) from None
        except OSError as e:
            raise CallError(f"dial tcp {address.host}:{address.port}: {e.strerror or e}") from None

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
        self._pool.close()


def _certificate_problem(error: ssl.SSLCertVerificationError) -> str:
    text = error.verify_message
    if "unable to get" in text or "self-signed" in text or "self signed" in text:
        return "certificate signed by unknown authority"
    if "expired" in text:
        return "certificate has expired or is not yet valid"
    return text


Post = Callable[[Endpoint, bytes], Awaitable[Answer]]
