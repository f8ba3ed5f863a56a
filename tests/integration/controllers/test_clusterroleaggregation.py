"""Aggregated ClusterRoles."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dray.api.scheme.kinds import Object
from dray.client.resources import (
    CLUSTER_ROLES,
)
from tests.support.controlplane import ControlPlane, control_plane
from tests.support.wait import wait_for


async def role(a: ControlPlane, name: str, *, labels: Object | None = None, **more: object) -> None:
    metadata = {"name": name, "labels": labels or {}}
    await a.client.create(CLUSTER_ROLES, "", {"metadata": metadata, **more})


def rule(resource: str) -> Object:
    return {"apiGroups": [""], "resources": [resource], "verbs": ["get"]}


def test_aggregating_roles_follow_the_roles_they_are_made_of(tmp_path: Path):
    async def play() -> None:
        async with control_plane("clusterrole-aggregation-controller", data=tmp_path) as a:
            await role(a, "b", labels={"part": "yes"}, rules=[rule("pods"), rule("nodes")])
            selectors = {"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]}
            await role(a, "whole", aggregationRule=selectors, rules=[])

            async def rules() -> list[str]:
                return [r["resources"][0] for r in (await a.get(CLUSTER_ROLES, "whole")).get("rules") or ()]

            async def are(*wanted: str) -> None:
                async def look() -> bool:
                    return await rules() == list(wanted)

                await wait_for(f"rules {wanted}", look)

            await are("pods", "nodes")
            await role(a, "a", labels={"part": "yes"}, rules=[rule("secrets"), rule("pods")])
            await are("secrets", "pods", "nodes")
            await a.client.delete(CLUSTER_ROLES, "", "b")
            await are("secrets", "pods")
            await a.client.delete(CLUSTER_ROLES, "", "a")
            await are()
            assert (await a.get(CLUSTER_ROLES, "whole"))["rules"] is None

    asyncio.run(play())
