"""Reinvocation: policies and webhooks that run again because later ones have changed the object."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from dray.api.objects import clone
from dray.server.admission import Attributes, ReinvocationContext

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class ReinvokeContext(Generic[K]):
    """What a plugin remembers between the two rounds about its policies or webhooks, by their keys."""

    last_output: Any = None  # the object as the round before left it
    #: have run, and run again if the object changes after them
    previously_invoked: set[K] = field(default_factory=set)
    to_reinvoke: set[K] = field(default_factory=set)

    def require_reinvoking(self, shared: ReinvocationContext) -> None:
        """The object has been changed: those that have run before have to run again."""
        self._reinvoke_previous()
        shared.should_reinvoke = True

    def skips(self, key: K, shared: ReinvocationContext) -> bool:
        return shared.is_reinvoke and key not in self.to_reinvoke

    def set_last_output(self, attributes: Attributes) -> None:
        """The round is over."""
        self.last_output = clone(attributes.object)

    def _reinvoke_previous(self) -> None:
        self.to_reinvoke |= self.previously_invoked
        self.previously_invoked = set()


def reinvoke_context(plugin: str, attributes: Attributes) -> ReinvokeContext[K]:
    """A plugin's context at the beginning of a round. Changes that other plugins made since count as well."""
    shared = attributes.reinvocation_context()
    context: ReinvokeContext[K] = shared.contexts.setdefault(plugin, ReinvokeContext())
    if shared.is_reinvoke and context.last_output != attributes.object:
        context._reinvoke_previous()
    return context
