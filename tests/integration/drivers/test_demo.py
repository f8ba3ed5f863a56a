"""The demo plays to its end on a cluster and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dray.client.factory import connect
from dray.drivers.demo import Options, play


def test_the_demo_shows_every_step_and_cleans_up(start_cluster: Callable[[str], tuple[Any, Path]]) -> None:
    server, _ = start_cluster("plain")

    async def watch() -> list[Any]:
        async with connect(server.kubeconfig) as client:
            return [scene async for scene in play(client, options=Options(patience=20))]

    scenes = asyncio.run(watch())
    commands = [s.command for s in scenes]
    assert commands[0] == "kubectl get resourceslices"
    assert commands[-1] == "kubectl delete pod demo"
    [(header, first, *_, last)] = [s.lines for s in scenes if "get resourceclaim " in s.command]
    assert header.split() == ["NAME", "STATE", "AGE"]
    assert (first.split()[1], last.split()[1]) == ("pending", "allocated,reserved")
    assert server.request("GET", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims")["items"] == []
    assert server.request("GET", "/api/v1/namespaces/default/pods/demo") is None
