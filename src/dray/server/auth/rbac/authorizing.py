"""The RBAC authorizer: decisions from indexed rules, remembered per caller and namespace until a role changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dray.api.kinds import UserInfo
from dray.server.auth import NO_OPINION, Attributes, Decision, Verdict
from dray.server.auth.rbac.resolving import Granted, Resolver
from dray.server.auth.rbac.rules import Rule

#: How much is remembered before it is dropped whole: a caller can ask about names without end.
_CALLERS: Final = 4096
_QUESTIONS: Final = 1024


class _Candidate(NamedTuple):
    names: frozenset[str] | None  # None: whatever the object's name
    verdict: Verdict


class _Powers:
    """What one caller may do in one namespace, indexed by the questions asked so far."""

    __slots__ = ("_granted", "_known", "_refusal")

    def __init__(self, granted: Sequence[Granted]) -> None:
        self._granted = granted
        self._known: dict[tuple[str, str, str, str], tuple[_Candidate, ...]] = {}
        problems = list(dict.fromkeys(g.problem for g in granted if g.problem))
        self._refusal = NO_OPINION
        if problems:
            listed = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            self._refusal = Verdict(Decision.NO_OPINION, f"RBAC: {listed}")

    def verdict(self, attributes: Attributes) -> Verdict:
        if attributes.path and not attributes.resource:
            return self._on_path(attributes.verb, attributes.path)
        question = (attributes.verb, attributes.group, attributes.resource, attributes.subresource)
        candidates = self._known.get(question)
        if candidates is None:
            if len(self._known) >= _QUESTIONS:
                self._known.clear()
            candidates = self._known[question] = self._candidates(*question)
        for names, verdict in candidates:
            if names is None or attributes.name in names:
                return verdict
        return self._refusal

    def _candidates(self, verb: str, group: str, resource: str, subresource: str) -> tuple[_Candidate, ...]:
        found = []
        for source, rules, _ in self._granted:
            for rule in rules:
                if rule.concerns(verb, group, resource, subresource):
                    names = frozenset(rule.names) if rule.names else None
                    found.append(_Candidate(names, _allowed(source)))
                    if names is None:
                        return tuple(found)
        return tuple(found)

    def _on_path(self, verb: str, path: str) -> Verdict:
        for source, rules, _ in self._granted:
            if any(rule.allows_path(verb, path) for rule in rules):
                return _allowed(source)
        return self._refusal


def _allowed(source: str) -> Verdict:
    return Verdict(Decision.ALLOW, f"RBAC: allowed by {source}")


class RBAC:
    """Allows what a role allows; has no opinion on anything else."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self._powers: dict[tuple[str, tuple[str, ...], str], _Powers] = {}
        self._generation = resolver.generation

    def authorize(self, attributes: Attributes) -> Verdict:
        if self._generation != self.resolver.generation:
            self._generation = self.resolver.generation
            self._powers.clear()
        user = attributes.user
        key = (user.name, user.groups, attributes.namespace)
        powers = self._powers.get(key)
        if powers is None:
            if len(self._powers) >= _CALLERS:
                self._powers.clear()
            powers = _Powers(list(self.resolver.granted(user, attributes.namespace)))
            self._powers[key] = powers
        return powers.verdict(attributes)

    def rules_for(self, user: UserInfo, namespace: str) -> tuple[list[Rule], list[str]]:
        """What a user may do in a namespace, and what went wrong while finding out."""
        return self.resolver.all_rules(user, namespace)
