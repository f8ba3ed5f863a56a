"""Running nodes in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dray.client.client import Client
from dray.node.nodes import Nodes, connect
from dray.node.options import NodeOptions
from dray.runtimes.interface import Runtime


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The nodes of a process and what runs their containers."""

    nodes: Sequence[NodeOptions]
    #: ``simulated``, ``process`` or ``cri:SOCKET``.
    runtime: str = "process"
    #: Where the process runtime keeps its state.
    runtime_dir: Path = field(default_factory=lambda: Path("/var/lib/dray/runtime"))
    #: Containers go on running when the agent stops in an orderly way (they always do when it crashes).
    keep_containers: bool = False


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
    try:
        nodes = Nodes(await connect(client, runtime), options.nodes, client, client_for=client_for)
        await nodes.run(ready=(lambda: ready(nodes)) if ready else None)
    finally:
        await runtime.close(keep=options.keep_containers)


def make_runtime(options: Options) -> Runtime:
    kind, _, argument = options.runtime.partition(":")
    if kind == "simulated":
        from dray.runtimes.simulated import SimulatedRuntime

        return SimulatedRuntime()
    if kind == "process":
        from dray.runtimes.process.runtime import ProcessRuntime

        return ProcessRuntime(options.runtime_dir)
    if kind == "cri" and argument:
        from dray.runtimes.cri import CriRuntime

        return CriRuntime(Path(argument))
    raise ValueError(f"unknown runtime {options.runtime!r}: simulated, process or cri:SOCKET")
