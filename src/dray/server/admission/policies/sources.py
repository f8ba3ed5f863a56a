"""The policies in force: each with its bindings, compiled once per revision, found by the resource of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Generic, TypeVar

from dray.api.kinds import Object
from dray.server.admission import Attributes
from dray.server.admission.matching import Criteria, Matcher
from dray.server.admission.policies.params import resource_of
from dray.server.api import API
from dray.server.documents import Codec, Document
from dray.server.resources import Resource

GROUP: Final = "admissionregistration.k8s.io"
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Binding:
    name: str
    spec: Object
    match: Criteria | None


class Policy(Generic[E]):
    """A policy that at least one binding puts to work. ``evaluator`` is compiled when a request first needs it."""

    def __init__(self, document: Document, compile: Callable[[Object], E]) -> None:
        self.name = document.name
        self.revision = document.revision
        self.obj = document.hub
        self.spec: Object = self.obj.get("spec", {})
        self.match = Criteria.of(self.spec.get("matchConstraints") or {})
        self._compile = compile

    @property
    def ignores_failures(self) -> bool:
        return self.spec.get("failurePolicy") == "Ignore"

    @cached_property
    def evaluator(self) -> E:
        return self._compile(self.obj)


@dataclass(frozen=True, slots=True)
class Hook(Generic[E]):
    policy: Policy[E]
    bindings: tuple[Binding, ...]

    def may_concern(self, attributes: Attributes, matcher: Matcher) -> bool:
        return self.policy.match.may_concern(matcher.equivalents(attributes), attributes.subresource)


class PolicySource(Generic[E]):
    """Policies of one kind. Changes of policies and bindings take effect with the next request."""

    def __init__(self, api: API, matcher: Matcher, family: str, compile: Callable[[Object], E]) -> None:
        self._api = api
        self._matcher = matcher
        self._plurals = (f"{family}admissionpolicies", f"{family}admissionpolicybindings")
        self._compile = compile
        self._subscribed = False
        self._stale = True
        self._hooks: tuple[Hook[E], ...] = ()
        self._policies: dict[str, Policy[E]] = {}
        self._relevant: dict[tuple[str, str, str, str], tuple[Hook[E], ...]] = {}
        self._generation = -1

    def hooks(self, attributes: Attributes) -> tuple[Hook[E], ...]:
        """The policies that may be about a request, in the order of their names."""
        if self._stale:
            self._refresh()
        if not self._hooks:
            return ()
        if self._generation != self._api.resources.generation:
            self._generation = self._api.resources.generation
            self._relevant.clear()
        key = (attributes.group, attributes.version, attributes.resource, attributes.subresource)
        found = self._relevant.get(key)
        if found is None:
            found = tuple(h for h in self._hooks if h.may_concern(attributes, self._matcher))
            self._relevant[key] = found
        return found

    def params(self, policy: Policy[E]) -> tuple[Resource, Codec] | None:
        """What a policy's parameters are; ConfigurationError if nothing of the kind is served."""
        kind = policy.spec.get("paramKind")
        return None if kind is None else resource_of(self._api.resources, kind)

    def _refresh(self) -> None:
        if not self._subscribed and not self._subscribe():
            return
        self._stale = False
        policies, bindings = (self._documents(plural) for plural in self._plurals)
        by_policy: dict[str, list[Binding]] = {}
        for document in bindings:
            spec = document.hub.get("spec", {})
            match = spec.get("matchResources")
            binding = Binding(document.name, spec, None if match is None else Criteria.of(match))
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
            hooks.append(Hook(policy, tuple(bound)))
        self._policies = kept
        self._hooks = tuple(hooks)
        self._relevant.clear()

    def _subscribe(self) -> bool:
        found = [self._api.resources.resource(GROUP, plural) for plural in self._plurals]
        for resource in found:
            if resource is None:
                # The kind is not served, and will not be: built-in kinds are all there before the first request.
                self._stale = False
                return False
        for resource in found:
            assert resource is not None
            resource.stored.subscribe(lambda change: self._mark())
        self._subscribed = True
        return True

    def _mark(self) -> None:
        self._stale = True

    def _documents(self, plural: str) -> Iterable[Document]:
        resource = self._api.resources.resource(GROUP, plural)
        assert resource is not None
        return resource.stored
