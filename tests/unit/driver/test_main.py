"""Drivers as programs: what the environment says, and many simulated nodes at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dray.driver.main import options_from, run_program
from dray.driver.model import ClaimRef
from dray.driver.plugin import Options, Plugin
from dray.driver.simulated import publish
from dray.drivers.__main__ import gpu_options
from dray.drivers.gpu import GpuDriver, GpuOptions
from tests.support.wait import wait_for


def test_options_come_from_the_variables_that_charts_set() -> None:
    options = options_from(
        {
            "NODE_NAME": "las1",
            "DRIVER_NAME": "x.example.com",
            "KUBELET_PLUGINS_DIRECTORY_PATH": "/k/plugins",
            "KUBELET_REGISTRAR_DIRECTORY_PATH": "/k/registry",
            "CDI_ROOT": "/k/cdi",
            "POD_UID": "uid",
        }
    )
    assert (options.node, options.instance) == ("las1", "uid")
    assert (options.registry_dir, options.data_dir) == (Path("/k/registry"), Path("/k/plugins/x.example.com"))
    assert options.cdi_dir == Path("/k/cdi")


def test_default_options_are_the_paths_of_a_kubelet() -> None:
    options = options_from({"NODE_NAME": "n"})
    assert options.registry_dir == Path("/var/lib/kubelet/plugins_registry")
    assert options.data_dir is None


def test_the_shape_of_the_cards_comes_from_variables_too() -> None:
    assert gpu_options({}) == GpuOptions()
    assert gpu_options({"NUM_DEVICES": "2", "GPU_PARTITIONS": "4", "GPU_HEALTH": "true"}) == GpuOptions(
        count=2, partitions=4, health=True
    )


async def test_one_watch_serves_the_slices_of_many_simulated_nodes(api: Any) -> None:
    names = [f"n{i}" for i in range(20)]
    for name in names:
        api.put(f"/api/v1/nodes/{name}", {"metadata": {"uid": f"uid-{name}"}})
    task = asyncio.create_task(publish(api.client, GpuDriver(GpuOptions(count=1)), nodes=names))
    while len(api.all("resourceslices")) < 20:  # noqa: ASYNC110  (bounded by the test's own limit)
        await asyncio.sleep(0.005)
    assert {s["spec"]["nodeName"] for s in api.all("resourceslices")} == set(names)
    assert len(api.requested("GET", "/resourceslices")) == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_driver_that_stops_too_early_says_which_claims_need_it(
    api: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.put("/api/v1/nodes/n", {"metadata": {"uid": "node"}})
    monkeypatch.setattr(Plugin, "prepared_claims", lambda self: [ClaimRef("default", "cat", "uid")])
    options = Options(node="n", kubelet_dir=tmp_path, cdi_dir=tmp_path / "cdi")
    task = asyncio.create_task(run_program(api.client, GpuDriver(GpuOptions(count=1)), options=options))
    while not api.all("resourceslices"):  # noqa: ASYNC110  (bounded by the test's own limit)
        await asyncio.sleep(0.005)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert "default/cat" in caplog.text and "cannot end before it runs again" in caplog.text


async def test_a_driver_says_where_it_registered_and_that_nobody_listens_there(
    api: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.put("/api/v1/nodes/n", {"metadata": {"uid": "node"}})
    heard = asyncio.Event()
    monkeypatch.setattr(Plugin, "registered", lambda self: heard.wait())
    caplog.set_level("INFO")
    options = Options(node="n", kubelet_dir=tmp_path / "kubelet", cdi_dir=tmp_path / "cdi")
    registry = tmp_path / "kubelet" / "plugins_registry"
    task = asyncio.create_task(
        run_program(api.client, GpuDriver(GpuOptions(count=1)), options=options, warn_after=0.05)
    )
    await wait_for(
        "a warning that nobody listens", lambda: f"no kubelet looks into {registry}" in caplog.text
    )
    assert f"{registry} is not there and is made now" in caplog.text
    heard.set()
    said = f"gpu.example.com is registered on n through {registry}"
    await wait_for("the place of registration", lambda: said in caplog.text)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
