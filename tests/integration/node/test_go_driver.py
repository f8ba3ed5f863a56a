"""A driver on the unchanged Go library: with the old version of the interface, the new one, and both.

Needs a binary built from ``godriver/main.go``, named by DRAY_TEST_GO_DRIVER.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from dray.client.factory import connect
from dray.driver import verify
from tests.support.wait import wait_for_sync

BINARY = os.environ.get("DRAY_TEST_GO_DRIVER", "")


@pytest.mark.parametrize(
    ("v1", "v1beta1", "chosen"),
    [(True, True, "v1.DRAPlugin"), (True, False, "v1.DRAPlugin"), (False, True, "v1beta1.DRAPlugin")],
)
def test_a_go_driver_prepares_for_our_agent(
    make_node: Callable[..., Any],
    v1: bool,
    v1beta1: bool,
    chosen: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOG", "INFO")
    world = make_node(f"go-{v1}-{v1beta1}".lower(), short=True)
    world.start("agent")
    with (world.directory / "go.log").open("wb") as log:
        driver = subprocess.Popen(
            [
                *(BINARY, "-kubeconfig", str(world.server.kubeconfig), "-node", world.name),
                *("-kubelet", str(world.directory / "kubelet"), "-cdi", str(world.directory / "cdi")),
                *(f"-v1={v1}".lower(), f"-v1beta1={v1beta1}".lower()),
            ],
            stdout=log,
            stderr=log,
        )
    try:
        name = f"pod-{world.name}"
        world.pod_with_claim(name, "dev-5")
        wait_for_sync(f"pod {name} to run", lambda: world.phase(name) == "Running")
        wait_for_sync(
            "dev-5 in the container's log",
            lambda: any("got dev-5" in p.read_text() for p in world.directory.glob("logs/*/main/0.log")),
        )
        assert f"with {chosen}" in (world.directory / "agent.log").read_text()

        def published() -> list[str]:
            listed = world.server.request("GET", "/apis/resource.k8s.io/v1/resourceslices")["items"]
            return [
                d["name"]
                for s in listed
                if s["spec"].get("nodeName") == world.name
                for d in s["spec"]["devices"]
            ]

        wait_for_sync("eight published devices", lambda: published() == [f"dev-{i}" for i in range(8)])
        assert world.specs
        world.delete(name)
        wait_for_sync(f"pod {name} to go", lambda: world.pod(name) is None)
        assert (world.specs, world.checkpointed) == ([], [])
        report = asyncio.run(_verify(world))
        assert report.ok, report.checks
        assert [c.detail for c in report.checks if c.name.endswith("one bad claim in a call")] == [
            "the whole call fails"
        ] * (v1 + v1beta1)
    finally:
        driver.terminate()
        driver.wait(10)


async def _verify(world: Any) -> verify.Report:
    options = verify.Options(
        registry=world.directory / "kubelet" / "plugins_registry",
        cdi_dirs=[world.directory / "cdi"],
        node=world.name,
    )
    async with connect(world.server.kubeconfig) as client:
        return await verify.run(client, options=options)
