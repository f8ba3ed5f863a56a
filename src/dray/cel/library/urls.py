"""URLs, taken apart as Go's net/url does it."""

from __future__ import annotations

import re
from typing import Final

from dray.api.validation.field import quote
from dray.cel.common import types as t
from dray.cel.common.decls import Library, overload
from dray.cel.errors import EvaluationError

URL_TYPE: Final = t.object_type("kubernetes.URL")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_IN_PATH: Final = _UNRESERVED | frozenset("$&+,/:;=@")
_RAW_IN_PATH: Final = _IN_PATH | frozenset("!'()*[]")
_IN_HOST: Final = _UNRESERVED | frozenset("!$&'()*+,;=:[]<>\"")
_IN_USER: Final = _UNRESERVED | frozenset("!$&'()*+,;=:%@")
_PERCENT: Final = re.compile(r"%(.{0,2})", re.DOTALL)
_HEX: Final = re.compile(r"[0-9a-fA-F]{2}")


class URL:
    """A parsed URL. Two are equal if they print the same."""

    __slots__ = ("fragment", "host", "opaque", "path", "query", "raw_path", "scheme", "user")
    cel_type = URL_TYPE
    go_type = "cel.URL"

    def __init__(self) -> None:
        self.scheme = self.opaque = self.host = self.path = self.raw_path = ""
        self.user: str | None = None
        self.query: str | None = None
        self.fragment: str | None = None

    def _parts(self) -> tuple[object, ...]:
        return (
            self.scheme,
            self.opaque,
            self.user,
            self.host,
            self.escaped_path(),
            self.query,
            self.fragment or "",
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, URL) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def hostname(self) -> str:
        if self.host.startswith("["):
            return self.host[1:].partition("]")[0]
        name, colon, port = self.host.rpartition(":")
        return name if colon and _is_port(port) else self.host

    def port(self) -> str:
        rest = self.host.rpartition("]")[2] if self.host.startswith("[") else self.host
        _, colon, port = rest.rpartition(":")
        return port if colon and _is_port(port) else ""

    def escaped_path(self) -> str:
        if self.raw_path and all(c in _RAW_IN_PATH or c == "%" for c in self.raw_path):
            return self.raw_path
        return "*" if self.path == "*" else _escape(self.path)

    def parameters(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for part in (self.query or "").split("&"):
            if not part or ";" in part:
                continue
            key, _, value = part.partition("=")
            try:
                name, text = _unescape(key, plus=True), _unescape(value, plus=True)
            except ValueError:
                continue
            found.setdefault(name, []).append(text)
        return found


def _is_port(text: str) -> bool:
    return text.isascii() and (text.isdigit() or not text)


def _escape(path: str) -> str:
    return "".join(c if c in _IN_PATH else "".join(f"%{b:02X}" for b in c.encode()) for c in path)


def _unescape(text: str, *, plus: bool = False, host: bool = False) -> str:
    for found in _PERCENT.finditer(text):
        if not _HEX.fullmatch(found[1]):
            raise ValueError(f"invalid URL escape {quote(found[0])}")
        if host and int(found[1], 16) < 0x80 and found[1] != "25":
            raise ValueError(f"invalid URL escape {quote(found[0])}")
    if host:
        for c in text:
            if c.isascii() and c not in _IN_HOST and c != "%":
                raise ValueError(f"invalid character {quote(c)} in host name")
    if plus:
        text = text.replace("+", " ")
    if "%" not in text:
        return text
    raw = re.sub(rb"%([0-9a-fA-F]{2})", lambda found: bytes([int(found[1], 16)]), text.encode())
    return raw.decode(errors="replace")


def parse(text: str, *, request: bool) -> URL:
    """A URL; ValueError in Go's words. With ``request`` it must be absolute, or an absolute path."""
    try:
        return _parse(text, request=request)
    except ValueError as wrong:
        raise ValueError(f"parse {quote(text)}: {wrong}") from None


def _parse(text: str, *, request: bool) -> URL:
    url = URL()
    if not request:
        text, hash, fragment = text.partition("#")
        url.fragment = _unescape(fragment) if hash else None
    if any(ord(c) < 0x20 or ord(c) == 0x7F for c in text):
        raise ValueError("net/url: invalid control character in URL")
    if not text and request:
        raise ValueError("empty url")
    if text == "*":
        url.path = "*"
        return url
    url.scheme, rest = _scheme(text)
    rest, question, query = rest.partition("?")
    url.query = query if question else None
    if not rest.startswith("/"):
        if url.scheme:
            url.opaque = rest
            return url
        if request:
            raise ValueError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    if rest.startswith("//") and (url.scheme or (not request and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        _authority(url, authority)
    url.path = _unescape(rest)
    url.raw_path = "" if _escape(url.path) == rest else rest
    return url


def _scheme(text: str) -> tuple[str, str]:
    for i, c in enumerate(text):
        if c.isascii() and c.isalpha():
            continue
        if c in "0123456789+-.":
            if i == 0:
                return "", text
            continue
        if c == ":":
            if i == 0:
                raise ValueError("missing protocol scheme")
            return text[:i].lower(), text[i + 1 :]
        return "", text
    return "", text


def _authority(url: URL, authority: str) -> None:
    user, at, host = authority.rpartition("@")
    if at:
        if any(c not in _IN_USER for c in user):
            raise ValueError("net/url: invalid userinfo")
        _unescape(user)
        url.user = user
    url.host = _host(host)


def _host(host: str) -> str:
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise ValueError("missing ']' in host")
        port = host[end + 1 :]
    else:
        _, colon, tail = host.rpartition(":")
        port = colon + tail if colon else ""
    if port and not (port[0] == ":" and _is_port(port[1:])):
        raise ValueError(f"invalid port {quote(port)} after host")
    return _unescape(host, host=True)


def _to_url(text: str) -> URL:
    try:
        parse(text, request=True)
        return parse(text, request=False)
    except ValueError as wrong:
        raise EvaluationError(f"URL parse error during conversion from string: {wrong}") from None


def is_url(text: str) -> bool:
    try:
        parse(text, request=True)
    except ValueError:
        return False
    return True


_U: Final = "kubernetes.URL"

URLS: Final = Library(
    name="kubernetes.urls",
    types=(URL_TYPE,),
    overloads=(
        overload("url", "string_to_url", f"(string) -> {_U}", _to_url),
        overload("getScheme", "url_get_scheme", f"{_U}.() -> string", lambda url: url.scheme),
        overload("getHost", "url_get_host", f"{_U}.() -> string", lambda url: url.host),
        overload("getHostname", "url_get_hostname", f"{_U}.() -> string", URL.hostname),
        overload("getPort", "url_get_port", f"{_U}.() -> string", URL.port),
        overload("getEscapedPath", "url_get_escaped_path", f"{_U}.() -> string", URL.escaped_path),
        overload("getQuery", "url_get_query", f"{_U}.() -> map(string, list(string))", URL.parameters),
        overload("isURL", "is_url_string", "(string) -> bool", is_url),
    ),
)
