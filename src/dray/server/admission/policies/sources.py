"""The policies with their bindings. A policy is compiled once per revision and found by the resource of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from dray.server.admission import Attributes, RequestScope
from dray.server.admission.index import Index
from dray.server.admission.matcher import MatchCriteria, Matcher, Rule
from dray.server.admission.policies.params import resource_of
from dray.server.apiserver import APIServer
from dray.server.registry.resources import Resource
from dray.server.storage.codec import Codec
from dray.server.storage.documents import Document
from dray.server.storage.watchcache import WatchCache

if TYPE_CHECKING:
    from dray.api.types.admissionregistration import (
        MatchResources,
        MutatingAdmissionPolicySpec,
        NamedRuleWithOperations,
        ValidatingAdmissionPolicyBindingSpec,
        ValidatingAdmissionPolicySpec,
    )

GROUP: Final = "admissionregistration.k8s.io"
E = TypeVar("E")


def _criteria(match: MatchResources) -> MatchCriteria:
    return MatchCriteria.of(
        match, _rules(match.get("resourceRules")), _rules(match.get("excludeResourceRules"))
    )


def _rules(rules: Sequence[NamedRuleWithOperations] | None) -> Iterator[Rule]:
    return (Rule.of(rule, rule.get("resourceNames")) for rule in rules or ())


@dataclass(frozen=True, slots=True)
class Binding:
    name: str
    spec: ValidatingAdmissionPolicyBindingSpec  # a mutating one has no fields of its own
    match: MatchCriteria | None


class Policy(Generic[E]):
    """A policy that at least one binding puts to work. ``evaluator`` is compiled when a request first needs it."""

    def __init__(self, document: Document, compile: Callable[[Any], E]) -> None:
        self.name = document.name
        self.revision = document.revision
        self.obj: Any = document.hub
        self.spec: MutatingAdmissionPolicySpec | ValidatingAdmissionPolicySpec = self.obj.get("spec", {})
        match: MatchResources | None = self.spec.get("matchConstraints")
        self.match = _criteria(match or {})
        self._compile = compile

    @property
    def ignores_failures(self) -> bool:
        return self.spec.get("failurePolicy") == "Ignore"

    @cached_property
    def evaluator(self) -> E:
        return self._compile(self.obj)


@dataclass(frozen=True, slots=True)
class PolicyHook(Generic[E]):
    policy: Policy[E]
    bindings: tuple[Binding, ...]

    @property
    def match(self) -> MatchCriteria:
        return self.policy.match


class PolicySource(Generic[E]):
    """Policies of one kind. Changes of policies and bindings take effect with the next request."""

    def __init__(self, api: APIServer, matcher: Matcher, family: str, compile: Callable[[Any], E]) -> None:
        self._api = api
        self._plurals = (f"{family}admissionpolicies", f"{family}admissionpolicybindings")
        self._compile = compile
        self._caches: list[WatchCache] = []
        self._stale = True
        self._forgetful: list[Callable[[], None]] = []
        self._index: Index[PolicyHook[E]] = Index(api.resources, matcher)
        self._policies: dict[str, Policy[E]] = {}

    def hooks(self, attributes: Attributes | RequestScope) -> tuple[PolicyHook[E], ...]:
        """The policies that may be about a request, in the order of their names."""
        if self._stale:
            self._refresh()
        return self._index.find(attributes)

    def params(self, policy: Policy[E]) -> tuple[Resource, Codec] | None:
        """What a policy's parameters are; ConfigurationError if nothing of the kind is served."""
        kind = policy.spec.get("paramKind")
        return None if kind is None else resource_of(self._api.resources, kind)

    def _refresh(self) -> None:
        self._stale = False
        if not self._caches and not self._subscribe():
            return
        policies, bindings = self._caches
        by_policy: dict[str, list[Binding]] = {}
        for document in bindings:
            spec: ValidatingAdmissionPolicyBindingSpec = document.hub.get("spec", {})
            match = spec.get("matchResources")
            binding = Binding(document.name, spec, None if match is None else _criteria(match))
            by_policy.setdefault(spec.get("policyName", ""), []).append(binding)
        kept: dict[str, Policy[E]] = {}
        hooks = []
        for document in policies:
            bound = by_policy.get(document.name)
            if bound is None:
                continue
            policy = self._policies.get(document.name)
            if policy is None or policy.revision != document.revision:
                policy = Policy(document, self._compile)
            kept[document.name] = policy
            hooks.append(PolicyHook(policy, tuple(bound)))
        self._policies = kept
        self._index.fill(hooks)

    def _subscribe(self) -> bool:
        """Built-in kinds are all there before the first request; one that is not served has no policies."""
        found = [self._api.resources.resource(GROUP, plural) for plural in self._plurals]
        if any(resource is None for resource in found):
            return False
        self._caches = [resource.cache for resource in found if resource is not None]
        for cache in self._caches:
            cache.subscribe(lambda change: self._mark())
        return True

    def on_change(self, forget: Callable[[], None]) -> None:
        """Have ``forget`` called when a request may meet others than before."""
        self._forgetful.append(forget)
        self._api.resources.on_change(forget)  # what is served tells what is equivalent

    def _mark(self) -> None:
        self._stale = True
        for forget in self._forgetful:
            forget()
