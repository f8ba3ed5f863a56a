"""Machines as network namespaces on one switch, with links that can be cut in either direction.

Nothing leaves the namespaces: the switch is a bridge in a namespace of its own, and the load generator is a machine too.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET of setns(2)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def unavailable() -> str:
    """Why namespaces cannot be made here; empty if they can."""
    name = f"dray-probe-{os.getpid()}"
    try:
        _ip("netns", "add", name)
        _ip("netns", "del", name)
    except OSError as problem:
        return f"network namespaces cannot be made: {problem}"
    return ""


@dataclass(frozen=True)
class Machine:
    name: str
    address: str
    namespace: str

    def command(self, *line: str) -> Sequence[str]:
        """The command line that runs on this machine."""
        return ("ip", "netns", "exec", self.namespace, *line)


class Network:
    """Machines that reach one another at 10.213.7.1, .2 and so on."""

    def __init__(self, *names: str) -> None:
        prefix = f"dray-{os.getpid()}"
        self._switch = f"{prefix}-switch"
        self.machines = {
            name: Machine(name, f"10.213.7.{number}", f"{prefix}-{name}")
            for number, name in enumerate(names, 1)
        }
        self._cuts: set[tuple[str, str]] = set()

    def __enter__(self) -> Network:
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "switch", "up")
        for number, machine in enumerate(self.machines.values(), 1):
            port = f"port{number}"
            _ip("netns", "add", machine.namespace)
            _ip(
                "-n",
                self._switch,
                "link",
                "add",
                port,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                machine.namespace,
            )
            _ip("-n", self._switch, "link", "set", port, "master", "switch", "up")
            _ip("-n", machine.namespace, "addr", "add", f"{machine.address}/24", "dev", "eth0")
            _ip("-n", machine.namespace, "link", "set", "eth0", "up")
            _ip("-n", machine.namespace, "link", "set", "lo", "up")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for namespace in (*(machine.namespace for machine in self.machines.values()), self._switch):
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)

    def enter(self, name: str) -> None:
        """Move this thread onto a machine: sockets that it opens from now on belong there."""
        libc = ctypes.CDLL(None, use_errno=True)
        with Path("/run/netns", self.machines[name].namespace).open("rb") as namespace:
            if libc.setns(namespace.fileno(), _NEW_NETWORK) != 0:
                raise OSError(ctypes.get_errno(), f"cannot enter {self.machines[name].namespace}")

    def cut(self, source: str, target: str) -> None:
        """Drop what ``source`` sends to ``target``; the other direction stays."""
        if (source, target) not in self._cuts:
            _ip(
                "-n",
                self.machines[source].namespace,
                "route",
                "add",
                "blackhole",
                self.machines[target].address,
            )
            self._cuts.add((source, target))

    def mend(self, source: str, target: str) -> None:
        if (source, target) in self._cuts:
            _ip(
                "-n",
                self.machines[source].namespace,
                "route",
                "del",
                "blackhole",
                self.machines[target].address,
            )
            self._cuts.remove((source, target))
