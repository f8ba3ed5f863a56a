"""The matcher: which requests match the rules and selectors of a policy or webhook.

With matchPolicy Equivalent a rule that names one version of a resource also matches requests for another version; the
policy or webhook then gets the object in the version that its rule names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from dray.api import errors
from dray.api.scheme.kinds import GroupVersionKind
from dray.api.selectors import LabelSelector, label_selector
from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope
from dray.server.admission.listers import Listers
from dray.server.registry.resources import Resources
from dray.server.storage.codec import Codec

if TYPE_CHECKING:
    from dray.api.types.admissionregistration import (
        MatchResources,
        MutatingWebhook,
        RuleWithOperations,
    )
    from dray.api.types.meta import ObjectMeta


class Matched(NamedTuple):
    """The resource and kind by which a request was matched: its own, or an equivalent version of it."""

    group: str
    version: str
    resource: str
    codec: Codec  # of the objects, in that version

    @property
    def kind(self) -> GroupVersionKind:
        # A codec of another kind, such as that of a binding, stays what it is.
        return GroupVersionKind(self.codec.kind.group, self.codec.version.name, self.codec.kind.kind)


@dataclass(frozen=True, slots=True)
class Rule:
    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]  # resource and subresource
    scope: str
    names: frozenset[str]

    @staticmethod
    def of(part: RuleWithOperations, names: Sequence[str] | None = None) -> Rule:
        resources = []
        for entry in part.get("resources") or ():
            resource, _, subresource = entry.partition("/")
            resources.append((resource, subresource))
        return Rule(
            frozenset(part.get("operations") or ()),
            frozenset(part.get("apiGroups") or ()),
            frozenset(part.get("apiVersions") or ()),
            tuple(resources),
            part.get("scope") or "*",
            frozenset(names or ()),
        )

    def matches(self, attributes: Attributes, group: str, version: str, resource: str) -> bool:
        """Whether the rule is about a request, taken as one for this resource."""
        return (
            self._in_scope(attributes, group, resource)
            and _among(self.operations, attributes.operation)
            and _among(self.groups, group)
            and _among(self.versions, version)
            and self.names_resource(resource, attributes.subresource)
            and (not self.names or attributes.name in self.names)
        )

    def names_resource(self, resource: str, subresource: str) -> bool:
        return any(
            (named == "*" or named == resource) and (below == "*" or below == subresource)
            for named, below in self.resources
        )

    def _in_scope(self, attributes: Attributes, group: str, resource: str) -> bool:
        if self.scope == "*":
            return True
        # A namespace is itself an object of the cluster, although it is looked at as living in itself.
        of_cluster = not attributes.namespace or (resource == "namespaces" and not group)
        return of_cluster == (self.scope == "Cluster")


def _among(listed: frozenset[str], value: str) -> bool:
    return "*" in listed or value in listed


@dataclass(frozen=True, slots=True)
class MatchCriteria:
    """Match constraints, ready to be applied. Without rules they are about every resource."""

    rules: tuple[Rule, ...]
    excluded: tuple[Rule, ...]
    equivalent: bool
    namespaces: LabelSelector
    objects: LabelSelector

    @staticmethod
    def of(
        match: MatchResources | MutatingWebhook,
        rules: Iterable[Rule],
        excluded: Iterable[Rule] = (),
    ) -> MatchCriteria:
        return MatchCriteria(
            tuple(rules),
            tuple(excluded),
            match.get("matchPolicy") == "Equivalent",
            label_selector(match.get("namespaceSelector")),
            label_selector(match.get("objectSelector")),
        )

    def may_concern(self, places: Sequence[Matched], subresource: str) -> bool:
        """Whether a request for a resource, whose equivalents these are, could match at all."""
        return not self.rules or any(
            _among(rule.groups, place.group) and rule.names_resource(place.resource, subresource)
            for rule in self.rules
            for place in places
        )


class Matcher:
    """Holds requests against criteria."""

    def __init__(self, resources: Resources, listers: Listers) -> None:
        self._resources = resources
        self._listers = listers
        self._generation = -1
        self._equivalents: dict[tuple[str, str, str], tuple[Matched, ...]] = {}

    def matches(self, criteria: MatchCriteria, attributes: Attributes) -> Matched | None:
        """By which resource a request matches, or None; a StatusError if that cannot be told."""
        problem: errors.StatusError | None = None
        try:
            if not self._in_namespace(criteria.namespaces, attributes):
                return None
        except errors.StatusError as e:
            problem = e  # which only matters if everything else matches
        if not _selected(criteria.objects, attributes):
            return None
        if criteria.excluded and self._by_rules(criteria.excluded, criteria, attributes) is not None:
            return None
        if criteria.rules:
            found = self._by_rules(criteria.rules, criteria, attributes)
        else:
            found = itself(attributes)
        if found is not None and problem is not None:
            raise problem
        return found

    def _by_rules(
        self, rules: Sequence[Rule], criteria: MatchCriteria, attributes: Attributes
    ) -> Matched | None:
        group, version, resource = attributes.group, attributes.version, attributes.resource
        for rule in rules:
            if rule.matches(attributes, group, version, resource):
                return itself(attributes)
        if not criteria.equivalent:
            return None
        places = self.equivalents(attributes)
        for rule in rules:
            for place in places:
                if (place.group, place.version, place.resource) == (group, version, resource):
                    continue
                if rule.matches(attributes, place.group, place.version, place.resource):
                    return _of_same_kind(place, attributes)
        return None

    def _in_namespace(self, selector: LabelSelector, attributes: Attributes) -> bool:
        namespaces = attributes.resource == "namespaces"
        if not attributes.namespace and not namespaces:
            return True  # objects of the cluster are never exempt
        if selector.empty:
            return True
        if namespaces and not attributes.subresource and attributes.operation in (CREATE, UPDATE):
            metadata: ObjectMeta = attributes.object["metadata"]
            return selector.matches(metadata.get("labels"))
        namespace = self._listers.namespace(attributes.namespace)
        if namespace is None:
            raise errors.not_found("namespaces", "", attributes.namespace)
        return selector.matches(namespace["metadata"].get("labels"))

    def equivalents(self, attributes: Attributes | RequestScope) -> tuple[Matched, ...]:
        """Every group, version and name under which the same objects are served."""
        if self._generation != self._resources.generation:
            self._generation = self._resources.generation
            self._equivalents.clear()
        key = (attributes.group, attributes.version, attributes.resource)
        places = self._equivalents.get(key)
        if places is None:
            places = self._equivalents[key] = self._served_alike(key)
        return places

    def _served_alike(self, key: tuple[str, str, str]) -> tuple[Matched, ...]:
        found = self._resources.find(*key)
        if found is None:
            return ()  # its definition has just been deleted
        resource, codec = found
        if resource.kind.virtual:
            return (Matched(*key, codec),)
        alike = [r for r in self._resources if not r.kind.virtual and r.cache is resource.cache]
        return tuple(
            Matched(r.kind.group, version, r.kind.plural, r.codecs.by_version[version])
            for r in sorted(alike, key=lambda r: r is not resource)
            for version in r.served
        )


def itself(attributes: Attributes) -> Matched:
    """The request matched as what it is."""
    return Matched(attributes.group, attributes.version, attributes.resource, attributes.codec)


def _of_same_kind(place: Matched, attributes: Attributes) -> Matched:
    """An equivalent place; the body of a subresource such as a binding has no other version there."""
    if attributes.codec.kind.kind == place.codec.kind.kind:
        return place
    return place._replace(codec=attributes.codec)


def _selected(selector: LabelSelector, attributes: Attributes) -> bool:
    if selector.empty:
        return True
    return any(
        obj is not None and selector.matches((obj.get("metadata") or {}).get("labels"))
        for obj in (attributes.object, attributes.old)
    )


#: Kinds by which admission itself is configured: webhooks are not asked about them, lest one locks everybody out.
EXEMPT: Final = frozenset(
    f"{family}{kind}"
    for family in ("Mutating", "Validating")
    for kind in ("WebhookConfiguration", "AdmissionPolicy", "AdmissionPolicyBinding")
)
