"""Pods on a bridge of this host: each in a network namespace of its own, with an address that nobody else has.

The host and the pods reach one another; nothing is routed beyond the host. A namespace lives as long as a descriptor or a
process holds it, and the kernel removes both ends of its cable with it.
"""

# It starts faster and stays smaller without pathlib:
# ruff: noqa: PTH123

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import struct
import sys
from collections.abc import Collection, Iterator
from typing import NamedTuple

from dray.runtimes.process import isolation, netlink

#: Blocks of a thousand addresses, as many as a bridge has ports, are taken from 10.64.0.0/10.
_FIRST, _BLOCKS, _BLOCK, _PREFIX = 0x0A400000, 4096, 1024, 22
#: The first quarter of a block is for nodes; the gateway of pods is the first node.
_NODES = 256


class Attached(NamedTuple):
    """A namespace with a cable to the bridge."""

    ip: str
    handle: int


class PodNetwork:
    """A bridge and the namespaces on it. The next namespace is made in advance: it takes a few milliseconds."""

    def __init__(self, directory: str) -> None:
        """OSError or SetupFailed if this host does not allow it."""
        self._home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._spare: Attached | None = None
        digest = hashlib.sha256(directory.encode()).digest()
        name = f"dray{digest[:4].hex()}"
        with contextlib.suppress(OSError):  # left behind by a supervisor that was killed
            netlink.send(netlink.removed(socket.if_nametoindex(name)))
        self._block = free_block(int.from_bytes(digest[:4]), _routes())
        self._next = _NODES
        netlink.send(netlink.bridge(name))
        with contextlib.suppress(OSError), open(f"/proc/sys/net/ipv4/conf/{name}/forwarding", "w") as setting:
            setting.write("0")  # pods reach no other network through a host that forwards for others
        self._bridge = socket.if_nametoindex(name)
        netlink.send(netlink.address(self._bridge, self.gateway, _PREFIX))
        self.prepare_spare(())

    @property
    def gateway(self) -> str:
        return _dotted(self._block + 1)

    def add_node(self, number: int) -> str:
        """Another address of the host on the bridge, for the node of this number; they share the last one."""
        ip = _dotted(self._block + 1 + min(number, _NODES - 2))
        with contextlib.suppress(FileExistsError):
            netlink.send(netlink.address(self._bridge, ip, _PREFIX))
        return ip

    def attach(self, used: Collection[str], *, wanted: str = "", namespace: int = -1) -> Attached:
        """A namespace for a pod, unless it has one. ``used`` are the addresses of the pods that are there; ``wanted`` is
        the one that the pod had with a supervisor that was killed."""
        if namespace >= 0:
            ip = wanted if wanted and wanted not in used else self._free_address(used)
            self._connect(namespace, ip)
            return Attached(ip, namespace)
        if wanted and wanted not in used and (self._spare is None or self._spare.ip != wanted):
            return self._make(wanted)
        spare, self._spare = self._spare, None
        return spare or self._make(self._free_address(used))

    def prepare_spare(self, used: Collection[str]) -> None:
        if self._spare is None:
            self._spare = self._make(self._free_address(used))

    def close(self) -> None:
        if self._spare:
            os.close(self._spare.handle)
        with contextlib.suppress(OSError):
            netlink.send(netlink.removed(self._bridge))

    def _make(self, ip: str) -> Attached:
        isolation.unshare(isolation.NEWNET)
        try:
            handle = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            isolation.setns(self._home, isolation.NEWNET)
        try:
            self._connect(handle, ip)
        except BaseException:
            os.close(handle)
            raise
        return Attached(ip, handle)

    def _connect(self, handle: int, ip: str) -> None:
        """Lays a cable from a namespace to the bridge."""
        netlink.send(netlink.veth("draypod%d", master=self._bridge, peer="eth0", namespace=handle))
        with self.inside(handle):
            eth0 = socket.if_nametoindex("eth0")
            netlink.send(
                netlink.up(1),  # the loopback's index is always one
                netlink.address(eth0, ip, _PREFIX),
                netlink.up(eth0),
                netlink.default_route(self.gateway),
            )

    @contextlib.contextmanager
    def inside(self, handle: int) -> Iterator[None]:
        """This process is in the namespace, for the length of the block."""
        isolation.setns(handle, isolation.NEWNET)
        try:
            yield
        finally:
            isolation.setns(self._home, isolation.NEWNET)

    def listen_inside(self, handle: int, ip: str, port: int) -> socket.socket:
        """A listener in the namespace, on an address that is on its loopback alone: by which pods reach the API server."""
        with self.inside(handle):
            with contextlib.suppress(FileExistsError):
                netlink.send(netlink.address(1, ip, 32))
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((ip, port))
        listener.listen(64)
        return listener

    def _free_address(self, used: Collection[str]) -> str:
        """Addresses go round, so that one that has just been given back is not another pod's at once."""
        for _ in range(_NODES, _BLOCK - 1):
            ip = _dotted(self._block + self._next)
            self._next = self._next + 1 if self._next < _BLOCK - 2 else _NODES
            taken = ip in used or (self._spare is not None and self._spare.ip == ip)
            if not taken and not ip.endswith((".0", ".255")):  # valid, but some programs refuse them
                return ip
        raise isolation.SetupFailed("all addresses for pods are in use; --pod-network host needs none")


def try_network(directory: str) -> PodNetwork | None:
    """Pods on a bridge, or None where the host does not allow that: then they share its network."""
    try:
        return PodNetwork(directory)
    except (OSError, isolation.SetupFailed) as e:
        print(f"pods share the network of the host: {e}", file=sys.stderr, flush=True)
        return None


def free_block(start: int, taken: Collection[tuple[int, int]]) -> int:
    """The first address of a block that overlaps no network of the host, looking from a place that differs from cluster
    to cluster and from host to host."""
    for number in range(_BLOCKS):
        first = _FIRST + (start + number) % _BLOCKS * _BLOCK
        if all(last < first or other > first + _BLOCK - 1 for other, last in taken):
            return first
    raise isolation.SetupFailed("no network of 10.64.0.0/10 is free")


def _routes() -> Collection[tuple[int, int]]:
    with open("/proc/net/route") as table:
        return netlink.taken_networks(table.read())


def _dotted(number: int) -> str:
    return socket.inet_ntoa(struct.pack("!I", number))
