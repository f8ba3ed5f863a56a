"""Kubernetes releases: their order, the release that is emulated, and the gates and API versions each has.

``Release`` is one minor release, ordered. ``EffectiveVersion`` is what a component behaves like: a release that is
emulated, or (the default) the newest behaviour with every generation of the API at once. ``Gates`` are the feature
gates in force, ``Serving`` is what an API server serves. Components turn these into their quirks once, at start; the
rest of their code asks for a behaviour by its name.
"""

from dray.api.release.effective import EMULATED, RESOURCE_GROUP, EffectiveVersion
from dray.api.release.featuregates import Feature, Gates, parse_gates
from dray.api.release.release import (
    NEWEST,
    OLDEST,
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
from dray.api.release.serving import GroupVersion, Serving, parse_runtime_config
from dray.api.release.settings import SettingError

__all__ = [
    "EMULATED",
    "NEWEST",
    "OLDEST",
    "RESOURCE_GROUP",
    "V1_26",
    "V1_27",
    "V1_28",
    "V1_29",
    "V1_30",
    "V1_31",
    "V1_32",
    "V1_33",
    "V1_34",
    "V1_35",
    "V1_36",
    "V1_37",
    "EffectiveVersion",
    "Feature",
    "Gates",
    "GroupVersion",
    "Release",
    "Serving",
    "SettingError",
    "Span",
    "parse_gates",
    "parse_runtime_config",
]
