"""The nodes of one process: they share a runtime, and one watch of the pods unless each has its own identity."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
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


#: Something that is done with what ``Nodes.run`` has entered.
Order = Callable[[contextlib.AsyncExitStack, asyncio.TaskGroup], Awaitable[None]]


class _Access:
    """A way to the API server: it reports events and follows pods, of one node or of all."""

    def __init__(self, client: Client, informer: Informer[Pod], recorder: EventRecorder) -> None:
        self.client, self.informer, self.recorder = client, informer, recorder
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, group: asyncio.TaskGroup, nodes: Nodes) -> None:
        self.informer.add_handler(on_add=nodes._added, on_update=nodes._updated, on_delete=nodes._deleted)
        self._tasks = [
            group.create_task(self.recorder.run(), name="events"),
            group.create_task(self.informer.run(), name="pods"),
        ]

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


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
        self._owners: dict[str, Agent] = {}  # whose worker a pod has
        self.agents: dict[str, Agent] = {}
        self._options = {node.name: node for node in options}
        if client_for is None and len(options) == 1:
            client_for = lambda name: client  # noqa: E731
        self._client_for = client_for
        #: How agents reach the API server, by the node's name; "" for one that all agents share.
        if client_for is None:
            recorder = EventRecorder(client, "kubelet", delay=EVENT_DELAY)
            self._access = {"": _Access(client, Informer(client, PODS), recorder)}
        else:
            self._access = {name: self._own(name) for name in self._options}
        for node in options:
            self.agents[node.name] = self._new_agent(node)
        self._lives: dict[str, contextlib.AsyncExitStack] = {}
        self._orders: asyncio.Queue[tuple[Order, asyncio.Future[None]]] = asyncio.Queue()

    def _own(self, name: str) -> _Access:
        assert self._client_for is not None
        client = self._client_for(name)
        informer = Informer(client, PODS, field_selector=f"spec.nodeName={name}")
        return _Access(client, informer, EventRecorder(client, "kubelet", host=name, delay=EVENT_DELAY))

    def _new_agent(self, node: NodeOptions) -> Agent:
        access = self._access.get(node.name) or self._access[""]
        return Agent(
            self.shared,
            node,
            access.client,
            access.recorder,
            pod_ended=lambda uid: self._disown(uid, node.name),
        )

    def _disown(self, uid: str, node: str) -> None:
        owner = self._owners.get(uid)
        if owner is not None and owner.options.name == node:
            del self._owners[uid]

    def _own_pod(self, pod: Pod, agent: Agent) -> None:
        if (uid := pod["metadata"]["uid"]) in agent.workers:
            self._owners[uid] = agent

    async def run(self, *, ready: Callable[[], None] | None = None) -> None:
        self._recovered = recovered_pods(await self.shared.runtime.list())
        async with contextlib.AsyncExitStack() as stack:
            group = await stack.enter_async_context(asyncio.TaskGroup())
            await self._register(self.agents.values())
            for agent in self.agents.values():
                await self._enter(agent, stack)
            group.create_task(self._follow_runtime(), name="containers")
            if self.shared.services:
                group.create_task(self.shared.services.run(), name="services")
            for access in self._access.values():
                access.start(group, self)
            for access in self._access.values():
                await access.informer.synced()
            self._pods_known(self.agents.values())
            if ready:
                ready()
            while True:
                # Orders are carried out in this task, because what it has entered only it may leave.
                order, done = await self._orders.get()
                try:
                    await order(stack, group)
                except Exception as problem:
                    if done.done():
                        raise
                    done.set_exception(problem)
                else:
                    if not done.done():
                        done.set_result(None)

    def _pods_known(self, agents: Iterable[Agent]) -> None:
        for agent in agents:
            agent.pods_known(self._recovered)
        self._recovered = {}

    async def _register(self, agents: Iterable[Agent]) -> None:
        """A few nodes at a time."""
        some = asyncio.Semaphore(32)

        async def one(agent: Agent) -> None:
            async with some:
                await agent.registration.register()

        await asyncio.gather(*(one(agent) for agent in agents))

    # One agent

    async def kill(self, name: str) -> None:
        """End the agent of one node as if it were killed: its containers run on, and its lease runs out."""
        await self._carry_out(lambda stack, group: self._kill(name))

    async def restart(self, name: str) -> None:
        """Start the agent of one node again, and return when it knows its pods."""
        await self._carry_out(lambda stack, group: self._restart(name, stack, group))

    async def _carry_out(self, order: Order) -> None:
        if self._client_for is None:
            raise ValueError("agents that share one client live and die together")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._orders.put_nowait((order, done))
        await done

    async def _kill(self, name: str) -> None:
        agent = self.agents.pop(name, None)
        if agent is not None:
            self._access.pop(name).stop()
            self._owners = {uid: owner for uid, owner in self._owners.items() if owner is not agent}
            await self._lives.pop(name).aclose()

    async def _restart(self, name: str, stack: contextlib.AsyncExitStack, group: asyncio.TaskGroup) -> None:
        if name in self.agents:
            return
        self._access[name] = self._own(name)
        found = recovered_pods(await self.shared.runtime.list())
        self._recovered = {uid: pod for uid, pod in found.items() if uid not in self._owners}
        agent = self.agents[name] = self._new_agent(self._options[name])
        await agent.registration.register()
        await self._enter(agent, stack)
        self._access[name].start(group, self)
        await self._access[name].informer.synced()
        self._pods_known([agent])

    async def _enter(self, agent: Agent, stack: contextlib.AsyncExitStack) -> None:
        life = self._lives[agent.options.name] = await stack.enter_async_context(contextlib.AsyncExitStack())
        await life.enter_async_context(agent.running())

    def _agent(self, pod: Pod) -> Agent | None:
        return self.agents.get(pod["spec"].get("nodeName") or "")

    def _added(self, pod: Pod) -> None:
        if agent := self._agent(pod):
            agent.pod_added(pod, recovered=self._recovered.pop(pod["metadata"]["uid"], None))
            self._own_pod(pod, agent)

    def _updated(self, old: Pod, new: Pod) -> None:
        if agent := self._agent(new):
            if old["metadata"]["uid"] != new["metadata"]["uid"]:
                agent.pod_deleted(old)
            agent.pod_updated(new)
            self._own_pod(new, agent)

    def _deleted(self, pod: Pod) -> None:
        if agent := self._agent(pod):
            agent.pod_deleted(pod)

    async def _follow_runtime(self) -> None:
        async for status in self.shared.runtime.container_events():
            if agent := self._owners.get(status.pod_uid):
                agent.workers.container_changed(status)


async def connect(
    client: Client, runtime: Runtime, *, ask: bool = True, clock: Callable[[], float] = time.time
) -> Shared:
    """Finds out what nodes need to know about the cluster; ``ask`` for its release if they do not know it."""
    discovery = Discovery(client)
    claims = await discovery.first_served(RESOURCE_CLAIMS, CLAIM_VERSIONS)
    release, git_version = await _server_version(client) if ask else (EffectiveVersion(), "")
    return Shared(
        runtime=runtime,
        metrics=Metrics(),
        clock=clock,
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
