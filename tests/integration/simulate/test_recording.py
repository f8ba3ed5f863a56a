"""A live cluster is recorded, and what happened is run again."""

from __future__ import annotations

import asyncio
import gzip
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dray.client.resources import PODS
from dray.placement.config import Configuration, SchedulerProfile
from dray.simulate import Arrival, Options, Recording, SimulationError, simulate
from dray.simulate.recorder import Recorder
from tests.support import live
from tests.support.controlplane import control_plane, scheduler
from tests.support.wait import wait_for


async def test_a_recorded_cluster_runs_again_as_it_ran_and_under_another_policy(tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    configuration = Configuration(profiles=(SchedulerProfile(device_policy="bestfit"),))
    async with (
        control_plane("resourceclaim-controller", data=tmp_path) as plane,
        scheduler(plane, configuration=configuration),
    ):
        recorder, end, began = (
            Recorder(plane.client, path, clock=time.monotonic),
            asyncio.Event(),
            asyncio.Event(),
        )
        recording = asyncio.create_task(recorder.run(end, started=lambda first: began.set()))
        await wait_for("the recording to begin", began.is_set)
        lived = await live.lived(plane.client, 5, 20)
        await plane.client.delete(PODS, live.NAMESPACE, "pod-0000", grace_seconds=0)
        await wait_for("the deletion to be recorded", lambda: b'"type":"DELETED"' in path.read_bytes())
        end.set()
        await recording
    recorded = Recording(path)
    # A pod runs as long as it ran, from the moment at which it gets a node. That is at once here, so it also ends sooner
    # than it did, perhaps before the last pods come: they are compared with nobody leaving.
    events = [replace(one, duration=None) if isinstance(one, Arrival) else one for one in recorded.events()]
    staying = simulate(recorded.cluster(), events, Options(policy="bestfit", recreates_evicted=False))
    placed = {
        one.pod: (one.node, tuple(device.partition("/")[2] for device in one.devices))
        for one in staying.pods
        if one.node
    }
    assert placed == lived
    again = simulate(
        recorded.cluster(), recorded.events(), Options(policy="bestfit", recreates_evicted=False)
    )
    gone = next(one for one in again.pods if one.pod == "default/pod-0000")
    assert gone.ended is not None
    assert gone.duration is not None and gone.duration > 0
    other = simulate(recorded.cluster(), recorded.events(), Options(policy="spread", recreates_evicted=False))
    assert len(other.pods) == len(again.pods) == 20
    assert {one.pod: one.node for one in other.pods} != {one.pod: one.node for one in again.pods}

    # A recorder that was killed has written half a line; anything else is said.
    cut = tmp_path / "cut.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    cut.write_bytes(b"".join(lines[:-1]) + lines[-1][:30])
    assert len(list(Recording(cut).events())) <= len(list(recorded.events()))
    cut.write_bytes(lines[0] + b"{}\n" + lines[1])
    with pytest.raises(SimulationError, match=r"cut\.jsonl, line 2: no change of a recording"):
        list(Recording(cut).events())
    compressed = tmp_path / "cut.jsonl.gz"
    compressed.write_bytes(gzip.compress(path.read_bytes())[:-12])
    assert list(Recording(compressed).events()) == list(recorded.events())
