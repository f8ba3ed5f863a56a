"""User namespaces of pods (``hostUsers: false``) where the supervisor is root: root of the pod is nobody on the host.

The namespace belongs to the pod and not to a container, so that its network namespace can belong to it too: then root of
the pod may use ports below 1024 and raw sockets there, and nothing of the host's network.
"""

# It starts faster and stays smaller without pathlib:
# ruff: noqa: PTH123

from __future__ import annotations

import os
import random
from collections.abc import Collection
from typing import NamedTuple

from dray.runtimes.process import isolation

#: Users of a pod, as the kubelet gives them out, and groups.
COUNT = 65_536
#: The users that systemd leaves to containers, in such blocks.
_BLOCKS = range(0x0008_0000 // COUNT, 0x7000_0000 // COUNT)


class Users(NamedTuple):
    """The host's user that is root of the pod, and descriptors of the namespaces. Without a network one is -1."""

    first: int
    handle: int
    network: int


def make(used: Collection[int], *, network: bool) -> Users:
    """A user namespace and, if asked for, a network namespace that belongs to it. ``used`` are the first users of other
    pods. Clusters that share a host do not know of one another's blocks, hence the dice."""
    first = COUNT * random.choice([n for n in _BLOCKS if n * COUNT not in used])
    ready, go_on = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            os.close(go_on[1])
            isolation.unshare(isolation.NEWUSER | (isolation.NEWNET if network else 0))
            os.write(ready[1], b"1")
            os.read(go_on[0], 1)
        finally:
            os._exit(0)
    try:
        os.close(ready[1])
        if not os.read(ready[0], 1):
            raise isolation.SetupFailed("this host allows no more user namespaces")
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w") as table:
                table.write(f"0 {first} {COUNT}")
        flags = os.O_RDONLY | os.O_CLOEXEC
        handle = os.open(f"/proc/{pid}/ns/user", flags)
        return Users(first, handle, os.open(f"/proc/{pid}/ns/net", flags) if network else -1)
    except OSError as e:
        text = f"user namespaces of pods (hostUsers: false) cannot be had here: {e.strerror}"
        raise isolation.SetupFailed(text) from e
    finally:
        for end in (ready[0], *go_on):
            os.close(end)
        os.waitpid(pid, 0)
