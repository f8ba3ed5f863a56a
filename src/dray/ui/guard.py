"""Who is answered: requests with the token, addressed to this server by a name of its own, from its own page.

A page of somebody else's can make a browser send requests here. It cannot read the cookie, but the browser would send
it along; so a request says where it comes from (Origin, Sec-Fetch-Site), and by which name it found the way here
(Host), which keeps out names that were made to point at this address.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dray.wire.messages import Reply, Request

#: What every answer carries. Scripts and styles come from files of this server, and nothing comes from elsewhere.
HEADERS: Final = (
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
_TEXT: Final = (("Content-Type", "text/plain; charset=utf-8"),)
_NO_TOKEN: Final = (
    "This dashboard answers only with its token. Open the address that dray printed, the one that ends in "
    "?token=…; dray status prints it again for the cluster of dray up.\n"
)


def new_token() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, kw_only=True, slots=True)
class Guard:
    """``hosts``: names beside loopback under which this server may be addressed. ``addresses``: any address will do."""

    token: str
    hosts: frozenset[str] = frozenset()
    addresses: bool = False

    @classmethod
    def of(cls, token: str, *, listen: str, hosts: Iterable[str] = ()) -> Guard:
        """A server that listens beyond loopback is addressed by whatever address the machine or pod has. That is safe:
        an attacker can make a name of theirs point here, but not an address."""
        names = {name.lower() for name in hosts}
        try:
            loopback = ipaddress.ip_address(listen).is_loopback
        except ValueError:
            loopback = listen == "localhost"
            names.add(listen.lower())
        return cls(token=token, hosts=frozenset(names), addresses=not loopback)

    def refuse(self, request: Request) -> Reply | None:
        """Why a request is not answered; None if it is."""
        if ".." in request.path or "\\" in request.path or "\0" in request.path:
            return _refusal(400, "No such path.\n")
        host = request.headers.get("host")
        if len(request.headers.all("host")) != 1 or not self._is_ours(host):
            return _refusal(
                403,
                f"This server does not answer to the name {host!r}. If it is one of its names, start it with "
                "--allowed-host.\n",
            )
        if not _same_origin(request, host):
            return _refusal(403, "Requests from other pages are not answered.\n")
        if not self.has_token(request):
            return _refusal(401, _NO_TOKEN, ("WWW-Authenticate", 'Bearer realm="dray"'))
        return None

    def _is_ours(self, host: str) -> bool:
        name = _hostname(host)
        if name == "localhost" or name in self.hosts:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self.addresses

    def has_token(self, request: Request) -> bool:
        return any(_equal(given, self.token) for given in _given_tokens(request))

    def cookie(self, request: Request) -> tuple[str, str] | None:
        """The header that lets the browser keep a token that came in the address."""
        if not _equal(request.query.get("token"), self.token):
            return None
        name = cookie_name(request.headers.get("host"))
        return "Set-Cookie", f"{name}={self.token}; Path=/; HttpOnly; SameSite=Strict"


def _refusal(code: int, message: str, *more: tuple[str, str]) -> Reply:
    return Reply(code, (*_TEXT, *HEADERS, *more), message.encode())


def cookie_name(host: str) -> str:
    """Cookies do not know ports; several dashboards of one machine need cookies of different names."""
    _, _, port = host.rpartition(":")
    return f"dray-ui-{port}" if port.isdigit() else "dray-ui"


def _given_tokens(request: Request) -> Iterable[str]:
    yield request.query.get("token")
    scheme, _, given = request.headers.get("authorization").partition(" ")
    if scheme.lower() == "bearer":
        yield given.strip()
    wanted = cookie_name(request.headers.get("host"))
    for part in request.headers.get("cookie").split(";"):
        name, _, value = part.strip().partition("=")
        if name == wanted:
            yield value


def _equal(given: str, token: str) -> bool:
    return bool(given) and secrets.compare_digest(given.encode(), token.encode())


def _hostname(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().rstrip(".")


def _same_origin(request: Request, host: str) -> bool:
    """Whether our own page, a person or a program without a browser sends this."""
    origin = request.headers.get("origin")
    if origin and origin.partition("://")[2].lower() != host.lower():
        return False
    site = request.headers.get("sec-fetch-site")
    if site in ("", "same-origin", "none"):
        return True
    # Somebody may follow a link to the page itself.
    return (
        request.method == "GET"
        and request.path == "/"
        and request.headers.get("sec-fetch-mode") == "navigate"
    )
