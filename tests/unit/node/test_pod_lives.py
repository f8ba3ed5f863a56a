"""What the lives of pods cost a node, and what they leave on it: simulated nodes and a small API server."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from dray.api.times import from_epoch
from dray.client.client import PatchType
from dray.client.resources import PODS
from dray.node import status_manager
from dray.node.nodes import Nodes
from dray.node.options import NodeOptions
from dray.node.run import Options, run
from dray.node.status_manager import ReportTimes, StatusManager
from tests.support.fake_api import FakeAPIServer
from tests.support.wait import wait_for

PATH = "/api/v1/namespaces/ns/pods"


@asynccontextmanager
async def simulated_node(api: FakeAPIServer, directory: Path) -> AsyncIterator[Nodes]:
    options = Options(nodes=[NodeOptions.simulated("las1")], runtime="simulated", runtime_dir=directory)
    ready: asyncio.Future[Nodes] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(run(api.client, options=options, ready=ready.set_result))
    try:
        yield await asyncio.wait_for(ready, 10)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def new_pod(name: str) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}", "generation": 1},
        "spec": {"nodeName": "las1", "containers": [{"name": "main", "image": "i"}]},
        "status": {"phase": "Pending"},
    }


def mark_deleted(api: FakeAPIServer, name: str) -> None:
    found = api.objects[f"{PATH}/{name}"]
    stamp = from_epoch(time.time() + 30)
    ending = {"deletionTimestamp": stamp, "deletionGracePeriodSeconds": 30, "generation": 2}
    api.put(f"{PATH}/{name}", {**found, "metadata": {**found["metadata"], **ending}})


async def live_and_go(api: FakeAPIServer, names: list[str]) -> None:
    for name in names:
        await _live_and_go(api, name)


async def _live_and_go(api: FakeAPIServer, name: str) -> None:
    path = f"{PATH}/{name}"
    api.put(path, new_pod(name))
    await wait_for(f"{name} to run", lambda: api.objects[path]["status"]["phase"] == "Running")
    mark_deleted(api, name)
    await wait_for(f"{name} to go", lambda: path not in api.objects)


def status_writes(api: FakeAPIServer) -> list[dict[str, Any]]:
    return [r.body["status"] for r in api.requests if r.method == "PATCH" and r.path.endswith("/status")]


@pytest.fixture
def calls_of_the_node() -> Iterator[list[int]]:
    """How many functions of the node agent have been called."""
    seen = [0]

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and "/dray/node/" in frame.f_code.co_filename:
            seen[0] += 1

    sys.setprofile(note)
    yield seen
    sys.setprofile(None)


async def test_a_node_knows_no_pod_that_has_gone(api: FakeAPIServer, tmp_path: Path) -> None:
    async with simulated_node(api, tmp_path) as nodes:
        await live_and_go(api, [f"p-{number}" for number in range(20)])
        await wait_for("the last worker to end", lambda: not list(nodes.agents["las1"].workers))
        assert not nodes._owners


async def test_the_hundredth_pod_of_a_node_costs_what_the_tenth_did(
    api: FakeAPIServer, tmp_path: Path, calls_of_the_node: list[int]
) -> None:
    async with simulated_node(api, tmp_path):
        await live_and_go(api, [f"first-{number}" for number in range(10)])
        costs = []
        for ten in range(10):
            before = calls_of_the_node[0]
            await live_and_go(api, [f"p-{ten}-{number}" for number in range(10)])
            costs.append(calls_of_the_node[0] - before)
        assert max(costs[-2:]) < 1.3 * min(costs[:2]), costs


async def test_a_life_takes_two_reports_one_that_the_pod_runs_and_one_that_it_has_ended(
    api: FakeAPIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_manager, "SETTLE_SECONDS", 20.0)
    async with simulated_node(api, tmp_path):
        await live_and_go(api, ["p"])
    first, second = status_writes(api)
    assert first["phase"] == "Running" and first["observedGeneration"] == 1
    [container] = second["containerStatuses"]
    assert second["phase"] == "Failed" and second["observedGeneration"] == 2
    assert container["state"]["terminated"]["exitCode"] == 143


async def test_what_takes_its_time_to_end_is_reported_before(api: FakeAPIServer) -> None:
    """A report waits for what is about to change, but not for long."""
    manager = StatusManager(api.client, ReportTimes())
    api.put(f"{PATH}/p", new_pod("p"))
    seen: Any = api.objects[f"{PATH}/p"]
    reporting = asyncio.create_task(
        manager.run(seen, current=lambda: {"phase": "Running"}, unsettled=lambda: True)
    )
    manager.changed()
    await wait_for("a report", lambda: status_writes(api))
    reporting.cancel()


async def test_times_stand_still_while_the_watch_is_behind_what_was_reported(api: FakeAPIServer) -> None:
    """Otherwise each second a status would be another one, and be reported again."""
    api.put(f"{PATH}/p", new_pod("p"))
    seen: Any = dict(api.objects[f"{PATH}/p"])
    manager = StatusManager(api.client, ReportTimes())
    assert manager.newest_status(seen) == {"phase": "Pending"}
    await manager.report(seen, lambda: {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"})
    assert manager.newest_status(seen)["startTime"] == "2026-01-01T00:00:00Z"
    # What others have written since then counts more.
    await api.client.patch_status(PODS, "ns", "p", {"status": {"phase": "Failed"}}, type=PatchType.MERGE)
    assert manager.newest_status(dict(api.objects[f"{PATH}/p"]))["phase"] == "Failed"  # type: ignore[arg-type]


def test_a_report_waits_longer_where_reports_take_long_but_never_for_long() -> None:
    times, waits = ReportTimes(), []
    for seconds in (0.0, 0.001, 0.2, 60.0, 0.001):
        times.took(seconds)
        waits.append(times.settle_seconds)
    assert waits == pytest.approx([0.1, 0.1, 0.6, 1.0, 0.1])
