"""Every kind there is, found by group, version and name. Groups are imported when first asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Final

from dray.api.quirks import APIQuirks
from dray.api.release import EffectiveVersion
from dray.api.scheme.kinds import Kind, Version

#: Packages whose ``kinds(quirks)`` or ``KINDS`` give the kinds of a group, in the order of discovery.
_GROUPS: Final = (
    "core", "apiregistration", "apps", "events", "authentication", "authorization", "autoscaling", "batch",
    "certificates", "networking", "policy", "rbac", "storage", "admissionregistration", "apiextensions", "scheduling",
    "coordination", "node", "discovery", "resource", "flowcontrol",
    "storagemigration",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KindVersion:
    """A kind together with the version it was asked for in."""

    kind: Kind
    version: Version


@dataclass(frozen=True, slots=True)
class Scheme:
    """Look-ups over a set of kinds."""

    kinds: tuple[Kind, ...]
    _by_plural: Mapping[tuple[str, str, str], KindVersion] = field(init=False, repr=False)
    _by_kind: Mapping[tuple[str, str, str], KindVersion] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        found = [KindVersion(kind, version) for kind in self.kinds for version in kind.versions]
        by_plural = {(f.kind.group, f.version.name, f.kind.plural): f for f in reversed(found)}
        by_kind = {(f.kind.group, f.version.name, f.kind.kind): f for f in reversed(found)}
        object.__setattr__(self, "_by_plural", by_plural)
        object.__setattr__(self, "_by_kind", by_kind)

    def by_plural(self, group: str, version: str, plural: str) -> KindVersion | None:
        return self._by_plural.get((group, version, plural))

    def by_kind(self, group: str, version: str, kind: str) -> KindVersion | None:
        return self._by_kind.get((group, version, kind))


@cache
def kinds(version: EffectiveVersion | None = None) -> tuple[Kind, ...]:
    """All kinds as a release has them; without one, as they are when everything is served at once."""
    quirks = APIQuirks.of(version or EffectiveVersion())
    return tuple(kind for group in _GROUPS for kind in _kinds_of(group, quirks))


@cache
def scheme(version: EffectiveVersion | None = None) -> Scheme:
    return Scheme(kinds(version))


def _kinds_of(group: str, quirks: APIQuirks) -> Iterable[Kind]:
    module = import_module(f"dray.api.groups.{group}")
    if hasattr(module, "kinds"):
        found: Iterable[Kind] = module.kinds(quirks)
        return found
    listed: tuple[Kind, ...] = module.KINDS
    return listed
