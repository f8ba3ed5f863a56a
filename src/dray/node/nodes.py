"""The nodes of one process: they share a runtime, and one watch of the pods unless each has its own identity."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypedDict

from dray.api.errors import StatusError
from dray.api.release import EffectiveVersion
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.events import EventRecorder
from dray.client.informers import Informer
from dray.client.resources import CLASSIC_RESOURCE_SLICES, PODS, RESOURCE_CLAIMS
from dray.node.agent import Agent, Shared
from dray.node.metrics import Metrics
from dray.node.options import NodeOptions
from dray.node.quirks import version_of_server
from dray.node.recovery import RecoveredPod, recovered_pods
from dray.node.services import ServiceLister
from dray.runtimes.interface import Runtime

if TYPE_CHECKING:
    from dray.api.types.core import Pod

#: Versions of claims that the manager can work with, the preferred one first.
CLAIM_VERSIONS = ("v1", "v1beta2", "v1beta1", "v1alpha3", "v1alpha2", "v1alpha1")
#: Seconds by which events come after the fact: a pod's status is more urgent than events about its containers.
EVENT_DELAY = 0.1


class Nodes:
    """The nodes of this process."""

    def __init__(
        self,
        shared: Shared,
        options: Sequence[NodeOptions],
        client: Client,
        *,
        client_for: Callable[[str], Client] | None = None,
    ) -> None:
        """``client_for`` gives each node its own identity; it then watches its own pods, as its rights allow.
        Otherwise all nodes share one client and one watch."""
        self.shared = shared
        self._recovered: dict[str, RecoveredPod] = {}
        self._owners: dict[str, Agent] = {}
        self.agents: dict[str, Agent] = {}
        self._recorders: list[EventRecorder] = []
        self._informers: list[Informer[Pod]] = []
        if client_for is None and len(options) == 1:
            client_for = lambda name: client  # noqa: E731
        if client_for is None:
            self._recorders.append(EventRecorder(client, "kubelet", delay=EVENT_DELAY))
            self._informers.append(Informer(client, PODS))
        for node in options:
            own, recorder = client, self._recorders[0] if self._recorders else None
            if client_for is not None:
                own = client_for(node.name)
                recorder = EventRecorder(own, "kubelet", host=node.name, delay=EVENT_DELAY)
                self._recorders.append(recorder)
                self._informers.append(Informer(own, PODS, field_selector=f"spec.nodeName={node.name}"))
            assert recorder is not None
            self.agents[node.name] = Agent(shared, node, own, recorder)

    async def run(self, *, ready: Callable[[], None] | None = None) -> None:
        self._recovered = recovered_pods(await self.shared.runtime.list())
        async with contextlib.AsyncExitStack() as stack:
            group = await stack.enter_async_context(asyncio.TaskGroup())
            await self._register()
            for agent in self.agents.values():
                await stack.enter_async_context(agent.running())
            group.create_task(self._follow_runtime(), name="containers")
            if self.shared.services:
                group.create_task(self.shared.services.run(), name="services")
            for recorder in self._recorders:
                group.create_task(recorder.run(), name="events")
            for informer in self._informers:
                informer.add_handler(on_add=self._added, on_update=self._updated, on_delete=self._deleted)
                group.create_task(informer.run(), name="pods")
            for informer in self._informers:
                await informer.synced()
            for agent in self.agents.values():
                agent.pods_known(self._recovered)
            self._recovered = {}
            if ready:
                ready()
            await asyncio.Event().wait()

    async def _register(self) -> None:
        """All nodes, a few at a time."""
        some = asyncio.Semaphore(32)

        async def one(agent: Agent) -> None:
            async with some:
                await agent.registration.register()

        await asyncio.gather(*(one(agent) for agent in self.agents.values()))

    def _agent(self, pod: Pod) -> Agent | None:
        return self.agents.get(pod["spec"].get("nodeName") or "")

    def _added(self, pod: Pod) -> None:
        if agent := self._agent(pod):
            self._owners[pod["metadata"]["uid"]] = agent
            agent.pod_added(pod, recovered=self._recovered.pop(pod["metadata"]["uid"], None))

    def _updated(self, old: Pod, new: Pod) -> None:
        if agent := self._agent(new):
            self._owners[new["metadata"]["uid"]] = agent
            if old["metadata"]["uid"] != new["metadata"]["uid"]:
                agent.pod_deleted(old)
            agent.pod_updated(new)

    def _deleted(self, pod: Pod) -> None:
        if agent := self._agent(pod):
            agent.pod_deleted(pod)

    async def _follow_runtime(self) -> None:
        async for status in self.shared.runtime.container_events():
            if agent := self._owners.get(status.pod_uid):
                agent.workers.container_changed(status)
                if status.pod_uid not in agent.workers:
                    del self._owners[status.pod_uid]


async def connect(client: Client, runtime: Runtime, *, ask: bool = True) -> Shared:
    """Finds out what nodes need to know about the cluster; ``ask`` for its release if they do not know it."""
    discovery = Discovery(client)
    claims = await discovery.first_served(RESOURCE_CLAIMS, CLAIM_VERSIONS)
    release, git_version = await _server_version(client) if ask else (EffectiveVersion(), "")
    return Shared(
        runtime=runtime,
        metrics=Metrics(),
        clock=time.time,
        version=claims.version if claims else CLAIM_VERSIONS[0],
        release=release,
        git_version=git_version or release.git_version,
        classic_slices=await discovery.serves(CLASSIC_RESOURCE_SLICES),
        services=ServiceLister(client) if runtime.capabilities.mounts_host_files else None,
    )


class _VersionInfo(TypedDict):
    """What a server says at ``/version``, as far as it is read here."""

    minor: str
    gitVersion: str


async def _server_version(client: Client) -> tuple[EffectiveVersion, str]:
    """The version that nodes follow which were not told one, and the version that the server reports."""
    try:
        version: _VersionInfo = (await client.request("GET", "/version")).object
        return version_of_server(int(str(version["minor"]).rstrip("+"))), version["gitVersion"]
    except (StatusError, KeyError, ValueError):
        return EffectiveVersion(), ""
