"""A server that answers writes and a recorder that remembers, for tests of what the scheduler writes and says."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from dray.client.client import Client
from dray.client.resources import RESOURCE_CLAIMS
from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.pods import PodInfo
from dray.placement.plugins.dynamic_resources import DeviceReservation, NodePlan
from dray.scheduler.binding.claim_binding import ClaimBinding
from dray.scheduler.metrics import Metrics
from dray.scheduler.quirks import SchedulerQuirks
from dray.scheduler.writers import Writers, build_writers
from tests.support.scheduler import claim

ALLOCATION = {"devices": {"results": []}, "allocationTimestamp": "2026-01-01T00:00:00Z"}


class FakeClient:
    """Answers a writer's calls; ``refuse`` says which of them end in an error."""

    def __init__(self, **refuse: Exception) -> None:
        self.refuse = refuse
        self.patched: list[tuple[str, dict[str, Any]]] = []
        self.deleted: list[str] = []
        self.claims: list[dict[str, Any]] = []

    async def patch_status(self, resource: Any, namespace: str, name: str, patch: Any, **_: Any) -> Any:
        self._perhaps("patch_status")
        self.patched.append((name, patch["status"]))
        return {"metadata": {"name": name}}

    async def update(self, resource: Any, namespace: str, document: Any, **_: Any) -> Any:
        self._perhaps("update")
        return document

    async def update_status(self, resource: Any, namespace: str, document: Any, **_: Any) -> Any:
        self._perhaps("update_status")
        self.claims.append(document)
        return document

    async def get(self, resource: Any, namespace: str, name: str) -> Any:
        if resource is RESOURCE_CLAIMS and self.claims:
            return self.claims[-1]
        self._perhaps("get")
        raise AssertionError("not asked for")

    async def bind(self, namespace: str, name: str, node: str, *, uid: str) -> None:
        self._perhaps("bind")

    async def delete(self, resource: Any, namespace: str, name: str, **_: Any) -> None:
        self._perhaps("delete")
        self.deleted.append(name)

    def _perhaps(self, verb: str) -> None:
        if verb in self.refuse:
            raise self.refuse[verb]


class FakeRecorder:
    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self.messages: list[str] = []
        self.something = asyncio.Event()

    def event(self, resource: Any, obj: Any, type: str, reason: str, message: str, **more: Any) -> None:
        self.events.append((reason, more.get("related")))
        self.messages.append(message)
        self.something.set()


def writer(
    server: FakeClient,
    told: FakeRecorder | None = None,
    claim_cache: ClaimCache | None = None,
    **quirks: bool,
) -> Writers:
    return build_writers(
        cast(Client, server),
        claim_cache or ClaimCache(),
        told or FakeRecorder(),
        SchedulerQuirks(**quirks),
        nominates_before_every_bind=True,
        metrics=Metrics(),
    )


def binding(
    writers: Writers, pod: PodInfo, *claims: dict[str, Any], binding_timeout: float = 1.0
) -> ClaimBinding:
    """The binding of a pod to node a with these claims, all of them allocated already."""
    reservation = DeviceReservation(cast(Any, claims), NodePlan((), ())) if claims else None
    return writers.claims.of(pod, "a", reservation, binding_timeout=binding_timeout)


def conditional(**status: Any) -> dict[str, Any]:
    """A claim whose device has to be made ready for its node."""
    result = {
        "driver": "d", "pool": "p", "device": "x", "request": "r",
        "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"],
    }  # fmt: skip
    return claim("c", allocation={**ALLOCATION, "devices": {"results": [result]}}, **status)
