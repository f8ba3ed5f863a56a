"""Checks of the driver's slices. They also find the devices that are free for the other checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.api.identity import PoolDevice
from dray.client.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.driver.resource_api import ResourceApi
from dray.driver.verify.report import Options, Report

if TYPE_CHECKING:
    from dray.api.types.resource import ResourceSliceSpec


async def check_slices(
    report: Report, api: ResourceApi, options: Options, *, optional: bool = False
) -> list[PoolDevice]:
    """The devices that are free. Slices are ``optional`` for drivers that may serve classic claims alone."""
    listed = await api.client.list(
        RESOURCE_SLICES.at(api.version), field_selector=f"spec.driver={report.driver}"
    )
    slices = [api.read(s) for s in listed.items]
    if optional and not slices:
        report.note("publishes slices", "none; classic claims need none")
        return []
    if not report.expect("publishes slices", bool(slices), "the API server has none of this driver"):
        return []
    pools: dict[str, list[ResourceSliceSpec]] = {}
    for s in slices:
        pools.setdefault(s["spec"]["pool"]["name"], []).append(s["spec"])
    for name, specs in pools.items():
        _check_pool(report, name, specs)
    mine = [
        s["spec"] for s in slices if not options.node or s["spec"].get("nodeName") in (None, "", options.node)
    ]
    taken = await _allocated_devices(api, report.driver)
    return [
        id
        for spec in mine
        for d in spec.get("devices") or []
        if (id := PoolDevice(spec["pool"]["name"], d["name"])) not in taken and not d.get("bindingConditions")
    ]


def _check_pool(report: Report, name: str, specs: Sequence[ResourceSliceSpec]) -> None:
    newest = max(s["pool"]["generation"] for s in specs)
    current = [s for s in specs if s["pool"]["generation"] == newest]
    wanted = current[0]["pool"]["resourceSliceCount"]
    report.expect(
        f"pool {name} is complete",
        len(current) == wanted,
        f"{len(current)} slices of generation {newest}, not {wanted}",
    )
    names = [d["name"] for s in current for d in s.get("devices") or []]
    twice = sorted({n for n in names if names.count(n) > 1})
    report.expect(f"pool {name} names each device once", not twice, ", ".join(twice))


async def _allocated_devices(api: ResourceApi, driver: str) -> set[PoolDevice]:
    listed = await api.client.list(RESOURCE_CLAIMS.at(api.version))
    return {
        PoolDevice(r["pool"], r["device"])
        for c in listed.items
        for r in (((c.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or []
        if r["driver"] == driver
    }
