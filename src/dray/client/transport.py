"""How requests reach an API server. HTTP is in ``dray.client.http``; a server in the same process brings its own.

A transport raises ``dray.api.errors.StatusError`` for every failure the server reports, and ``Unreachable`` when there
is no answer. Documents that it returns are shared: they are never to be changed by the receiver. Everything here is a
matter of shape, so that a server can bring a transport without knowing this package.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from dray.api.errors import ServiceUnavailable

#: A document, a JSON patch (a list), or bytes that are encoded already.
Body = Mapping[str, Any] | Sequence[Mapping[str, Any]] | bytes | None

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Unreachable(ServiceUnavailable):
    """No answer came. Whether a write was carried out is not known."""


class AnyReply(Protocol):
    """An answer with a status below 400. ``body`` is a document where the server sent JSON, else bytes.

    ``object`` is that document, of whatever type was asked for.
    """

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> Any: ...
    @property
    def object(self) -> Any: ...


class AnyEvent(Protocol[T_co]):
    """ADDED, MODIFIED, DELETED or BOOKMARK. ERROR is raised as the ``StatusError`` it carries."""

    @property
    def type(self) -> str: ...
    @property
    def object(self) -> T_co: ...


class Reply(NamedTuple):
    """An answer as it comes."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: Any

    @property
    def object(self) -> Any:
        if not isinstance(self.body, dict):
            raise TypeError(f"the answer is no document: {self.body!r:.80}")
        return self.body


class WatchEvent(NamedTuple, Generic[T]):
    """An event as it comes."""

    type: str
    object: T


#: Batches of what happened, in order. Ends plainly when the server ends the watch, which is no failure.
WatchStream = AsyncIterator[Sequence[AnyEvent[T]]]


class WebSocket(Protocol):
    """An upgraded connection: messages both ways."""

    @property
    def subprotocol(self) -> str: ...
    async def send(self, message: bytes) -> None: ...
    async def receive(self) -> bytes | None:
        """The next message; None when the other side has closed."""
        ...


class Transport(Protocol):
    """``path`` begins with "/" and has no query. ``query`` values are plain text; the transport encodes them."""

    #: The Lease by which the component leads (``NAMESPACE/NAME=IDENTITY``), if it does: said with every write, so that
    #: dray's API server refuses those of a component that no longer leads.
    leads_by: str

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Body = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = None,
    ) -> AnyReply: ...

    def watch(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[WatchStream[Any]]:
        """The events of a collection. ``watch=true`` is the caller's to put into ``query``."""
        ...

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The body of a GET as it arrives, such as a log that is followed."""
        ...

    def upgrade(
        self, path: str, *, query: Sequence[tuple[str, str]] = (), subprotocols: Sequence[str]
    ) -> AbstractAsyncContextManager[WebSocket]:
        """A WebSocket, such as for exec; ``query`` may repeat a name."""
        ...

    async def close(self) -> None: ...
