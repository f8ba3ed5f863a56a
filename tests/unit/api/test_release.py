"""Releases: gates, what is served, and the flags that change both."""

from __future__ import annotations

import pytest

from dray.api.release import (
    EMULATED,
    NEWEST,
    V1_31,
    V1_32,
    V1_34,
    V1_35,
    V1_36,
    V1_37,
    EffectiveVersion,
    Release,
    SettingError,
    Span,
    parse_gates,
    parse_runtime_config,
)

RESOURCE = "resource.k8s.io"


def gates(name, text=""):
    return EffectiveVersion.parse(name).gates(parse_gates(text))


def served(name, config="", gate_text=""):
    release = EffectiveVersion.parse(name)
    return release.serving(parse_runtime_config(config), gates=release.gates(parse_gates(gate_text)))


@pytest.mark.parametrize(
    ("release", "on", "off"),
    [
        ("1.27", ["DynamicResourceAllocation"], ["DRAAdminAccess"]),
        ("1.32", ["DynamicResourceAllocation"], ["DRAAdminAccess", "DRAPrioritizedList"]),
        ("1.34", ["DRAAdminAccess", "DRAPrioritizedList"], ["DRAConsumableCapacity"]),
        ("1.37", ["DRADeviceTaintRules"], ["DRAFractionalCapacityRange", "DRAWorkloadResourceClaims", "GenericWorkload"]),
        ("1.36", ["DRAConsumableCapacity", "DRADeviceTaints"], ["DRADeviceTaintRules", "DRAListTypeAttributes"]),
        ("", ["DRADeviceTaintRules", "DRADerivedAttributes", "DRAWorkloadResourceClaims", "GenericWorkload"], ["AllAlpha"]),
    ],
)  # fmt: skip
def test_defaults_are_those_of_the_release(release, on, off):
    found = gates(release)
    assert [gate for gate in on if gate not in found] == []
    assert [gate for gate in off if gate in found] == []


def test_gates_are_set_by_flag():
    found = gates("1.36", "DRADeviceTaintRules=true,kube:DRAConsumableCapacity=false")
    assert "DRADeviceTaintRules" in found
    assert "DRAConsumableCapacity" not in found


def test_a_whole_stage_is_set_at_once_but_single_settings_win():
    found = gates("1.36", "AllAlpha=true,DRAResourcePoolStatus=false")
    assert "DRAListTypeAttributes" in found
    assert "DRAResourcePoolStatus" not in found


def test_gates_that_are_general_but_not_locked_can_be_turned_off() -> None:
    assert "DRADeviceTaints" in gates("1.37", "")
    assert "DRADeviceTaints" not in gates("1.37", "DRADeviceTaints=false,DRADeviceTaintRules=false")


@pytest.mark.parametrize(
    ("release", "text", "words"),
    [
        ("1.36", "NoSuch=true", "unrecognized feature gate: NoSuch"),
        ("1.27", "DRAAdminAccess=true", "unrecognized feature gate: DRAAdminAccess"),
        (
            "1.36",
            "DRAAdminAccess=false",
            "cannot set feature gate DRAAdminAccess to false, feature is locked to true",
        ),
        (
            "1.37",
            "SeparateCacheWatchRPC=true",
            "cannot set feature gate SeparateCacheWatchRPC to true, feature is locked to false",
        ),
        ("1.36", "DRADeviceTaintRules", "missing bool value for DRADeviceTaintRules"),
        (
            "1.36",
            "A=maybe",
            'invalid value of A=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        (
            "1.36",
            "GangScheduling=true",
            "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
        ),
        (
            "1.37",
            "DRADeviceTaints=false,CompositePodGroup=true,GenericWorkload=false",
            "[CompositePodGroup is enabled, but depends on features that are disabled: "
            "[GenericWorkload TopologyAwareWorkloadScheduling], "
            "DRADeviceTaintRules is enabled, but depends on features that are disabled: [DRADeviceTaints]]",
        ),
        (
            "",
            "DynamicResourceAllocation=false,DRADeviceTaints=true",
            "DRADeviceTaints is enabled, but depends on features that are disabled: [DynamicResourceAllocation]",
        ),
    ],
)
def test_bad_gates_are_refused_in_upstreams_words(release, text, words):
    with pytest.raises(SettingError) as problem:
        gates(release, text)
    assert str(problem.value) == words


def test_gates_depend_on_others_since_1_35() -> None:
    assert "DRADeviceTaints" in gates("1.34", "DRADeviceTaints=true,DynamicResourceAllocation=false")
    assert "GangScheduling" in gates("1.36", "GangScheduling=true,GenericWorkload=true")


def test_what_nobody_asked_for_goes_off_with_what_it_needs() -> None:
    found = gates("", "DRADeviceTaints=false")
    assert "DRADeviceTaintRules" not in found and "DRAConsumableCapacity" in found
    assert not {"DRADeviceTaints", "DRADeviceTaintRules"} & gates("", "DynamicResourceAllocation=false").on


@pytest.mark.parametrize(
    ("release", "versions"),
    [
        ("1.26", ("v1alpha1",)),
        ("1.27", ("v1alpha2",)),
        ("1.28", ("v1alpha2",)),
        ("1.29", ("v1alpha2",)),
        ("1.30", ("v1alpha2",)),
        ("1.31", ("v1alpha3",)),
        ("1.32", ("v1beta1", "v1alpha3")),
        ("1.33", ("v1beta2", "v1beta1", "v1alpha3")),
        ("1.34", ("v1",)),
        ("1.35", ("v1",)),
        ("1.36", ("v1",)),
        ("1.37", ("v1",)),
        ("", ("v1", "v1beta2", "v1beta1", "v1alpha3", "v1alpha2", "v1alpha1")),
    ],
)
def test_each_release_serves_its_own_versions_of_the_group(release, versions):
    assert served(release).groups()[RESOURCE] == versions


def test_versions_and_resources_are_switched_by_runtime_config():
    found = served(
        "1.36", f"{RESOURCE}/v1beta1=true,{RESOURCE}/v1alpha3/devicetaintrules=true,{RESOURCE}/v1=false"
    )
    assert found.groups()[RESOURCE] == ("v1beta1", "v1alpha3")
    assert found(RESOURCE, "v1beta1", "resourceclaims")
    assert found(RESOURCE, "v1alpha3", "devicetaintrules")
    assert not found(RESOURCE, "v1alpha3", "resourcepoolstatusrequests")


def test_api_all_serves_everything_a_release_has():
    found = served("1.36", "api/all=true")
    assert found.groups()[RESOURCE] == ("v1", "v1beta2", "v1beta1", "v1alpha3")
    assert found("admissionregistration.k8s.io", "v1alpha1", "mutatingadmissionpolicies")
    assert not found(RESOURCE, "v1alpha2", "resourceclasses")


def test_kinds_come_and_go_with_releases():
    assert served("1.30")(RESOURCE, "v1alpha2", "resourceclaimparameters")
    assert not served("1.27")(RESOURCE, "v1alpha2", "resourceclaimparameters")
    assert served("1.36", "api/all=true")(RESOURCE, "v1alpha3", "devicetaintrules")
    assert not served("1.36", "api/all=true")(RESOURCE, "v1alpha3", "resourceclaims")
    assert served("")(RESOURCE, "v1alpha3", "resourceclaims")
    assert not served("1.27")("authentication.k8s.io", "v1", "selfsubjectreviews")


@pytest.mark.parametrize("release", ["", "1.27", "1.30", "1.32", "1.34"])
def test_without_the_gate_the_group_is_gone(release):
    assert RESOURCE not in served(release, gate_text="DynamicResourceAllocation=false").groups()


def test_without_the_gate_a_version_named_by_flag_stays_for_clean_up():
    found = served("1.30", f"{RESOURCE}/v1alpha2=true", "DynamicResourceAllocation=false")
    assert found.groups()[RESOURCE] == ("v1alpha2",)


def test_a_version_can_be_switched_off_in_an_old_release():
    assert RESOURCE not in served("1.30", f"{RESOURCE}/v1alpha2=false").groups()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("api/all=false", "invalid runtime-config with only api/all=false"),
        ("nonsense", "runtime-config invalid key nonsense"),
        ("no.such.group/v1=true", "unknown api groups no.such.group/v1"),
        (f"{RESOURCE}/v9=true", f"group version {RESOURCE}/v9 that has not been registered"),
        ("api/all=perhaps", "invalid value api/all=perhaps"),
    ],
)
def test_bad_runtime_config_is_refused_in_upstreams_words(text, words):
    with pytest.raises(SettingError) as problem:
        served("1.36", text)
    assert str(problem.value) == words


def test_the_core_group_is_spelled_both_ways():
    assert "" not in served("1.36", "api/v1=false,api/ga=true").groups()
    assert "" not in served("1.36", "v1=false").groups()


def test_releases_are_found_by_short_and_long_names():
    assert EffectiveVersion.parse("v1.36.4") == EffectiveVersion.parse("1.36")
    assert EffectiveVersion.parse(None) == EffectiveVersion()
    assert EffectiveVersion.parse("1.30").git_version == "v1.30.14"
    assert all(EffectiveVersion.parse(str(release)).release == release for release in EMULATED)
    with pytest.raises(SettingError, match=r"cannot emulate release 1\.25"):
        EffectiveVersion.parse("1.25")


def test_releases_are_ordered_and_named():
    assert V1_36 < V1_37 == NEWEST
    assert V1_37.previous == V1_36
    assert (str(V1_36), Release.parse("v1.36.4")) == ("1.36", V1_36)


def test_a_span_includes_both_ends():
    assert [Span(V1_32, V1_34).covers(release) for release in (V1_31, V1_32, V1_34, V1_35)] == [
        False, True, True, False,
    ]  # fmt: skip
    assert Span(V1_32).covers(NEWEST)
