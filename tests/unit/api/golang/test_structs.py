"""Objects as upstream prints them inside messages: with the fields that a release has, and no others."""

from __future__ import annotations

import pytest

from dray.api.golang import structs

RESULT = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "gpu-0"}
POD = {"containers": [{"name": "c", "image": "i"}]}


@pytest.mark.parametrize(
    ("release", "last"), [((1, 36), "ConsumedCapacity"), ((1, 37), "SkipNodeOperations")]
)
def test_an_allocation_ends_with_what_the_release_knows(release, last):
    shown = structs.render("resource/v1.AllocationResult", {"devices": {"results": [RESULT]}}, release)
    assert list(shown["Devices"]["Results"][0])[-1] == last


@pytest.mark.parametrize(("release", "there"), [((1, 30), False), ((1, 36), True)])
def test_a_pod_has_no_fields_from_the_future(release, there):
    shown = structs.render("core/v1.PodSpec", POD, release)
    assert ("HostnameOverride" in shown) is there
    assert ("Resources" in shown) is there
    template = structs.render("core/v1.PodTemplateSpec", {"metadata": {}, "spec": POD}, release)
    assert template["Spec"] == shown


def test_what_the_wire_has_beside_the_security_context_is_printed_inside_it():
    shown = structs.render("core/v1.PodSpec", {**POD, "hostPID": True, "securityContext": {}}, (1, 36))
    assert shown["SecurityContext"]["HostPID"] is True
    assert shown["SecurityContext"]["HostIPC"] is False
    assert "HostPID" not in shown


def test_a_change_is_shown_with_the_lines_around_it():
    text = structs.diff("core/v1.PodSpec", {**POD, "hostname": "a"}, {**POD, "hostname": "b"}, (1, 36))
    assert '- "Hostname": "a",\n' in text
    assert '+ "Hostname": "b",\n' in text
    assert text.startswith("@@")
