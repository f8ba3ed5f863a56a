"""Releases and feature gates: what each Kubernetes release dray can stand in for knows, serves and has on by default.

A ``Release`` answers two questions. ``gates`` turns ``--feature-gates`` into the gates in force, ``serving`` turns
``--runtime-config`` into what is served. The tables behind it lie in ``releases/``. Without an emulated release
everything is served at once, the generations of Dynamic Resource Allocation side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class Gates:
    """The feature gates in force, by name, and the release they belong to. An unknown gate is off."""

    on: frozenset[str] = field(default_factory=frozenset)
    release: tuple[int, int] = (1, 37)

    def __contains__(self, gate: str) -> bool:
        return gate in self.on

    def with_changes(self, changes: Mapping[str, bool]) -> Gates:
        on = set(self.on)
        for gate, value in changes.items():
            (on.add if value else on.discard)(gate)
        return Gates(frozenset(on), self.release)


class SettingError(ValueError):
    """A flag whose value makes no sense, worded as upstream words it."""


class Feature(NamedTuple):
    """A gate as one release knows it."""

    stage: str  # a(lpha), b(eta), g(enerally available), d(eprecated)
    on: bool
    locked: bool


class GroupVersion(NamedTuple):
    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


RESOURCE_GROUP: Final = "resource.k8s.io"
DRA: Final = "DynamicResourceAllocation"

#: The releases that can be emulated, with the patch level whose behaviour they follow.
PATCHES: Final[Mapping[str, str]] = {
    "1.26": "v1.26.15",
    "1.27": "v1.27.16",
    "1.30": "v1.30.14",
    "1.32": "v1.32.13",
    "1.34": "v1.34.11",
    "1.36": "v1.36.4",
}
_NEWEST: Final = "1.37"
_COLUMNS: Final = (*PATCHES, _NEWEST)
#: Below this release Dynamic Resource Allocation was opt-in; emulating it is pointless without.
_DRA_BY_DEFAULT: Final = (1, 34)
#: Gates that stay off although everything else of Dynamic Resource Allocation is on without an emulated release:
#: they need kinds that are not served (PodGroup) or only restrict.
_KEPT_OFF: Final = frozenset({"DRAWorkloadResourceClaims"})


@dataclass(frozen=True, slots=True)
class Serving:
    """What is served: group versions in discovery's order, and which resources of each."""

    versions: Mapping[GroupVersion, frozenset[str]]  # "*" stands for all resources

    def __call__(self, group: str, version: str, resource: str) -> bool:
        known = self.versions.get(GroupVersion(group, version))
        return known is not None and (resource in known or "*" in known)

    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Versions by group, both in discovery's order."""
        found: dict[str, list[str]] = {}
        for group, version in self.versions:
            found.setdefault(group, []).append(version)
        return {group: tuple(versions) for group, versions in found.items()}


@dataclass(frozen=True, slots=True)
class Release:
    """One Kubernetes release, or (with an empty name) everything at once."""

    name: str
    git_version: str

    @property
    def emulated(self) -> bool:
        return bool(self.name)

    @property
    def number(self) -> tuple[int, int]:
        return _number(self.name or _NEWEST)

    def at_least(self, release: str) -> bool:
        """Whether a behaviour that came with ``release`` is there."""
        return self.number >= _number(release)

    @property
    def serves_classic(self) -> bool:
        """Whether claims negotiated with drivers' controllers (v1alpha2 and before) may be there."""
        return not self.emulated or not self.at_least("1.31")

    def known_gates(self) -> Mapping[str, Feature]:
        return _features(self.name or _NEWEST)

    def gates(self, changes: Mapping[str, bool] | None = None) -> Gates:
        """The gates in force once ``changes`` (from ``--feature-gates``) are applied to the defaults."""
        changes = changes or {}
        known = self.known_gates()
        on = {name for name, feature in known.items() if feature.on}
        if not self.emulated:
            on |= {name for name in known if name.startswith("DRA") and name not in _KEPT_OFF}
        elif self.number < _DRA_BY_DEFAULT:
            on.add(DRA)
        for name, value in changes.items():
            if name in ("AllAlpha", "AllBeta"):
                stage = name[3].lower()
                for gate, feature in known.items():
                    if feature.stage == stage and not feature.locked and gate not in changes:
                        (on.add if value else on.discard)(gate)
                continue
            self._check_gate(name, value)
            (on.add if value else on.discard)(name)
        return Gates(frozenset(on), self.number)

    def _check_gate(self, name: str, value: bool) -> None:
        feature = self.known_gates().get(name)
        if feature is None:
            raise SettingError(f"unrecognized feature gate: {name}")
        if not self.emulated and name == DRA:
            return  # the way to look at a cluster without Dynamic Resource Allocation
        if feature.locked and feature.on != value:
            words = _go_bool(value), _go_bool(feature.on)
            raise SettingError(
                f"cannot set feature gate {name} to {words[0]}, feature is locked to {words[1]}"
            )

    def serving(self, config: Mapping[str, bool] | None = None, *, gates: Gates | None = None) -> Serving:
        """What is served under ``config`` (from ``--runtime-config``).

        Only stable versions are served unless asked for; without an emulated release all are, and below 1.34 so
        are that release's resource.k8s.io versions. Switching DynamicResourceAllocation off takes its group away,
        except for versions that ``config`` names: old objects must be reachable for clean-up.
        """
        config = config or {}
        table = self._known_versions()
        _check_runtime_config(
            config, {gv.group for gv in table} | {gv.group for gv in _all_versions()}, table
        )
        dra_off = gates is not None and DRA not in gates
        served: dict[GroupVersion, frozenset[str]] = {}
        for version, known in table.items():
            found = self._served(version, known, config, dra_off=dra_off)
            if found:
                served[version] = found
        return Serving(served)

    def _known_versions(self) -> Mapping[GroupVersion, frozenset[str]]:
        found: dict[GroupVersion, set[str]] = {}
        for span in _spans():
            if not self.emulated or span.first <= self.number <= span.last:
                found.setdefault(span.version, set()).update(span.resources)
        return {version: frozenset(names) for version, names in found.items()}

    def _served(
        self, version: GroupVersion, known: frozenset[str], config: Mapping[str, bool], *, dra_off: bool
    ) -> frozenset[str]:
        stage = _stage(version.version)
        on = stage == "ga" or not self.emulated
        if version.group == RESOURCE_GROUP and self.number < _DRA_BY_DEFAULT:
            on = True
        for key in ("api/all", f"api/{stage}"):
            on = config.get(key, on)
        if version.group == RESOURCE_GROUP and dra_off:
            on = False
        on = config.get(_config_key(version), on)
        prefix = _config_key(version) + "/"
        named = {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
        found = set(known) if on else set()
        for resource, value in named.items():
            if resource in known or "*" in known:
                (found.add if value else found.discard)(resource)
        return frozenset(found)


def everything() -> Release:
    """No emulated release: every generation, every version, the newest behaviour."""
    return Release("", "v1.37.0")


def release_named(name: str | None) -> Release:
    """The release that ``--emulate`` names; None or an empty name is everything at once."""
    if not name:
        return everything()
    short = ".".join(name.removeprefix("v").split(".")[:2])
    if short not in PATCHES:
        raise SettingError(f"cannot emulate release {name}: known are {', '.join(PATCHES)}")
    return Release(short, PATCHES[short])


def parse_gates(text: str) -> dict[str, bool]:
    """``A=true,B=false`` as ``--feature-gates`` takes it; a ``kube:`` prefix is allowed."""
    changes: dict[str, bool] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = item.partition("=")
        name = name.strip().removeprefix("kube:")
        if not equals:
            raise SettingError(f"missing bool value for {name}")
        found = _bool(value.strip())
        if found is None:
            problem = f'strconv.ParseBool: parsing "{value.strip()}": invalid syntax'
            raise SettingError(f"invalid value of {name}={value.strip()}, err: {problem}")
        changes[name] = found
    return changes


def parse_runtime_config(text: str) -> dict[str, bool]:
    """``api/all=true,group/version=false,group/version/resource=true`` as ``--runtime-config`` takes it."""
    config: dict[str, bool] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, _, value = item.partition("=")
        key = "api/v1" if key.strip() == "v1" else key.strip()
        found = True if not value.strip() else _bool(value.strip())
        if found is None:
            if key in _MATCHERS:
                raise SettingError(f"invalid value {key}={value.strip()}")
            problem = f'strconv.ParseBool: parsing "{value.strip()}": invalid syntax'
            raise SettingError(f"invalid value of {key}: {value.strip()}, err: {problem}")
        config[key] = found
    return config


_MATCHERS: Final = frozenset({"api/all", "api/ga", "api/beta", "api/alpha"})


def _check_runtime_config(
    config: Mapping[str, bool], groups: set[str], known: Mapping[GroupVersion, frozenset[str]]
) -> None:
    if dict(config) == {"api/all": False}:
        raise SettingError("invalid runtime-config with only api/all=false")
    for key in config:
        if key in _MATCHERS or key in ("api/v1", "api/legacy"):
            continue
        parts = key.split("/")
        if len(parts) not in (2, 3):
            raise SettingError(f"runtime-config invalid key {key}")
        if parts[0] not in groups:
            raise SettingError(f"unknown api groups {parts[0]}/{parts[1]}")
        if GroupVersion(parts[0], parts[1]) not in known:
            raise SettingError(f"group version {parts[0]}/{parts[1]} that has not been registered")
        if len(parts) == 3 and parts[2] != parts[2].lower():
            words = "group/version/resource and resource is always lowercase plural"
            raise SettingError(f'invalid key {key}: {words}, not "{parts[2]}"')


class _Span(NamedTuple):
    version: GroupVersion
    resources: frozenset[str]
    first: tuple[int, int]
    last: tuple[int, int]


def _lines(name: str) -> Iterator[list[str]]:
    text = resources.files(__package__).joinpath("releases", name).read_text(encoding="utf-8")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            yield line.split()


@cache
def _features(release: str) -> Mapping[str, Feature]:
    column = 1 + _COLUMNS.index(release)
    found: dict[str, Feature] = {}
    for words in _lines("gates.txt"):
        mark = words[column]
        if mark != "-":
            found[words[0]] = Feature(mark[0].lower(), mark[0].isupper(), mark.endswith("!"))
    return found


@cache
def _spans() -> tuple[_Span, ...]:
    found = []
    for name, names, span in _lines("served.txt"):
        group, _, version = name.rpartition("/")
        first, _, last = span.partition("-")
        until = _number(last) if last else (99, 99)
        found.append(_Span(GroupVersion(group, version), frozenset(names.split(",")), _number(first), until))
    return tuple(found)


def _all_versions() -> set[GroupVersion]:
    return {span.version for span in _spans()}


def _config_key(version: GroupVersion) -> str:
    return str(version) if version.group else f"api/{version.version}"


def _number(release: str) -> tuple[int, int]:
    major, _, minor = release.partition(".")
    return int(major), int(minor)


def _stage(version: str) -> str:
    found = re.fullmatch(r"v\d+(?:(alpha|beta)\d+)?", version)
    return (found and found[1]) or "ga"


_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def _bool(text: str) -> bool | None:
    return _BOOLS.get(text)


def _go_bool(value: bool) -> str:
    return "true" if value else "false"
