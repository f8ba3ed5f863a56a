"""What arrives: a request, free of any protocol, and what a streaming answer is written to.

HTTP and the in-process transport build the same ``Request``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import unquote_plus

import msgspec

from dray.api.errors import BadRequest
from dray.api.scheme.kinds import Object, UserInfo

if TYPE_CHECKING:
    from dray.server.audit import AuditContext
    from dray.server.endpoints.requestinfo import RequestInfo


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
        """A flag the way upstream reads one from a query: present and neither "false" nor "0"."""
        found = self.all(name)
        return bool(found) and found[0].lower() not in ("false", "0")

    def integer(self, name: str) -> int | None:
        text = self.get(name)
        if not text:
            return None
        return parse_int64(text)


#: For the many requests that have none.
NO_QUERY: Final = Query()


def parse_int64(text: str) -> int:
    digits = text[1:] if text[:1] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    value = int(text) if len(text) < 64 else 1 << 64
    if not -(1 << 63) <= value < 1 << 63:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": value out of range')
    return value


def _parse(raw: str) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for part in raw.split("&"):
        if not part:
            continue
        name, _, value = part.partition("=")
        values.setdefault(unquote_plus(name), []).append(unquote_plus(value))
    return values


class Headers:
    """Header fields by lower-case name; a field sent several times keeps every value."""

    __slots__ = ("_first", "_repeated", "plain")

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._first: dict[str, str] = {}
        self._repeated: dict[str, list[str]] = {}
        self.plain: bool | None = None  # whether they ask for nothing but JSON, once somebody has looked
        for name, value in pairs:
            self.add(name, value)

    def add(self, name: str, value: str) -> None:
        self.plain = None
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

    def __contains__(self, name: str) -> bool:
        return name in self._first

    def __iter__(self) -> Iterator[str]:
        return iter(self._first)


class Request(msgspec.Struct, eq=False):
    """One call. ``body`` is bytes from the wire, or an object from an in-process caller."""

    method: str
    path: str
    query: Query = NO_QUERY
    headers: Headers = msgspec.field(default_factory=Headers)
    body: bytes | Object = b""
    peer: Peer = _NOBODY
    user: UserInfo | None = None  # set beforehand by in-process callers, else by authentication
    warnings: list[str] = msgspec.field(default_factory=list)
    upgradable: bool = False
    target: RequestInfo | None = None  # what the pipeline found the request to be about
    audit_context: AuditContext | None = None  # where the request is audited
    http: tuple[str, bool] = ("1.1", True)  # the version spoken, and whether the connection may stay

    def warn(self, text: str) -> None:
        """Tell the caller something in a Warning header; the same text is sent once."""
        if text not in self.warnings:
            self.warnings.append(text)


class Sink(Protocol):
    """Where a streaming response writes to. ``write`` never waits; ``drained`` does, while the peer is slow."""

    @property
    def congested(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    def write(self, data: bytes) -> None: ...
    async def drained(self) -> None: ...


class Stream(Protocol):
    """A body that is produced over time."""

    async def run(self, sink: Sink) -> None: ...
    def close(self) -> None: ...


class Wire(Sink, Protocol):
    """The far end of an upgraded connection, which can also be closed, and made to wait."""

    def close(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Duplex(Protocol):
    """What an upgraded connection turns into: raw bytes in both directions."""

    def opened(self, wire: Wire) -> None: ...
    def received(self, data: bytes) -> None: ...
    def lost(self) -> None: ...
