"""Authorizers: the interface, what they decide about, and the chain that asks them in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol, runtime_checkable

import msgspec

from dray.api.user import UserInfo
from dray.server.auth.user import MASTERS

MODES: Final = ("AlwaysAllow", "AlwaysDeny", "Node", "RBAC")
#: How many callers are remembered before all are forgotten.
_CALLERS: Final = 4096
_LONGEST: Final = 1024


class Attributes(msgspec.Struct, frozen=True):
    """What somebody wants to do, as authorizers see it."""

    user: UserInfo
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""  # of a request that is about no resource
    field_selector: str = ""
    label_selector: str = ""

    @property
    def is_resource(self) -> bool:
        # A review may ask about resources without naming one; only what is about no resource has nothing but a path.
        return bool(self.resource) or not self.path


class Decision(Enum):
    ALLOW = "allow"
    DENY = "deny"
    NO_OPINION = "no opinion"


class Verdict(NamedTuple):
    decision: Decision
    reason: str = ""

    @property
    def allowed(self) -> bool:
        return self.decision is Decision.ALLOW


NO_OPINION: Final = Verdict(Decision.NO_OPINION)


class Authorizer(Protocol):
    """Has an opinion on what may be done. It answers from memory: authorization is on every request's path."""

    def authorize(self, attributes: Attributes) -> Verdict: ...


AuthorizerFunc = Callable[[Attributes], Verdict]


@runtime_checkable
class SelectiveAuthorizer(Authorizer, Protocol):
    """Has an opinion on certain users only, told by their names and groups."""

    def concerns(self, user: UserInfo) -> bool: ...


class AuthorizerChain:
    """The first authorizer with an opinion decides; nobody's opinion is a no."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = tuple(
            (a, a.concerns if isinstance(a, SelectiveAuthorizer) else _concerns_all) for a in authorizers
        )
        self._concerned: dict[tuple[str, tuple[str, ...]], Sequence[Authorizer]] = {}

    def authorize(self, attributes: Attributes) -> Verdict:
        user = attributes.user
        concerned = self._concerned.get((user.name, user.groups))
        if concerned is None:
            concerned = self._about(user)
        reasons = []
        for authorizer in concerned:
            verdict = authorizer.authorize(attributes)
            if verdict.decision is not Decision.NO_OPINION:
                return verdict
            if verdict.reason:
                reasons.append(verdict.reason)
        return Verdict(Decision.NO_OPINION, "\n".join(reasons))

    def _about(self, user: UserInfo) -> Sequence[Authorizer]:
        """The authorizers that may have an opinion on what a user does."""
        found = tuple([authorizer for authorizer, concerns in self._authorizers if concerns(user)])
        if is_short(user):
            if len(self._concerned) >= _CALLERS:
                self._concerned.clear()
            self._concerned[user.name, user.groups] = found
        return found


def is_short(user: UserInfo, *texts: str) -> bool:
    """Whether an answer about a user and these parts of a path is kept: anybody can send long ones and many of them."""
    return len(user.name) + sum(map(len, user.groups)) + sum(map(len, texts)) <= _LONGEST


def _concerns_all(user: UserInfo) -> bool:
    return True


class AlwaysAllow:
    def authorize(self, attributes: Attributes) -> Verdict:
        return Verdict(Decision.ALLOW)


class AlwaysDeny:
    def authorize(self, attributes: Attributes) -> Verdict:
        return Verdict(Decision.NO_OPINION, "Everything is forbidden.")


class PrivilegedGroups:
    """system:masters may do anything, whatever other authorizers say."""

    def concerns(self, user: UserInfo) -> bool:
        return MASTERS in user.groups

    def authorize(self, attributes: Attributes) -> Verdict:
        return Verdict(Decision.ALLOW) if MASTERS in attributes.user.groups else NO_OPINION
