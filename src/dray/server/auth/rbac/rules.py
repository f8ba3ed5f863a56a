"""Policy rules: what a rule allows, and whether other rules together cover it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dray.server.auth.authorizer import Attributes

if TYPE_CHECKING:
    from dray.api.types import rbac

ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Verbs on resources of groups, perhaps only those of certain names; or verbs on paths."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    @classmethod
    def of(cls, rule: rbac.PolicyRule) -> PolicyRule:
        return cls(
            tuple(rule.get("verbs") or ()),
            tuple(rule.get("apiGroups") or ()),
            tuple(rule.get("resources") or ()),
            tuple(rule.get("resourceNames") or ()),
            tuple(rule.get("nonResourceURLs") or ()),
        )

    def object(self) -> rbac.PolicyRule:
        """The rule as it is written in a role."""
        found: rbac.PolicyRule = {"verbs": list(self.verbs)}
        if self.groups:
            found["apiGroups"] = list(self.groups)
        if self.resources:
            found["resources"] = list(self.resources)
        if self.names:
            found["resourceNames"] = list(self.names)
        if self.urls:
            found["nonResourceURLs"] = list(self.urls)
        return found

    def allows(self, attributes: Attributes) -> bool:
        if not attributes.is_resource:
            return self.allows_path(attributes.verb, attributes.path)
        return self.concerns(
            attributes.verb, attributes.group, attributes.resource, attributes.subresource
        ) and (not self.names or attributes.name in self.names)

    def concerns(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Whether this rule is about such requests, names left aside."""
        if verb not in self.verbs and ALL not in self.verbs:
            return False
        if group not in self.groups and ALL not in self.groups:
            return False
        resources = self.resources
        if ALL in resources:
            return True
        if not subresource:
            return resource in resources
        return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources

    def allows_path(self, verb: str, path: str) -> bool:
        if verb not in self.verbs and ALL not in self.verbs:
            return False
        return any(
            url in (ALL, path) or (url.endswith("*") and path.startswith(url.rstrip("*")))
            for url in self.urls
        )

    def parts(self) -> Iterator[PolicyRule]:
        """The same permissions as rules of one verb on one thing each."""
        for verb in self.verbs:
            for group in self.groups:
                for resource in self.resources:
                    for name in self.names or ("",):
                        yield PolicyRule((verb,), (group,), (resource,), (name,) if name else ())
            for url in self.urls:
                yield PolicyRule((verb,), urls=(url,))

    def covers(self, part: PolicyRule) -> bool:
        """Whether this rule gives all that a rule of one verb on one thing gives."""
        if ALL not in self.verbs and part.verbs[0] not in self.verbs:
            return False
        if part.urls:
            return any(_covers_url(mine, part.urls[0]) for mine in self.urls)
        if not self.resources or (ALL not in self.groups and part.groups[0] not in self.groups):
            return False
        if not _covers_resource(self.resources, part.resources[0]):
            return False
        return not self.names or (bool(part.names) and part.names[0] in self.names)

    def __str__(self) -> str:
        """The way upstream writes a rule into its refusals."""
        fields = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{name}:{_quoted(values)}" for name, values in fields if values) + "}"


def _quoted(values: Sequence[str]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _covers_url(mine: str, url: str) -> bool:
    if mine in (ALL, url):
        return True
    return mine.endswith("*") and url.startswith(mine.rstrip("*"))


def _covers_resource(mine: Sequence[str], resource: str) -> bool:
    if ALL in mine or resource in mine:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in mine


def uncovered(owned: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """The parts of the wanted rules that the owned rules do not give."""
    return [part for rule in wanted for part in rule.parts() if not any(mine.covers(part) for mine in owned)]
