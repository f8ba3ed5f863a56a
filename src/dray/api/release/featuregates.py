"""Feature gates: those that a release knows, their defaults, and the gates in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from dray.api.release.release import Release, Span
from dray.api.release.settings import SettingError, parse_bool, table


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


class Feature(NamedTuple):
    """A gate as one release knows it."""

    stage: str  # a(lpha), b(eta), g(enerally available), d(eprecated)
    on: bool
    locked: bool


@cache
def known_features(release: Release) -> Mapping[str, Feature]:
    """The gates of a release that has a column in ``gates.txt``."""
    rows = table("gates.txt")
    column = next(rows).index(str(release))
    found: dict[str, Feature] = {}
    for row in rows:
        mark = row[column]
        if mark != "-":
            found[row[0]] = Feature(mark[0].lower(), mark[0].isupper(), mark.endswith("!"))
    return found


@cache
def dependencies(release: Release) -> Mapping[str, tuple[str, ...]]:
    """What gates need of others in a release, by name. Releases before 1.35 knew no such thing."""
    found: dict[str, tuple[str, ...]] = {}
    for gate, needed, span in table("gate_dependencies.txt"):
        if Span.parse(span).covers(release):
            found[gate] = (*found.get(gate, ()), needed)
    return found


def parse_gates(text: str) -> dict[str, bool]:
    """``A=true,B=false`` as ``--feature-gates`` takes it; a ``kube:`` prefix is allowed."""
    changes: dict[str, bool] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = item.partition("=")
        name = name.strip().removeprefix("kube:")
        if not equals:
            raise SettingError(f"missing bool value for {name}")
        found = parse_bool(value.strip())
        if found is None:
            problem = f'strconv.ParseBool: parsing "{value.strip()}": invalid syntax'
            raise SettingError(f"invalid value of {name}={value.strip()}, err: {problem}")
        changes[name] = found
    return changes
