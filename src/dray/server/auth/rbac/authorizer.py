"""The RBAC authorizer. It caches decisions per user and namespace until a role or binding changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dray.api.user import UserInfo
from dray.server.auth.authorizer import NO_OPINION, Attributes, Decision, Verdict, is_short
from dray.server.auth.rbac.resolver import Grant, RuleResolver
from dray.server.auth.rbac.rules import PolicyRule

#: How much is remembered before it is dropped whole: a caller can ask about names without end.
_CALLERS: Final = 4096
_QUESTIONS: Final = 1 << 14

_Caller = tuple[str, tuple[str, ...], str]  # name, groups, and the namespace they ask about


class _Candidate(NamedTuple):
    names: frozenset[str] | None  # None: whatever the object's name
    verdict: Verdict


class _Powers:
    """What one caller may do in one namespace."""

    __slots__ = ("_granted", "_refusal")

    def __init__(self, granted: Sequence[Grant]) -> None:
        self._granted = granted
        problems = list(dict.fromkeys(g.problem for g in granted if g.problem))
        self._refusal = NO_OPINION
        if problems:
            listed = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            self._refusal = Verdict(Decision.NO_OPINION, f"RBAC: {listed}")

    def candidates(self, verb: str, group: str, resource: str, subresource: str) -> tuple[_Candidate, ...]:
        """The verdicts on such requests, up to the one that holds whatever the object's name."""
        found = []
        for source, rules, _ in self._granted:
            for rule in rules:
                if rule.concerns(verb, group, resource, subresource):
                    names = frozenset(rule.names) if rule.names else None
                    found.append(_Candidate(names, _allowed(source)))
                    if names is None:
                        return tuple(found)
        return (*found, _Candidate(None, self._refusal))

    def on_path(self, verb: str, path: str) -> Verdict:
        for source, rules, _ in self._granted:
            if any(rule.allows_path(verb, path) for rule in rules):
                return _allowed(source)
        return self._refusal


def _allowed(source: str) -> Verdict:
    return Verdict(Decision.ALLOW, f"RBAC: allowed by {source}")


class RBACAuthorizer:
    """Allows what a role allows; has no opinion on anything else."""

    def __init__(self, resolver: RuleResolver) -> None:
        self.resolver = resolver
        self._powers: dict[_Caller, _Powers] = {}
        self._known: dict[tuple[str, tuple[str, ...], str, str, str, str, str], tuple[_Candidate, ...]] = {}
        self._generation = resolver.generation

    def authorize(self, attributes: Attributes) -> Verdict:
        if self._generation != self.resolver.generation:
            self._generation = self.resolver.generation
            self._powers.clear()
            self._known.clear()
        a, user = attributes, attributes.user
        if a.path and not a.resource:
            return self._powers_of(user, a.namespace).on_path(a.verb, a.path)
        question = (user.name, user.groups, a.namespace, a.verb, a.group, a.resource, a.subresource)
        candidates = self._known.get(question)
        if candidates is None:
            candidates = self._powers_of(user, a.namespace).candidates(*question[3:])
            if is_short(user, *question[2:]):
                if len(self._known) >= _QUESTIONS:
                    self._known.clear()
                self._known[question] = candidates
        for names, verdict in candidates:
            if names is None or a.name in names:
                return verdict
        raise AssertionError("the last candidate is for every name")

    def _powers_of(self, user: UserInfo, namespace: str) -> _Powers:
        caller = (user.name, user.groups, namespace)
        powers = self._powers.get(caller)
        if powers is None:
            powers = _Powers(list(self.resolver.granted(user, namespace)))
            if is_short(user, namespace):
                if len(self._powers) >= _CALLERS:
                    self._powers.clear()
                self._powers[caller] = powers
        return powers

    def rules_for(self, user: UserInfo, namespace: str) -> tuple[list[PolicyRule], list[str]]:
        """What a user may do in a namespace, and what went wrong while finding out."""
        return self.resolver.all_rules(user, namespace)
