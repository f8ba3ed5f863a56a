"""Codecs for the bodies of subresources, whose kinds are not served as resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from dray.api.scheme.kinds import Kind, Object, Version
from dray.server.storage.codec import Codec
from dray.wire.ports import port_number

_FLAGS: Final = ("stdin", "stdout", "stderr", "tty")


@cache
def body_codec(group: str, version: str, kind: str, type: str = "") -> Codec:
    """The codec of a body that has a single version and is what it is."""
    name = Version(name=version, type=type)
    described = Kind(group=group, kind=kind, plural=kind.lower(), versions=(name,), storage=version)
    return Codec(described, name)


class ProjectionCodec(Codec):
    """Shows a stored object as one aspect of it, such as its scale."""

    __slots__ = ("_show",)

    def __init__(self, whole: Codec, show: Callable[[Object], Object]) -> None:
        super().__init__(whole.kind, whole.version)
        self._show = show

    def object(self, hub: Object) -> Object:
        return self._show(hub)


EVICTION: Final = ("policy", "v1", "Eviction", "policy/v1.Eviction")
SCALE: Final = ("autoscaling", "v1", "Scale", "autoscaling/v1.Scale")


def connect_options(resource: str, subresource: str, query: Mapping[str, list[str]]) -> tuple[Codec, Object]:
    """What a request to connect asks for, as an object of the kind that upstream gives it."""
    word = {"exec": "Exec", "attach": "Attach", "portforward": "PortForward", "proxy": "Proxy"}[subresource]
    owner = {"pods": "Pod", "services": "Service", "nodes": "Node"}[resource]
    options: dict[str, Any] = {}
    for name, values in query.items():
        if name in _FLAGS:
            options[name] = values[0].lower() not in ("false", "0")
        elif name == "ports":
            numbers = (port_number(v) for value in values for v in value.split(","))
            options[name] = [number for number in numbers if number is not None]
        else:
            options[name] = list(values) if name == "command" else values[0]
    return body_codec("", "v1", f"{owner}{word}Options"), options
