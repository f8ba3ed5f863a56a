"""What an HTTP server hands to its handler and takes back: requests with their query and headers, and replies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar, cast
from urllib.parse import unquote_plus

import msgspec

from dray.wire.duplex import Duplex, Stream


class Peer(NamedTuple):
    """The other end of a connection."""

    address: str = ""
    certificate: bytes | None = None  # the client's verified certificate, DER


_NOBODY: Final = Peer()


class Query:
    """The query of a URL, parsed when first asked."""

    __slots__ = ("_values", "raw")

    def __init__(self, raw: str = "", values: Mapping[str, list[str]] | None = None) -> None:
        self.raw = raw
        self._values: Mapping[str, list[str]] | None = values

    @classmethod
    def of(cls, values: Mapping[str, str | Iterable[str]]) -> Query:
        """A query from Python values, as in-process callers have them."""
        return cls(values={k: [v] if isinstance(v, str) else list(v) for k, v in values.items()})

    @property
    def values(self) -> Mapping[str, list[str]]:
        if self._values is None:
            self._values = _parse(self.raw) if self.raw else {}
        return self._values

    def __bool__(self) -> bool:
        return bool(self.raw) or bool(self._values)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def get(self, name: str, default: str = "") -> str:
        found = self.values.get(name)
        return found[0] if found else default

    def all(self, name: str) -> list[str]:
        return list(self.values.get(name, ()))

    def boolean(self, name: str) -> bool:
        """Whether a flag is set: it is present, and neither "false" nor "0"."""
        found = self.all(name)
        return bool(found) and found[0].lower() not in ("false", "0")


#: For the many requests that have none.
NO_QUERY: Final = Query()


def _parse(raw: str) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for part in raw.split("&"):
        if not part:
            continue
        name, _, value = part.partition("=")
        values.setdefault(unquote_plus(name), []).append(unquote_plus(value))
    return values


T = TypeVar("T")


class Headers:
    """Header fields by lower-case name; a field sent several times keeps every value."""

    __slots__ = ("_first", "_read", "_repeated")

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._first: dict[str, str] = {}
        self._repeated: dict[str, list[str]] = {}
        self._read: dict[Callable[[Headers], object], object] = {}
        for name, value in pairs:
            self.add(name, value)

    def add(self, name: str, value: str) -> None:
        if self._read:
            self._read.clear()
        if name not in self._first:
            self._first[name] = value
        else:
            self._repeated.setdefault(name, [self._first[name]]).append(value)

    def get(self, name: str, default: str = "") -> str:
        return self._first.get(name, default)

    def all(self, name: str) -> list[str]:
        if name in self._repeated:
            return list(self._repeated[name])
        return [self._first[name]] if name in self._first else []

    def with_length(self, length: str) -> Headers:
        """The same fields of a request whose body has another length."""
        if self._first.get("content-length") == length:
            return self
        others = Headers()
        others._first = {**self._first, "content-length": length}
        others._repeated = self._repeated
        others._read = self._read
        return others

    def once(self, read: Callable[[Headers], T]) -> T:
        """What ``read`` finds in these fields and nowhere else, which is not Content-Length. Many requests of a connection
        have the same fields."""
        try:
            return cast("T", self._read[read])
        except KeyError:
            found = self._read[read] = read(self)
            return found

    def __contains__(self, name: str) -> bool:
        return name in self._first

    def __iter__(self) -> Iterator[str]:
        return iter(self._first)


class Request(msgspec.Struct, eq=False):
    """One request. A server may construct a subclass of it, whose own fields follow these and have defaults."""

    method: str
    path: str
    query: Query = NO_QUERY
    headers: Headers = msgspec.field(default_factory=Headers)
    body: object = b""  # the HTTP server puts bytes here; a subclass may say what other callers may put here
    peer: Peer = _NOBODY
    upgradable: bool = False
    http: tuple[str, bool] = ("1.1", True)  # the version spoken, and whether the connection may stay
    #: Present while the body has not arrived yet: a handler that wants the body calls it and waits for it.
    receive: Callable[[], Awaitable[None]] | None = None


R = TypeVar("R", bound=Request)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a client may ask of a connection."""

    body_bytes: int = 3 << 20
    header_bytes: int = 256 << 10
    header_seconds: float = 32.0  # from the first byte of a request to the end of its header
    body_seconds: float = 60.0
    idle_seconds: float = 90.0  # between requests
    handshake_seconds: float = 10.0
    stalled_seconds: float = 60.0  # a response that the peer does not read
    unsent_bytes: int = 128 << 10  # what waits for a slow reader, in the kernel and again in this process
    unread_bytes: int = 64 << 10  # what the kernel takes from a client while the loop is busy
    held_bytes: int = 64 << 20  # what all clients together may have sent of requests that are not complete
    connections: int = 20_000
    descriptors: float = 0.5  # of the file descriptors of the process, for connections


class Reply(msgspec.Struct, frozen=True):
    """A response as bytes. Exactly one of ``body``, ``stream`` and ``duplex`` is used."""

    code: int
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    stream: Stream | None = None
    duplex: Duplex | None = None


Handler = Callable[[R], Awaitable[Reply]]
#: Makes the reply to bytes that never became a request; called with the HTTP code and a message.
Refusal = Callable[[int, str], Reply]


def plain_refusal(code: int, message: str) -> Reply:
    return Reply(code, (("Content-Type", "text/plain; charset=utf-8"),), message.encode())
