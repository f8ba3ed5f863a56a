"""Second rounds: which policies or webhooks run again, because others have changed the object after them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dray.api.objects import clone
from dray.api.scheme.kinds import Object
from dray.server.admission import Attributes, ReinvocationContext

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class ReinvokeContext(Generic[K]):
    """What a plugin has to know in the second round about those it ran in the first, by their keys."""

    output: Object | None = None  # the object as the round before left it
    repeatable: set[K] = field(
        default_factory=set
    )  # have run, and run again if the object changes after them
    again: set[K] = field(default_factory=set)

    def changed(self, rounds: ReinvocationContext) -> None:
        """The object is another one now."""
        self._repeat()
        rounds.wanted = True

    def skips(self, key: K, rounds: ReinvocationContext) -> bool:
        return rounds.running and key not in self.again

    def keep(self, attributes: Attributes) -> None:
        """The round is over."""
        self.output = clone(attributes.object)

    def _repeat(self) -> None:
        self.again |= self.repeatable
        self.repeatable = set()


def reinvoke_context(plugin: str, attributes: Attributes) -> ReinvokeContext[K]:
    """A plugin's memory at the beginning of a round; what others have changed since counts as a change."""
    rounds = attributes.rounds()
    memory: ReinvokeContext[K] = rounds.memory.setdefault(plugin, ReinvokeContext())
    if rounds.running and memory.output != attributes.object:
        memory._repeat()
    return memory
