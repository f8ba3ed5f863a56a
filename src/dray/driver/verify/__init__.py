"""Checks whether a driver does what kubelets rely on, whatever language it is written in.

The check plays the kubelet: it finds the driver's registration socket, reads its slices, makes claims on devices that it
chooses itself and has them prepared and unprepared, with valid and invalid requests. Every expectation is a ``Check``
with an outcome; where a driver may do one thing or another, the report has a note.
"""

from __future__ import annotations

from dray.client.client import Client
from dray.driver.resource_api import ResourceApi
from dray.driver.verify.calls import Calls, check_restart
from dray.driver.verify.claims import Claims
from dray.driver.verify.registration import check_registration
from dray.driver.verify.report import Check, Options, Outcome, Report
from dray.driver.verify.slices import check_slices

__all__ = ["Check", "Options", "Outcome", "Report", "run"]


async def run(client: Client | None, *, options: Options) -> Report:
    """Checks one driver. Without a client, only what needs no API server."""
    report = Report(driver=options.driver)
    found = await check_registration(report, options)
    if found is None:
        return report
    services, endpoint, classic = found
    if client is None:
        report.skip("slices and claims", "no API server was given")
        return report
    if not services:
        report.skip("slices and claims", "only registration is checked of drivers of the classic generation")
        return report
    api = await ResourceApi.connect(client)
    devices = await check_slices(report, api, options, optional=classic)
    if classic and not devices:
        report.skip("preparing claims", "the driver publishes no devices; classic claims need none")
        return report
    if not report.expect(
        "two free devices to prepare claims with",
        len(devices) >= 2,
        f"{len(devices)} were found on node {options.node or 'any'}; name a node where there are two with --node",
    ):
        return report
    async with Claims(api, report.driver, options) as claims:
        for service in services:
            await Calls(report, service, endpoint, claims, devices, options).check()
        await check_restart(report, services[0], endpoint, claims, devices, options)
    return report
