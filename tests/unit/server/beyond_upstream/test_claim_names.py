"""Names of claims that pods are born with."""

from __future__ import annotations

import pytest

from dray.api.claims import references
from dray.api.errors import Invalid
from dray.api.scheme.kinds import Object
from dray.client.resources import PODS, RESOURCE_CLAIM_TEMPLATES
from tests.support.controlplane import ControlPlane, server

SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}


async def template(s: ControlPlane) -> None:
    await s.client.create(
        RESOURCE_CLAIM_TEMPLATES, "default", {"metadata": {"name": "t"}, "spec": {"spec": SPEC}}
    )


def entry(name: str, template: str = "t") -> Object:
    return {"name": name, "resourceClaimTemplateName": template}


async def test_every_entry_with_a_template_has_its_own_name_after_pod_and_entry():
    async with server() as s:
        await template(s)
        entries = [entry("a"), entry("b"), {"name": "c", "resourceClaimName": "mine"}]
        born = await s.pod("p", resourceClaims=entries)
        names = {r.entry: r.claim for r in references(born)}
        assert names["a"].startswith("p-a-")
        assert names["b"].startswith("p-b-")
        assert names["c"] == "mine"
        assert [status["name"] for status in born["status"]["resourceClaimStatuses"]] == ["a", "b"]


async def test_long_names_stay_within_bounds():
    async with server() as s:
        await template(s)
        born = await s.pod("p" * 200, resourceClaims=[entry("e" * 63)])
        (status,) = born["status"]["resourceClaimStatuses"]
        assert len(status["resourceClaimName"]) <= 63


async def test_a_template_that_is_not_there_gives_no_name():
    async with server() as s:
        born = await s.pod("p", resourceClaims=[entry("a", "missing")])
        assert "resourceClaimStatuses" not in born["status"]


async def test_an_entry_without_a_name_is_refused_as_ever():
    async with server() as s:
        await template(s)
        with pytest.raises(Invalid, match=r"spec.resourceClaims\[0\].name: Required value"):
            await s.pod("p", resourceClaims=[{"resourceClaimTemplateName": "t"}])


async def test_emulated_releases_leave_the_names_to_the_controller():
    async with server("1.36") as s:
        await template(s)
        born = await s.pod("p", resourceClaims=[entry("a")])
        assert "resourceClaimStatuses" not in born["status"]


async def test_names_stay_what_they_are_when_the_pod_changes():
    async with server() as s:
        await template(s)
        born = await s.pod("p", resourceClaims=[entry("a")])
        changed = await s.client.patch(PODS, "default", "p", {"metadata": {"labels": {"x": "y"}}})
        assert changed["status"] == born["status"]
