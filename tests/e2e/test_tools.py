"""The tools against a running control plane: the gallery's puzzles, live, as a new user would meet them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dray.api.errors import AlreadyExists, StatusError
from dray.api.user import UserInfo
from dray.app.options import ServerOptions, parse_listen
from dray.app.server import run_server
from dray.client.client import Client
from dray.client.resources import ALL, PODS, Resource
from dray.scheduler import component as scheduling
from dray.server.inprocess import InProcessTransport
from tests.support.gallery import RELEASE, Puzzle, puzzles
from tests.support.process import DRAY, free_port

_BY_KIND: dict[str, Resource] = {
    r.kind: r
    for r in reversed(list(ALL.values()))
    if r.version == "v1" and r.group in ("", "resource.k8s.io")
}


@asynccontextmanager
async def control_plane(data: Path) -> AsyncIterator[Client]:
    """An API server in memory, reachable by kubeconfig, and the scheduler."""
    options = ServerOptions(
        listen=parse_listen(f"127.0.0.1:{free_port()}"),
        data=data,
        store="memory",
        emulate=RELEASE,
        disable_plugins=("ServiceAccount", "TaintNodesByCondition"),
    )
    async with run_server(options) as server:
        client = Client(
            InProcessTransport(server.api, UserInfo("admin", groups=("system:masters",)), agent="test")
        )
        task = asyncio.ensure_future(
            scheduling.run(
                client, options=scheduling.Options(gates=server.api.gates, version=server.api.version)
            )
        )
        try:
            yield client
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def apply(client: Client, documents: list[dict[str, Any]]) -> list[str]:
    """Create objects with their status; returns what was refused."""
    refused = []
    uids: dict[str, str] = {}
    for document in sorted(documents, key=lambda d: d["kind"] == "ResourceClaim" and "status" in d):
        resource = _BY_KIND[document["kind"]]
        metadata = document["metadata"]
        namespace = "default" if resource.namespaced else ""
        old_uid = metadata.get("uid", "")
        text = json.dumps({**document, "metadata": {k: v for k, v in metadata.items() if k != "uid"}})
        for known, real in uids.items():
            text = text.replace(known, real)
        body = json.loads(text)
        try:
            made = await client.create(resource, namespace, body)
        except AlreadyExists:
            continue
        except StatusError as error:
            refused.append(_as_kubectl_says(error.message))
            continue
        if old_uid:
            uids[old_uid] = made["metadata"]["uid"]
        if body.get("status"):
            await client.patch_status(resource, namespace, metadata["name"], {"status": body["status"]})
    return refused


def _as_kubectl_says(message: str) -> str:
    """kubectl puts the kind of a refused object in its own words."""
    return re.sub(r"^(\w+)\.\S+", r"The \1", message)


async def verdict(client: Client) -> str:
    """What the scheduler says about the pod once it has tried."""
    async with asyncio.timeout(20):
        listed = await client.list(PODS, "default")
        async with client.watch(
            PODS, "default", resource_version=listed.resource_version, bookmarks=False
        ) as events:
            for pod in listed.items:
                if message := _message(pod):
                    return message
            async for batch in events:
                for event in batch:
                    if message := _message(event.object):
                        return message
    raise AssertionError("the watch ended")


def _message(pod: dict[str, Any]) -> str:
    if pod["metadata"]["name"] != "train":
        return ""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return ""


async def run_tool(kubeconfig: Path, *arguments: str, name: str = DRAY) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        name, *arguments, "--kubeconfig", str(kubeconfig), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode or 0, out.decode()


def play(puzzle: Puzzle, data: Path) -> tuple[str, int, str]:
    """What the scheduler says, and what the tool says with its exit code."""

    async def run() -> tuple[str, int, str]:
        async with control_plane(data) as client:
            assert not await apply(client, puzzle.documents("cluster.yaml"))
            refused = await apply(client, puzzle.documents("apply.yaml"))
            # Without its claim a pod is not even tried, and the scheduler says nothing. As the claim is not in
            # the cluster, the tool is given what was applied.
            said = "\n".join(refused) or await verdict(client)
            more = ("-f", str(puzzle.folder / "apply.yaml")) if refused else ()
            code, text = await run_tool(data / "kubeconfig", "explain", "pod", "train", *more)
            return said, code, text

    return asyncio.run(run())


@pytest.mark.parametrize("puzzle", puzzles(), ids=lambda puzzle: puzzle.folder.name)
def test_one_command_leads_from_a_pending_pod_to_the_cause(puzzle: Puzzle, tmp_path: Path) -> None:
    said, code, text = play(puzzle, tmp_path)
    assert said == puzzle.scheduler
    assert code == 3
    for advice in puzzle.explain().advice:
        assert advice in text


def test_kubectl_finds_the_plugin_on_the_path(tool: Callable[[str], str], tmp_path: Path) -> None:
    puzzle = next(p for p in puzzles() if "tainted" in p.folder.name)
    kubectl, scripts = tool("kubectl-1.36"), str(Path(sys.executable).parent)

    environment = {
        **os.environ,
        "PATH": f"{scripts}:{os.environ['PATH']}",
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
    }

    async def call(*arguments: str) -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            kubectl, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        return process.returncode, out.decode()

    async def run() -> list[tuple[int | None, str]]:
        async with control_plane(tmp_path) as client:
            await apply(client, puzzle.documents("cluster.yaml") + puzzle.documents("apply.yaml"))
            await verdict(client)
            return [
                await call("dra", "explain", "pod", "train"),
                await call("dra", "devices"),
                await call("__complete", "dra", "explain", "pod", ""),
            ]

    explained, devices, completed = asyncio.run(run())
    assert explained[0] == 3
    assert "tainted gpu.example.com/overheated:NoSchedule" in explained[1]
    assert devices[0] == 0
    assert "gpu.example.com/node-1/gpu-0  tainted" in devices[1]
    assert completed[1].splitlines() == ["train", ":4"]


def test_kubectl_plugin_lists_devices_of_a_cluster_known_by_kubeconfig_alone(tmp_path: Path) -> None:
    puzzle = next(p for p in puzzles() if "all-taken" in p.folder.name)

    async def run() -> tuple[int, str]:
        async with control_plane(tmp_path) as client:
            await apply(client, puzzle.documents("cluster.yaml"))
            plugin = str(Path(sys.executable).parent / "kubectl-dra")
            return await run_tool(tmp_path / "kubeconfig", "devices", "-o", "json", name=plugin)

    code, text = asyncio.run(run())
    assert code == 0
    found = json.loads(text)["devices"]
    assert [d["state"] for d in found] == ["allocated", "allocated"]
    assert found[0]["claims"] == [{"claim": "default/notebook-gpu", "pods": ["default/notebook"]}]


if __name__ == "__main__":
    import tempfile

    for one in puzzles():
        with tempfile.TemporaryDirectory() as folder:
            (one.folder / "scheduler.txt").write_text(play(one, Path(folder))[0] + "\n")
