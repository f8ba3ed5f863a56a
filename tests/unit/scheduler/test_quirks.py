"""Which releases have which behaviour."""

from __future__ import annotations

import pytest

from dray.api.release import V1_26, V1_30, V1_32, V1_34, V1_36, EffectiveVersion, Release
from dray.placement.classic.quirks import ClassicQuirks
from dray.placement.quirks import PlacementQuirks
from dray.scheduler.quirks import SchedulerQuirks


def true_ones(quirks: object) -> set[str]:
    return {name for name in quirks.__slots__ if getattr(quirks, name)}  # type: ignore[attr-defined]


def test_the_defaults_are_those_of_no_emulated_release() -> None:
    version = EffectiveVersion()
    assert PlacementQuirks.of(version, version.gates()) == PlacementQuirks()
    assert SchedulerQuirks.of(version, version.gates()) == SchedulerQuirks()
    assert ClassicQuirks.of(version) == ClassicQuirks()


@pytest.mark.parametrize(
    ("release", "quirks"),
    [
        (V1_30, {"names_untolerated_taint", "scores_balance_without_requests", "names_volume_conflict"}),
        (V1_32, {"names_untolerated_taint", "scores_balance_without_requests", "names_volume_conflict", "counts_nodes_not_named"}),
        (V1_34, {"names_untolerated_taint", "counts_nodes_not_named", "small_nodes_are_unresolvable"}),
        (V1_36, {"counts_nodes_not_named", "small_nodes_are_unresolvable", "scores_balance_by_improvement"}),
    ],
)  # fmt: skip
def test_emulated_releases_differ_in_filters_and_scores(release: Release, quirks: set[str]) -> None:
    version = EffectiveVersion(release)
    gates = {"allocates_claims", "serves_extended_resources", "maps_node_allocatable", "limits_filter_time"}
    found = true_ones(PlacementQuirks.of(version, version.gates())) - gates
    assert found == {
        *quirks,
        "filters_devices_on_every_node",
        "gang_waits_for_gated_members",
        "postfilter_needs_cycle_state",
        "says_claims_deallocated",
        "says_still_not_schedulable",
        "tries_full_claims",
    }


def test_classic_claims_are_the_only_ones_until_1_30() -> None:
    early, alone = ClassicQuirks.of(EffectiveVersion(V1_26)), ClassicQuirks.of(EffectiveVersion(V1_30))
    assert alone.owns_every_claim and not alone.tries_pods_without_claims
    assert early.owns_every_claim and early.tries_pods_without_claims
    assert not SchedulerQuirks.of(EffectiveVersion(V1_30), EffectiveVersion(V1_30).gates()).serves_devices
    assert ClassicQuirks.of(EffectiveVersion(V1_32)) == ClassicQuirks()
