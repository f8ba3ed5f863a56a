"""Runs nodes in this process."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from dray.api.release import SettingError
from dray.client.client import Client
from dray.node.nodes import Nodes, connect
from dray.node.options import NodeOptions, machine_address
from dray.node.server.authorization import Delegated
from dray.node.server.endpoint import Endpoint, Listener
from dray.node.server.host import NodeHost
from dray.runtimes.interface import Runtime


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The nodes of a process and what runs their containers."""

    nodes: Sequence[NodeOptions]
    #: ``simulated``, ``process`` or ``cri:SOCKET``.
    runtime: str = "process"
    #: Where the process runtime keeps its state.
    runtime_dir: Path = field(default_factory=lambda: Path("/var/lib/dray/runtime"))
    #: Directories that containers of the process runtime do not see, besides those of the runtime and of the nodes.
    hidden: Sequence[Path] = ()
    #: Pods of the process runtime have network namespaces of their own, where the host allows it.
    pod_network: bool = True
    #: Host and port by which this process reaches the API server, for pods that cannot.
    api_server: tuple[str, int] | None = None
    #: Containers go on running when the agent stops in an orderly way (they always do when it crashes).
    keep_containers: bool = False
    #: Opens the port where API servers elsewhere ask a node for logs, commands and ports; None for a node without one.
    endpoint: Callable[[NodeOptions], Listener | None] | None = None
    clock: Callable[[], float] = time.time


async def run(
    client: Client,
    *,
    options: Options,
    client_for: Callable[[str], Client] | None = None,
    ready: Callable[[Nodes], None] | None = None,
) -> None:
    """Runs the nodes until cancelled. ``client_for`` gives a node an identity of its own, by its name.
    ``ready`` is called when they are registered and know their pods."""
    runtime = make_runtime(options)
    await runtime.start()
    keep = options.keep_containers
    try:
        addressed = [await _addressed(node, number, runtime) for number, node in enumerate(options.nodes)]
        endpoints = {node.name: options.endpoint(node) for node in addressed} if options.endpoint else {}
        options = replace(options, nodes=[_with_port(node, endpoints.get(node.name)) for node in addressed])
        unknown = any(node.release is None for node in options.nodes)
        shared = await connect(client, runtime, ask=unknown, clock=options.clock)
        nodes = Nodes(shared, options.nodes, client, client_for=client_for)
        async with _serving(nodes, endpoints):
            await nodes.run(ready=(lambda: ready(nodes)) if ready else None)
    except Exception:
        keep = True  # whoever starts the nodes again finds the containers running
        raise
    finally:
        await runtime.close(keep=keep)


async def _addressed(node: NodeOptions, number: int, runtime: Runtime) -> NodeOptions:
    """The node with an address, if it was left to the runtime to choose one."""
    if node.address:
        return node
    return replace(node, address=await runtime.node_address(number) or machine_address())


def _with_port(node: NodeOptions, where: Listener | None) -> NodeOptions:
    return replace(node, port=where.listener.getsockname()[1]) if where else node


@asynccontextmanager
async def _serving(nodes: Nodes, where: Mapping[str, Listener | None]) -> AsyncIterator[None]:
    started = []
    try:
        for name, place in where.items():
            if place is not None:
                delegated = Delegated(nodes.agents[name].client, name)
                endpoint = Endpoint(NodeHost(nodes), node=name, context=place.context, delegated=delegated)
                await endpoint.start(place.listener)
                started.append(endpoint)
        yield
    finally:
        for endpoint in started:
            await endpoint.stop()


def make_runtime(options: Options) -> Runtime:
    kind, _, argument = options.runtime.partition(":")
    if kind == "simulated":
        from dray.runtimes.simulated import SimulatedRuntime

        return SimulatedRuntime(clock=options.clock)
    if kind == "process":
        from dray.runtimes.process.runtime import ProcessRuntime

        of_nodes = [path for node in options.nodes for path in (node.paths.kubelet, node.paths.logs)]
        return ProcessRuntime(
            options.runtime_dir,
            hidden=[*options.hidden, *of_nodes],
            pod_network=options.pod_network,
            api_server=options.api_server,
        )
    if kind == "cri" and argument:
        from dray.runtimes.cri.runtime import CriRuntime

        return CriRuntime(Path(argument))
    raise SettingError(f"--runtime {options.runtime}: there are simulated, process and cri:SOCKET")
