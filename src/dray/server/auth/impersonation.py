"""Impersonation: a request that acts as another user.

The constrained modes are tried first: they need permission to impersonate the user and to do the action in the name of
that user. The legacy mode needs only permission to impersonate the user. The mode that last worked for a caller is
tried first the next time, and its refusal is the one that the caller gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from msgspec.structs import replace

from dray.api.errors import BadRequest, Forbidden
from dray.api.user import UserInfo
from dray.api.validation import names
from dray.server.auth.authorizer import Attributes, AuthorizerFunc
from dray.server.auth.forbidden import forbidden
from dray.server.auth.serviceaccount import service_account_groups, service_account_of
from dray.server.auth.user import ANONYMOUS, AUTHENTICATED, MASTERS, NODE_PREFIX, NODES, UNAUTHENTICATED
from dray.wire.messages import Headers

NODE_NAME: Final = "authentication.kubernetes.io/node-name"
_GROUP: Final = "authentication.k8s.io"
_EXTRA: Final = "impersonate-extra-"
#: From this many on, the leave to be anybody is asked for first.
_MANY: Final = 4
_REMEMBERED: Final = 4096


def wanted_user(headers: Headers) -> UserInfo | None:
    """Whom a request wants to act as."""
    for name in headers:
        if name.startswith("impersonate-"):
            break
    else:
        return None
    extra: dict[str, tuple[str, ...]] = {}
    for header in headers:
        if header.startswith(_EXTRA):
            key = unquote(header[len(_EXTRA) :])
            extra[key] = (*extra.get(key, ()), *headers.all(header))
    wanted = UserInfo(
        headers.get("impersonate-user"),
        headers.get("impersonate-uid"),
        tuple(headers.all("impersonate-group")),
        extra,
    )
    if wanted.name:
        return wanted
    if wanted.uid or wanted.groups or wanted.extra:
        raise BadRequest(f"requested {_go(wanted)} without impersonating a user name")
    return None


def _go(user: UserInfo) -> str:
    """A user the way Go prints one."""

    def strings(values: Sequence[str]) -> str:
        return "[]string{" + ", ".join(f'"{v}"' for v in values) + "}"

    groups = strings(user.groups) if user.groups else "[]string(nil)"
    listed = ", ".join(f'"{key}":{strings(values)}' for key, values in sorted(user.extra.items()))
    extra = f"map[string][]string{{{listed}}}" if user.extra else "map[string][]string(nil)"
    return f'&user.DefaultInfo{{Name:"{user.name}", UID:"{user.uid}", Groups:{groups}, Extra:{extra}}}'


def node_of(name: str) -> str:
    """The node behind the name of a user, if it is one's."""
    node = name.removeprefix(NODE_PREFIX)
    return node if node != name and not names.dns1123_subdomain(node) else ""


@dataclass(frozen=True, slots=True)
class _Mode:
    """One way to act as somebody. ``constraint`` is empty for the old way."""

    constraint: str
    applies: Callable[[UserInfo, UserInfo], bool]  # the wanted user, the caller

    @property
    def verb(self) -> str:
        return f"impersonate:{self.constraint}" if self.constraint else "impersonate"


def _bare(user: UserInfo) -> bool:
    return not (user.uid or user.groups or user.extra)


def _own_node(wanted: UserInfo, caller: UserInfo) -> bool:
    node = node_of(wanted.name)
    return (
        bool(node)
        and _bare(wanted)
        and service_account_of(caller.name) is not None
        and tuple(caller.extra.get(NODE_NAME, ())) == (node,)
    )


_ASSOCIATED: Final = _Mode("associated-node", _own_node)
_LEGACY: Final = _Mode("", lambda wanted, caller: True)
_MODES: Final = (
    _ASSOCIATED,
    _Mode("arbitrary-node", lambda wanted, caller: bool(node_of(wanted.name)) and _bare(wanted)),
    _Mode(
        "serviceaccount", lambda wanted, caller: service_account_of(wanted.name) is not None and _bare(wanted)
    ),
    _Mode(
        "user-info",
        lambda wanted, caller: not node_of(wanted.name) and service_account_of(wanted.name) is None,
    ),
    _LEGACY,
)


class Impersonation:
    """Decides who a caller may become."""

    def __init__(self, authorize: AuthorizerFunc, *, constrained: bool = True) -> None:
        self._authorize = authorize
        self._modes = _MODES if constrained else (_LEGACY,)
        self._last: dict[tuple[str, str, tuple[str, ...]], _Mode] = {}

    def impersonate(self, wanted: UserInfo, request: Attributes) -> UserInfo:
        """The user the request is from now on; raises ``Forbidden``. ``request`` is what the caller wants to do."""
        caller = request.user
        key = (caller.name, caller.uid, caller.groups)
        last = self._last.get(key)
        modes = self._modes if last is None else (last, *(m for m in self._modes if m is not last))
        refusal: Forbidden | None = None
        for mode in modes:
            if not mode.applies(wanted, caller):
                continue
            try:
                found = self._try(mode, wanted, request)
            except Forbidden as e:
                refusal = refusal or e
                continue
            if len(self._last) >= _REMEMBERED:
                self._last.clear()
            self._last[key] = mode
            return found
        try:
            raise refusal or Forbidden("all impersonation modes failed")
        finally:
            del refusal  # it refers to this frame

    def _try(self, mode: _Mode, wanted: UserInfo, request: Attributes) -> UserInfo:
        if mode.constraint:
            if mode is _ASSOCIATED:
                # Every node of this caller's is the same to the authorizer.
                keys = {
                    "authentication.kubernetes.io/associated-node-keys": tuple(sorted(request.user.extra))
                }
                request = replace(request, user=request.user._replace(extra=keys))
            self._check(replace(request, verb=f"impersonate-on:{mode.constraint}:{request.verb}"))
        found = self._named(mode, wanted, request.user)
        for attributes in self._questions(mode, wanted, request.user):
            self._check(attributes)
        if found.name == ANONYMOUS.name:
            missing = UNAUTHENTICATED
        elif UNAUTHENTICATED in found.groups:
            return found
        else:
            missing = AUTHENTICATED
        return found if missing in found.groups else found._replace(groups=(*found.groups, missing))

    def _check(self, attributes: Attributes) -> None:
        verdict = self._authorize(attributes)
        if not verdict.allowed:
            raise forbidden(attributes, verdict.reason)

    def _allowed(self, attributes: Attributes) -> bool:
        return self._authorize(attributes).allowed

    def _named(self, mode: _Mode, wanted: UserInfo, caller: UserInfo) -> UserInfo:
        """The wanted user, once the caller is known to be allowed that name; accounts and nodes bring their groups."""
        group = _GROUP if mode.constraint else ""
        attributes = Attributes(caller, mode.verb, group, "v1", "users", name=wanted.name)
        groups = wanted.groups
        account = service_account_of(wanted.name)
        if account is not None:
            attributes = replace(
                attributes, resource="serviceaccounts", namespace=account.namespace, name=account.name
            )
            groups = groups or service_account_groups(account.namespace)
        elif mode.constraint and (node := node_of(wanted.name)):
            attributes = replace(attributes, resource="nodes", name="*" if mode is _ASSOCIATED else node)
            groups = (NODES,)
        self._check(attributes)
        return wanted._replace(groups=groups)

    def _questions(self, mode: _Mode, wanted: UserInfo, caller: UserInfo) -> Iterator[Attributes]:
        """What has to be allowed beside the name."""
        if wanted.uid:
            yield Attributes(caller, mode.verb, _GROUP, "v1", "uids", name=wanted.uid)
        if wanted.groups:
            yield from self._group_questions(mode, wanted.groups, caller)
        if wanted.extra:
            yield from self._extra_questions(mode, wanted.extra, caller)

    def _group_questions(self, mode: _Mode, groups: Sequence[str], caller: UserInfo) -> Iterator[Attributes]:
        base = Attributes(caller, mode.verb, _GROUP if mode.constraint else "", "v1", "groups")
        if mode.constraint:
            if "" in groups:
                raise forbidden(base, "impersonating the empty string group is not allowed")
            if MASTERS in groups:
                words = "impersonating the system:masters group is not allowed"
                raise forbidden(replace(base, name=MASTERS), words)
            if len(groups) >= _MANY and self._allowed(replace(base, name="*")):
                return
        for group in groups:
            yield replace(base, name=group)

    def _extra_questions(
        self, mode: _Mode, extra: Mapping[str, Sequence[str]], caller: UserInfo
    ) -> Iterator[Attributes]:
        base = Attributes(caller, mode.verb, _GROUP, "v1", "userextras")
        if mode.constraint:
            if problem := _extra_problem(extra):
                raise forbidden(base, problem)
            many = len(extra) >= _MANY or sum(map(len, extra.values())) >= _MANY
            if many and self._allowed(replace(base, subresource="*", name="*")):
                return
        for key, values in extra.items():
            for value in values:
                yield replace(base, subresource=key, name=value)


def _extra_problem(extra: Mapping[str, Sequence[str]]) -> str:
    for key, values in extra.items():
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        domain, _, path = key.partition("/")
        if not domain or not path:
            words = 'must be a domain-prefixed path (such as "acme.io/foo")'
            problem = f'extra.key: Invalid value: "{key}": {words}'
            return f"impersonating an invalid key in extra is not allowed: {problem}"
        if found := names.dns1123_subdomain(domain):
            problem = f'extra.key: Invalid value: "{domain}": {found[0]}'
            return f"impersonating an invalid key in extra is not allowed: {problem}"
        if key != key.lower():
            return f'impersonating a non-lowercase key in extra is not allowed: "{key}"'
        if not values:
            return "impersonating empty values in extra is not allowed"
        if "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return ""
