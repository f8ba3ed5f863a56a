"""The rule resolver: the rules that apply to a user in a namespace, each with the binding that grants it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dray.api.errors import NotFound, not_found
from dray.api.groups.rbac import GROUP
from dray.api.user import UserInfo
from dray.server.auth.rbac.rules import PolicyRule
from dray.server.auth.serviceaccount import ServiceAccount
from dray.server.registry.resources import Resources
from dray.server.storage.watchcache import Change, WatchCache

if TYPE_CHECKING:
    from dray.api.types.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding, Subject


class Grant(NamedTuple):
    """What one binding gives: its rules, or why they cannot be had."""

    source: str
    rules: tuple[PolicyRule, ...]
    problem: str = ""


class _Subject(NamedTuple):
    """A subject as requests name it, and as upstream words it."""

    kind: str
    name: str
    words: str


class _Binding(NamedTuple):
    words: str
    role_kind: str
    role: str
    namespace: str
    subjects: tuple[_Subject, ...]

    def reaches(self, user: UserInfo) -> _Subject | None:
        """The first subject that is this user or a group of theirs."""
        for subject in self.subjects:
            if subject.name in user.groups if subject.kind == "Group" else subject.name == user.name:
                return subject
        return None


class RuleResolver:
    """Reads roles and bindings from the watch caches; parsed ones are kept until they change."""

    def __init__(self, resources: Resources) -> None:
        self._roles = _stored(resources, "roles")
        self._cluster_roles = _stored(resources, "clusterroles")
        self._bindings = _stored(resources, "rolebindings")
        self._cluster_bindings = _stored(resources, "clusterrolebindings")
        self._rules: dict[tuple[str, str], tuple[PolicyRule, ...]] = {}
        self._everywhere: list[_Binding] | None = None
        self._within: dict[str, list[_Binding]] = {}
        #: raised by every change, so that others know when to forget what they derived
        self.generation = 0
        for cache in (self._roles, self._cluster_roles, self._bindings, self._cluster_bindings):
            cache.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        self.generation += 1
        self._rules.clear()
        self._everywhere = None
        self._within.clear()

    def granted(self, user: UserInfo, namespace: str) -> Iterator[Grant]:
        """Everything that applies to a user, the cluster's bindings first."""
        for binding in self._applicable(namespace):
            subject = binding.reaches(user)
            if subject is None:
                continue
            source = f"{binding.words} to {subject.words}"
            try:
                yield Grant(source, self.rules(binding.role_kind, binding.role, binding.namespace))
            except NotFound as e:
                yield Grant(source, (), e.message)

    def all_rules(self, user: UserInfo, namespace: str) -> tuple[list[PolicyRule], list[str]]:
        """The rules of a user in a namespace, and what could not be resolved."""
        found = list(self.granted(user, namespace))
        return [rule for g in found for rule in g.rules], [g.problem for g in found if g.problem]

    def rules(self, kind: str, name: str, namespace: str) -> tuple[PolicyRule, ...]:
        """The rules of a role that a binding refers to; raises ``NotFound``."""
        cache = self._roles if kind == "Role" else self._cluster_roles
        key = f"{namespace}/{name}" if kind == "Role" else name
        known = self._rules.get((kind, key))
        if known is None:
            document = cache.get(key)
            if document is None:
                raise not_found(kind.lower(), GROUP, name)
            role: ClusterRole | Role = document.hub
            known = tuple(PolicyRule.of(rule) for rule in role.get("rules") or ())
            self._rules[kind, key] = known
        return known

    def _applicable(self, namespace: str) -> Iterator[_Binding]:
        if self._everywhere is None:
            self._everywhere = [_binding(d.hub, "") for d in self._cluster_bindings]
        yield from self._everywhere
        if namespace:
            within = self._within.get(namespace)
            if within is None:
                documents = self._bindings.documents
                within = [_binding(documents[key].hub, namespace) for key in self._bindings.range(namespace)]
                if within:  # anybody can ask for namespaces that there are not
                    self._within[namespace] = within
            yield from within


def _stored(resources: Resources, plural: str) -> WatchCache:
    found = resources.resource(GROUP, plural)
    assert found is not None, f"{plural} are not served"
    return found.cache


def _binding(obj: ClusterRoleBinding | RoleBinding, namespace: str) -> _Binding:
    ref, name = obj["roleRef"], obj["metadata"]["name"]
    kind, shown = ("RoleBinding", f"{name}/{namespace}") if namespace else ("ClusterRoleBinding", name)
    words = f'{kind} "{shown}" of {ref["kind"]} "{ref["name"]}"'
    return _Binding(
        words, ref["kind"], ref["name"], namespace, tuple(_subjects(obj.get("subjects") or (), namespace))
    )


def _subjects(subjects: Sequence[Subject], namespace: str) -> Iterator[_Subject]:
    for subject in subjects:
        kind, name = subject["kind"], subject["name"]
        if kind == "ServiceAccount":
            # In a role binding an account without a namespace is one of the binding's own.
            home = subject.get("namespace") or namespace
            if home:
                yield _Subject(kind, ServiceAccount(home, name).user, f'{kind} "{name}/{home}"')
        else:
            yield _Subject(kind, name, f'{kind} "{name}"')
