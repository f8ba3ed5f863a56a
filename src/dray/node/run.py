"""Runs nodes in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dray.api.release import SettingError
from dray.client.client import Client
from dray.node.nodes import Nodes, connect
from dray.node.options import NodeOptions
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
    #: Containers go on running when the agent stops in an orderly way (they always do when it crashes).
    keep_containers: bool = False
    #: Where API servers elsewhere ask for logs, commands and ports; its number is in the nodes' options.
    endpoint: Listener | None = None


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
        shared = await connect(client, runtime, ask=any(node.release is None for node in options.nodes))
        nodes = Nodes(shared, options.nodes, client, client_for=client_for)
        async with _serving(nodes, options.endpoint):
            await nodes.run(ready=(lambda: ready(nodes)) if ready else None)
    except Exception:
        keep = True  # whoever starts the nodes again finds the containers running
        raise
    finally:
        await runtime.close(keep=keep)


@asynccontextmanager
async def _serving(nodes: Nodes, where: Listener | None) -> AsyncIterator[None]:
    if where is None:
        yield
        return
    endpoint = Endpoint(NodeHost(nodes), context=where.context)
    await endpoint.start(where.listener)
    try:
        yield
    finally:
        await endpoint.stop()


def make_runtime(options: Options) -> Runtime:
    kind, _, argument = options.runtime.partition(":")
    if kind == "simulated":
        from dray.runtimes.simulated import SimulatedRuntime

        return SimulatedRuntime()
    if kind == "process":
        from dray.runtimes.process.runtime import ProcessRuntime

        of_nodes = [path for node in options.nodes for path in (node.paths.kubelet, node.paths.logs)]
        return ProcessRuntime(options.runtime_dir, hidden=[*options.hidden, *of_nodes])
    if kind == "cri" and argument:
        from dray.runtimes.cri.runtime import CriRuntime

        return CriRuntime(Path(argument))
    raise SettingError(f"--runtime {options.runtime}: there are simulated, process and cri:SOCKET")
