"""The cats' controller in the control plane: it finds free cats from nothing but the claims that hold cats already."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.resources import RESOURCE_CLAIM_PARAMETERS
from dray.driver import classic
from dray.driver.classic import CannotAllocate, ClassicDriver, Pending, available_on
from dray.drivers.cats import classparameters, parameters
from dray.drivers.cats.inventory import DRIVER, Cat, CatSelector, Generation, HeldCat, cats_of

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.api.types.resource_v1alpha2 import AllocationResult, ResourceClaim


class CatsController(ClassicDriver):
    name = DRIVER

    def __init__(self, nodes: Collection[str] = (), *, count: int = 3) -> None:
        """``nodes`` are where immediate claims may be allocated; delayed ones go wherever the scheduler asks."""
        self._nodes = tuple(nodes)
        self._count = count

    async def allocate(
        self, pending: Sequence[Pending], *, node: str, others: Sequence[ResourceClaim]
    ) -> Sequence[AllocationResult]:
        for candidate in [node] if node else self._nodes:
            chosen = self._choose(pending, candidate, others)
            if chosen is not None:
                return [
                    available_on(
                        candidate,
                        driver=DRIVER,
                        data=_handle(candidate, cat),
                        shareable=_selector(one).shareable,
                    )
                    for one, cat in zip(pending, chosen, strict=True)
                ]
        raise CannotAllocate(f"no such cats are free on {f'node {node}' if node else 'any node'}")

    async def unsuitable_nodes(
        self, pod: Pod, pending: Sequence[Pending], nodes: Sequence[str], others: Sequence[ResourceClaim]
    ) -> Sequence[Collection[str]]:
        full = [node for node in nodes if self._choose(pending, node, others) is None]
        return [full for _ in pending]

    def _choose(
        self, pending: Sequence[Pending], node: str, others: Sequence[ResourceClaim]
    ) -> list[Cat] | None:
        """A cat for each claim, the choosiest first; None if they cannot all be had."""
        held = _held(others)
        cats = cats_of(node, Generation.CLASSIC, count=self._count)
        free = [cat for cat in cats if (node, cat.name) not in held]
        selectors = [_selector(one) for one in pending]
        chosen: dict[int, Cat] = {}
        for position in sorted(range(len(selectors)), key=lambda i: sum(map(selectors[i].matches, free))):
            cat = next((c for c in free if selectors[position].matches(c)), None)
            if cat is None:
                return None
            free.remove(cat)
            chosen[position] = cat
        return [chosen[i] for i in range(len(selectors))]


def _selector(pending: Pending) -> CatSelector:
    return CatSelector.of(pending.claim_parameters, pending.class_parameters)


def _handle(node: str, cat: Cat) -> str:
    """What the node's plugin is told."""
    data: HeldCat = {"node": node, "name": cat.name, "color": cat.color, "size": cat.size}
    return json.dumps(data)


def _held(others: Sequence[ResourceClaim]) -> set[tuple[str, str]]:
    held = set()
    for claim in others:
        for handle in claim["status"]["allocation"].get("resourceHandles") or ():
            # A handle that the scheduler wrote (structured parameters) has no data.
            data: HeldCat = json.loads(handle.get("data") or "{}")
            held.add((data.get("node", ""), data.get("name", "")))
    return held


async def control_plane(
    client: Client,
    controller: CatsController,
    *,
    options: classic.Options,
    ready: Callable[[], None] | None = None,
) -> None:
    """Allocate classic claims, and generate parameters where the scheduler reads them, until cancelled."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(classic.run(client, controller, options=options, ready=ready))
        if await Discovery(client).serves(RESOURCE_CLAIM_PARAMETERS):
            tasks.create_task(parameters.generate(client))
            tasks.create_task(classparameters.generate(client))
