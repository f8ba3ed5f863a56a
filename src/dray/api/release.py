"""Releases and feature gates: what is on by default in each Kubernetes release dray can stand in for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Gates:
    """The feature gates in force, by name. An unknown gate is off."""

    on: frozenset[str] = field(default_factory=frozenset)

    def __contains__(self, gate: str) -> bool:
        return gate in self.on

    def with_changes(self, changes: Mapping[str, bool]) -> Gates:
        on = set(self.on)
        for gate, value in changes.items():
            (on.add if value else on.discard)(gate)
        return Gates(frozenset(on))
