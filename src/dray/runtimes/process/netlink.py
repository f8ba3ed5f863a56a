"""The few requests to the kernel's routing socket that a pod's network needs: links, addresses, routes."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Sequence

_NETLINK_ROUTE = 0
_REQUEST, _ACK, _EXCL, _CREATE = 1, 4, 0x200, 0x400
_ERROR = 2
_NEWLINK, _DELLINK, _NEWADDR, _NEWROUTE = 16, 17, 20, 24
_UP = 1
_IFLA_IFNAME, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_FD = 3, 10, 18, 28
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL, _RTA_GATEWAY = 1, 2, 5
_TABLE_MAIN, _PROTOCOL_BOOT, _SCOPE_UNIVERSE, _UNICAST = 254, 3, 0, 1
_HEADER = struct.Struct("=IHHII")


class Message:
    """A request without its header; ``Netlink.send`` numbers it."""

    def __init__(self, kind: int, body: bytes, *attributes: bytes, create: bool = True) -> None:
        self.kind = kind
        self.flags = _REQUEST | _ACK | (_CREATE | _EXCL if create else 0)
        self.body = body + b"".join(attributes)


def bridge(name: str) -> Message:
    """A new bridge that is up."""
    info = _attribute(_INFO_KIND, b"bridge")
    return Message(
        _NEWLINK, _link(0), _attribute(_IFLA_IFNAME, _text(name)), _attribute(_IFLA_LINKINFO, info)
    )


def veth(name: str, *, master: int, peer: str, namespace: int) -> Message:
    """A pair of links: one end is a port of the bridge ``master`` and up, the other one is ``peer`` in another namespace.
    The kernel numbers a name with ``%d``."""
    far = _link(0, flags=0) + _attribute(_IFLA_IFNAME, _text(peer)) + _number(_IFLA_NET_NS_FD, namespace)
    info = _attribute(_INFO_KIND, b"veth") + _attribute(_INFO_DATA, _attribute(_VETH_PEER, far))
    return Message(
        _NEWLINK,
        _link(0),
        _attribute(_IFLA_IFNAME, _text(name)),
        _number(_IFLA_MASTER, master),
        _attribute(_IFLA_LINKINFO, info),
    )


def up(index: int) -> Message:
    return Message(_NEWLINK, _link(index), create=False)


def removed(index: int) -> Message:
    return Message(_DELLINK, _link(index), create=False)


def address(index: int, ip: str, prefix: int) -> Message:
    packed = socket.inet_aton(ip)
    body = struct.pack("=BBBBi", socket.AF_INET, prefix, 0, 0, index)
    return Message(_NEWADDR, body, _attribute(_IFA_LOCAL, packed), _attribute(_IFA_ADDRESS, packed))


def default_route(gateway: str) -> Message:
    body = struct.pack(
        "=BBBBBBBBI",
        *(socket.AF_INET, 0, 0, 0, _TABLE_MAIN, _PROTOCOL_BOOT, _SCOPE_UNIVERSE, _UNICAST, 0),
    )
    return Message(_NEWROUTE, body, _attribute(_RTA_GATEWAY, socket.inet_aton(gateway)))


def send(*messages: Message) -> None:
    """Sends requests to the kernel of the network namespace that the caller is in. OSError if one is refused."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_ROUTE) as kernel:
        kernel.bind((0, 0))
        kernel.send(b"".join(_numbered(message, number) for number, message in enumerate(messages)))
        answered = 0
        while answered < len(messages):
            answered += _check(kernel.recv(65536))


def _numbered(message: Message, number: int) -> bytes:
    size = _HEADER.size + len(message.body)
    return _padded(_HEADER.pack(size, message.kind, message.flags, number, 0) + message.body)


def _check(data: bytes) -> int:
    """How many answers these are."""
    found = 0
    while data:
        size, kind, _, _, _ = _HEADER.unpack_from(data)
        if kind == _ERROR:
            found += 1
            (code,) = struct.unpack_from("=i", data, _HEADER.size)
            if code:
                raise OSError(-code, os.strerror(-code))
        data = data[(size + 3) & ~3 :]
    if not found:
        raise OSError(errno.EPROTO, "the kernel did not answer")
    return found


def _link(index: int, *, flags: int = _UP) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, flags)


def _attribute(kind: int, value: bytes) -> bytes:
    return _padded(struct.pack("=HH", 4 + len(value), kind) + value)


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("=I", value))


def _text(name: str) -> bytes:
    return name.encode() + b"\0"


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def taken_networks(table: str) -> Sequence[tuple[int, int]]:
    """The networks in the text of /proc/net/route, each as its first and last address; not those of a /8 or wider."""
    found = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        first, mask = (socket.ntohl(int(fields[column], 16)) for column in (1, 7))
        if mask > 0xFF000000:
            found.append((first, first | ~mask & 0xFFFFFFFF))
    return found
