"""The scheduler on servers of other releases, without being told which."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from dray.allocation.consumable_capacity import consumption
from dray.allocation.features import Features
from dray.api.quantity import Quantity
from dray.api.release import V1_36
from dray.api.user import UserInfo
from dray.cli.component import version_for
from dray.client.client import Client
from dray.scheduler import component
from dray.server.inprocess import InProcessTransport
from tests.support.apiserver import assembled

ROOT = UserInfo("root", groups=("system:masters",))


@pytest.mark.parametrize("release", ["1.27", "1.30", "1.32", "1.36", ""])
async def test_the_scheduler_watches_what_the_server_has(
    release: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    async with assembled(tmp_path, emulate=release) as api:
        client = Client(InProcessTransport(api, ROOT))
        version, gates = await version_for(client, "")
        assert not version.emulated and (str(version.release) == release or not release)
        started = asyncio.Event()
        options = component.Options(version=version, gates=gates)
        task = asyncio.create_task(component.run(client, options=options, ready=lambda _: started.set()))
        try:
            async with asyncio.timeout(10):
                await started.wait()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
    assert "cannot be watched" not in caplog.text


async def test_capacity_is_written_in_the_form_of_the_servers_release(tmp_path: Path):
    policy = {"validRange": {"min": "1G", "step": "1G"}}
    async with assembled(tmp_path, emulate="1.36") as api:
        version, gates = await version_for(Client(InProcessTransport(api, ROOT)), "")
    features = Features.of(version.release, gates)
    found = consumption(Quantity.parse("5500M"), {"value": "80G", "requestPolicy": policy}, features)
    assert (version.server, str(found)) == (V1_36, "5859375Ki")


async def test_gates_are_those_of_the_server_where_it_may_be_asked(tmp_path: Path):
    gates = "DRAPartitionableDevices=false,DRAConsumableCapacity=false"
    async with assembled(tmp_path, emulate="1.36", feature_gates=gates) as api:
        allowed = Client(InProcessTransport(api, ROOT))
        _, told = await version_for(allowed, "DRAConsumableCapacity=true")
        assert "DRAPartitionableDevices" not in told and "DRAConsumableCapacity" in told
        somebody = Client(InProcessTransport(api, UserInfo("somebody", groups=("system:authenticated",))))
        _, assumed = await version_for(somebody, "")
        assert "DRAPartitionableDevices" in assumed
