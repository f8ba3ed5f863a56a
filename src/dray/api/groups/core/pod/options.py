"""What decides how strictly a pod's spec is checked: the gates, where the spec stands, and what it was before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dray.api.release import NEWEST, Gates, Release

Part = Mapping[str, Any]


class PodValidationOptions(msgspec.Struct, frozen=True, kw_only=True):
    gates: Gates
    printed_release: Release = NEWEST  # whose PodSpec messages show
    is_pod: bool = False  # the spec of a pod, not of a template
    resizes_with_claims: bool = True  # containers with claims can be resized
    nested_claims: bool = False  # the release that writes a claim's source as an object of its own
    #: Findings that the old object already had are no reason to refuse a change elsewhere.
    old: Part | None = None

    def on(self, gate: str) -> bool:
        return gate in self.gates
