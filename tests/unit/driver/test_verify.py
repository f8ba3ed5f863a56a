"""The check for drivers passes good ones and finds the faults of bad ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dray.driver import Claim, ClaimRef, Device, Driver, Edits, Health, Plugin, Prepared, serving
from dray.driver import Options as DriverOptions
from dray.driver.model import Allocated
from dray.driver.verify import Options, Outcome, Report, run


class Good(Driver):
    name = "good.example.com"
    health = True

    def devices(self, node: str) -> list[Device]:
        return [Device(name=f"d{i}") for i in range(3)]

    def edits(self, claim: Claim, device: Allocated) -> Edits:
        return Edits(env={"D": device.name})

    async def started(self, plugin: Plugin) -> None:
        plugin.set_health("n", "d0", Health.HEALTHY)


async def verdict(api: Any, directory: Path, driver: Driver, **options: Any) -> Report:
    api.put("/api/v1/nodes/n", {"metadata": {"uid": "node"}})
    place = DriverOptions(node="n", kubelet_dir=directory, cdi_dir=directory / "cdi")
    async with serving(api.client, driver, options=place):
        while not api.all("resourceslices"):  # noqa: ASYNC110  (bounded by the test's own limit)
            await asyncio.sleep(0.005)
        return await run(
            api.client,
            options=Options(
                **{
                    "registry": directory / "plugins_registry",
                    "cdi_dirs": [directory / "cdi"],
                    "node": "n",
                    **options,
                }
            ),
        )


def failures(report: Report) -> list[str]:
    return [c.name for c in report.checks if c.outcome is Outcome.FAILED]


async def test_a_driver_of_the_sdk_passes_and_leaves_nothing(api: Any, tmp_path: Path) -> None:
    report = await verdict(api, tmp_path, Good())
    assert failures(report) == [], report.checks
    assert report.ok
    assert report.driver == "good.example.com"
    assert len([c for c in report.checks if c.outcome is Outcome.PASSED]) > 30
    assert api.all("resourceclaims") == []


async def test_a_driver_that_does_not_define_its_cdi_devices_fails_the_checks(
    api: Any, tmp_path: Path
) -> None:
    class Forgetful(Good):
        async def prepare(self, claim: Claim) -> Sequence[Prepared]:
            return [Prepared(device=d, cdi_ids=["x.com/y=z", "not qualified"]) for d in claim.devices]

    report = await verdict(api, tmp_path, Forgetful())
    assert {"v1.DRAPlugin: defines its CDI devices", "v1.DRAPlugin: gives qualified CDI names"} <= set(
        failures(report)
    )


async def test_a_driver_that_cannot_unprepare_fails_the_checks(api: Any, tmp_path: Path) -> None:
    class Clinging(Good):
        async def unprepare(self, claim: ClaimRef) -> None:
            raise RuntimeError("mine")

    report = await verdict(api, tmp_path, Clinging())
    assert "v1.DRAPlugin: unprepares" in failures(report)


async def test_an_empty_registry_fails_the_checks(api: Any, tmp_path: Path) -> None:
    report = await run(None, options=Options(registry=tmp_path, driver="x.example.com"))
    [check] = report.checks
    assert check.outcome is Outcome.FAILED
    assert "belongs to driver x.example.com" in check.detail


async def test_an_incomplete_pool_fails_the_checks(api: Any, tmp_path: Path) -> None:
    spec = {
        "driver": "good.example.com",
        "nodeName": "other",
        "pool": {"name": "p", "generation": 2, "resourceSliceCount": 2},
        "devices": [{"name": "a"}, {"name": "a"}],
    }
    api.put("/apis/resource.k8s.io/v1/resourceslices/x", {"spec": spec})
    report = await verdict(api, tmp_path, Good())
    assert failures(report)[:2] == ["pool p is complete", "pool p names each device once"]


async def test_a_classic_driver_is_checked_as_far_as_it_can_be(api: Any, tmp_path: Path) -> None:
    class Classic(Good):
        classic = True
        health = False

    api.versions = ("v1alpha2",)
    place = DriverOptions(node="n", kubelet_dir=tmp_path, cdi_dir=tmp_path / "cdi")
    async with serving(api.client, Classic(), options=place):
        report = await run(api.client, options=Options(registry=tmp_path / "plugins_registry"))
    assert report.ok
    assert report.checks[-1].outcome is Outcome.SKIPPED and "classic" in report.checks[-1].detail


async def test_too_few_devices_are_a_failure_that_says_what_to_give(api: Any, tmp_path: Path) -> None:
    report = await verdict(api, tmp_path, Good(), node="elsewhere")
    assert failures(report) == ["two free devices to prepare claims with"] and not report.ok
    assert "0 were found on node elsewhere" in report.checks[-1].detail
    assert "--node" in report.checks[-1].detail
