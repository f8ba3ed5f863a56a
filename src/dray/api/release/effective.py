"""The version that a component behaves like: a release that it emulates, or everything there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dray.api.release.featuregates import Feature, Gates, dependencies, known_features
from dray.api.release.release import (
    NEWEST,
    V1_26,
    V1_27,
    V1_28,
    V1_29,
    V1_30,
    V1_31,
    V1_32,
    V1_33,
    V1_34,
    V1_35,
    V1_36,
    V1_37,
    Release,
    Span,
)
from dray.api.release.serving import GroupVersion, Serving, check_runtime_config, served_ever
from dray.api.release.settings import SettingError

RESOURCE_GROUP: Final = "resource.k8s.io"
_DRA: Final = "DynamicResourceAllocation"

#: The releases that can be emulated, with the patch level whose behaviour they follow.
EMULATED: Final[Mapping[Release, str]] = {
    V1_26: "v1.26.15",
    V1_27: "v1.27.16",
    V1_28: "v1.28.15",
    V1_29: "v1.29.15",
    V1_30: "v1.30.14",
    V1_31: "v1.31.14",
    V1_32: "v1.32.13",
    V1_33: "v1.33.13",
    V1_34: "v1.34.11",
    V1_35: "v1.35.8",
    V1_36: "v1.36.4",
    V1_37: "v1.37.0",
}
#: The releases in which Dynamic Resource Allocation was opt-in; such a release is emulated for its sake, so it is on.
_DRA_OPT_IN: Final = Span(until=V1_33)
#: The releases with claims that drivers' controllers allocate.
_CLASSIC: Final = Span(until=V1_30)
#: Gates that are on without an emulated release beside those of Dynamic Resource Allocation: pods that start together.
_GROUPS_OF_PODS: Final = frozenset(
    {
        "CompositePodGroup",
        "GenericWorkload",
        "PodGroupPreemptionPolicy",
        "TopologyAwareWorkloadScheduling",
        "WorkloadWithJob",
    }
)


@dataclass(frozen=True, slots=True)
class EffectiveVersion:
    """Upstream's EffectiveVersion (component-base/compatibility).

    ``emulation`` is the release that ``--emulate`` names. None, the default, is the newest behaviour, with every
    version and generation of the API served side by side. ``server`` is the release of the API server that a component
    without an emulation works on: it decides and writes as that release does, and what is dray's own stays on.
    """

    emulation: Release | None = None
    server: Release | None = None

    @classmethod
    def parse(cls, text: str | None) -> EffectiveVersion:
        """From the value of ``--emulate``; None and the empty text emulate nothing."""
        if not text:
            return cls()
        for release in EMULATED:
            if ".".join(text.removeprefix("v").split(".")[:2]) == str(release):
                return cls(release)
        raise SettingError(f"cannot emulate release {text}: known are {', '.join(map(str, EMULATED))}")

    @classmethod
    def of_server(cls, release: Release | None) -> EffectiveVersion:
        """What suits a server of a release, or the nearest one that is known; None is dray's own with everything."""
        return cls(server=None if release is None else min(max(release, min(EMULATED)), max(EMULATED)))

    @property
    def emulated(self) -> bool:
        return self.emulation is not None

    @property
    def release(self) -> Release:
        """The release whose behaviour is followed."""
        return self.emulation or self.server or NEWEST

    @property
    def git_version(self) -> str:
        return f"v{NEWEST}.0" if self.emulation is None else EMULATED[self.emulation]

    @property
    def serves_classic(self) -> bool:
        """Whether claims negotiated with drivers' controllers (v1alpha2 and before) may be there."""
        release = self.emulation or self.server
        return release is None or _CLASSIC.covers(release)

    def known_gates(self) -> Mapping[str, Feature]:
        return known_features(self.release)

    def gates(self, changes: Mapping[str, bool] | None = None) -> Gates:
        """The gates in force once ``changes`` (from ``--feature-gates``) are applied to the defaults."""
        changes = changes or {}
        known = self.known_gates()
        on = {name for name, feature in known.items() if feature.on}
        if self.emulation is None:
            on |= {name for name in known if name.startswith("DRA") or name == _DRA}
            on |= _GROUPS_OF_PODS & known.keys() if self.server is None else set()
        elif _DRA_OPT_IN.covers(self.emulation):
            on.add(_DRA)
        for name, value in changes.items():
            if name in ("AllAlpha", "AllBeta"):
                stage = name[3].lower()
                for gate, feature in known.items():
                    if feature.stage == stage and not feature.locked and gate not in changes:
                        (on.add if value else on.discard)(gate)
                continue
            self._check_gate(name, value)
            (on.add if value else on.discard)(name)
        self._check_dependencies(on, changes)
        return Gates(frozenset(on))

    def _check_dependencies(self, on: set[str], changes: Mapping[str, bool]) -> None:
        """Refuse gates that are on while what they need is off. Without an emulated release most gates are on although nobody
        asked for them: those go off with what they need."""
        needs = dependencies(self.release)
        while self.emulation is None and (
            idle := {g for g in on & needs.keys() - changes.keys() if not on.issuperset(needs[g])}
        ):
            on -= idle
        problems = [
            f"{gate} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
            for gate, needed in needs.items()
            if gate in on and (missing := [name for name in needed if name not in on])
        ]
        if problems:
            raise SettingError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")

    def _check_gate(self, name: str, value: bool) -> None:
        feature = self.known_gates().get(name)
        if feature is None:
            raise SettingError(f"unrecognized feature gate: {name}")
        if self.emulation is None and name == _DRA:
            return  # the way to look at a cluster without Dynamic Resource Allocation
        if feature.locked and feature.on != value:
            wanted, locked = str(value).lower(), str(feature.on).lower()
            raise SettingError(f"cannot set feature gate {name} to {wanted}, feature is locked to {locked}")

    def serving(self, config: Mapping[str, bool] | None = None, *, gates: Gates | None = None) -> Serving:
        """What is served under ``config`` (from ``--runtime-config``).

        Only stable versions are served unless asked for; without an emulated release all are, and below 1.34 so
        are that release's resource.k8s.io versions. Switching DynamicResourceAllocation off takes its group away,
        except for versions that ``config`` names: old objects must be reachable for clean-up.
        """
        config = config or {}
        known = self._known_versions()
        check_runtime_config(config, known)
        dra_off = gates is not None and _DRA not in gates
        served: dict[GroupVersion, frozenset[str]] = {}
        for version, resources in known.items():
            found = self._served(version, resources, config, dra_off=dra_off)
            if found:
                served[version] = found
        return Serving(served)

    def _known_versions(self) -> Mapping[GroupVersion, frozenset[str]]:
        found: dict[GroupVersion, set[str]] = {}
        for served in served_ever():
            if self.emulation is None or served.span.covers(self.emulation):
                found.setdefault(served.version, set()).update(served.resources)
        return {version: frozenset(names) for version, names in found.items()}

    def _served(
        self, version: GroupVersion, known: frozenset[str], config: Mapping[str, bool], *, dra_off: bool
    ) -> frozenset[str]:
        on = version.stage == "ga" or self.emulation is None
        if version.group == RESOURCE_GROUP and _DRA_OPT_IN.covers(self.release):
            on = True
        for key in ("api/all", f"api/{version.stage}"):
            on = config.get(key, on)
        if version.group == RESOURCE_GROUP and dra_off:
            on = False
        on = config.get(version.key, on)
        prefix = version.key + "/"
        named = {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
        found = set(known) if on else set()
        for resource, value in named.items():
            if resource in known or "*" in known:
                (found.add if value else found.discard)(resource)
        return frozenset(found)
