"""Two schedulers of one name, as processes of their own: one leads, and when it is killed the other goes on."""

from __future__ import annotations

from pathlib import Path

from dray.client.client import Client
from dray.client.factory import connect
from dray.client.resources import LEASES, PODS
from tests.support.components import ClusterProcesses, ComponentProcess
from tests.support.wait import wait_for


async def leader(client: Client) -> str:
    async def holder() -> str:
        leases = await client.list(LEASES, "kube-system", field_selector="metadata.name=default-scheduler")
        return next((lease["spec"].get("holderIdentity") or "" for lease in leases.items), "")

    return str(await wait_for("a holder of the lease", holder))


async def scheduled(client: Client, name: str) -> None:
    container = {"name": "main", "image": "sleep"}
    await client.create(PODS, "default", {"metadata": {"name": name}, "spec": {"containers": [container]}})

    async def bound() -> bool:
        return bool((await client.get(PODS, "default", name))["spec"].get("nodeName"))

    await wait_for(f"pod {name} to be bound", bound)


def process_of(parts: ClusterProcesses, identity: str) -> ComponentProcess:
    return next(part for part in parts.killable if f"_{part.pid}." in identity)


async def test_when_the_leader_is_killed_the_other_takes_over(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, nodes=1, replicas=2) as parts:
        async with connect(parts.kubeconfig) as client:
            first = await leader(client)
            await scheduled(client, "before")
            process_of(parts, first).kill()
            await scheduled(client, "after")
            second = await leader(client)
            assert second != first
            assert process_of(parts, second).running
