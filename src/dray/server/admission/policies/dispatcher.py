"""The dispatcher: the evaluations of a request, one for each matching policy, binding and parameter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from dray.api.errors import StatusError
from dray.api.scheme.kinds import Object
from dray.server.admission import Attributes
from dray.server.admission.matcher import Matched, Matcher
from dray.server.admission.policies.params import ConfigurationError, collect
from dray.server.admission.policies.sources import Binding, Policy, PolicySource

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Invocation(Generic[E]):
    """A policy to be evaluated, as a binding wants it, with one parameter or none."""

    policy: Policy[E]
    binding: Binding
    matched: Matched
    param: Object | None


@dataclass(frozen=True, slots=True)
class Misconfigured(Generic[E]):
    """A policy, or one binding of it, that cannot be evaluated."""

    policy: Policy[E]
    binding: Binding | None
    error: Exception

    @property
    def message(self) -> str:
        return f"failed to configure {'policy' if self.binding is None else 'binding'}: {self.error}"


def invocations(
    source: PolicySource[E], matcher: Matcher, attributes: Attributes
) -> Iterator[Invocation[E] | Misconfigured[E]]:
    for hook in source.hooks(attributes):
        policy = hook.policy
        try:
            matched = matcher.matches(policy.match, attributes)
            if matched is None:
                continue
            kind = source.params(policy)
        except (StatusError, ConfigurationError) as e:
            yield Misconfigured(policy, None, e)
            continue
        for binding in hook.bindings:
            try:
                if binding.match is not None and matcher.matches(binding.match, attributes) is None:
                    continue
                params = collect(kind, binding.spec.get("paramRef"), attributes.namespace)
            except (StatusError, ConfigurationError) as e:
                yield Misconfigured(policy, binding, e)
                continue
            for param in params:
                yield Invocation(policy, binding, matched, param)
