"""What an API server serves: the API versions of a release, and ``--runtime-config``, which changes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from dray.api.release.release import Span
from dray.api.release.settings import SettingError, parse_bool, table


class GroupVersion(NamedTuple):
    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> str:
        """How ``--runtime-config`` names it."""
        return str(self) if self.group else f"api/{self.version}"

    @property
    def stage(self) -> str:
        """``alpha``, ``beta`` or ``ga``."""
        found = re.fullmatch(r"v\d+(?:(alpha|beta)\d+)?", self.version)
        return (found and found[1]) or "ga"


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


class Served(NamedTuple):
    """A line of ``served.txt``: resources of one version, and the releases that have them."""

    version: GroupVersion
    resources: frozenset[str]
    span: Span


@cache
def served_ever() -> tuple[Served, ...]:
    found = []
    for name, names, span in table("served.txt"):
        group, _, version = name.rpartition("/")
        found.append(Served(GroupVersion(group, version), frozenset(names.split(",")), Span.parse(span)))
    return tuple(found)


_STAGES: Final = frozenset({"api/all", "api/ga", "api/beta", "api/alpha"})


def parse_runtime_config(text: str) -> dict[str, bool]:
    """``api/all=true,group/version=false,group/version/resource=true`` as ``--runtime-config`` takes it."""
    config: dict[str, bool] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, _, value = item.partition("=")
        key = "api/v1" if key.strip() == "v1" else key.strip()
        found = True if not value.strip() else parse_bool(value.strip())
        if found is None:
            if key in _STAGES:
                raise SettingError(f"invalid value {key}={value.strip()}")
            problem = f'strconv.ParseBool: parsing "{value.strip()}": invalid syntax'
            raise SettingError(f"invalid value of {key}: {value.strip()}, err: {problem}")
        config[key] = found
    return config


def check_runtime_config(config: Mapping[str, bool], known: Mapping[GroupVersion, frozenset[str]]) -> None:
    """Refuse keys that name nothing. ``known`` are the versions of the release; groups may be of any release."""
    groups = {gv.group for gv in known} | {served.version.group for served in served_ever()}
    if dict(config) == {"api/all": False}:
        raise SettingError("invalid runtime-config with only api/all=false")
    for key in config:
        if key in _STAGES or key in ("api/v1", "api/legacy"):
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
