"""Which devices of which plugins a pod's containers have. Pure, but for the file that outlives the agent."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from dray import atomicfile
from dray.api import pods
from dray.api.compute import whole
from dray.api.validation import names
from dray.kubelet_api.checkpoint import CorruptCheckpoint

if TYPE_CHECKING:
    from dray.api.types.core import Container, Pod

#: Resources whose names have a domain of Kubernetes are never those of plugins.
_OWN_DOMAIN = "kubernetes.io"


class DeviceKey(NamedTuple):
    """Where devices went: a container of a pod, and the resource that they are of."""

    pod_uid: str
    container: str
    resource: str


class Allocated(NamedTuple):
    """The devices that a container has of a resource, and what the plugin answered (its encoded message)."""

    devices: tuple[str, ...]
    response: bytes


class _Entry(TypedDict):
    podUID: str
    container: str
    resource: str
    devices: Sequence[str]
    response: str


class _Checkpoint(TypedDict):
    resources: Sequence[str]
    allocations: Sequence[_Entry]


@dataclass(slots=True)
class Allocations:
    """Everything that has been handed out on one node; kept in a file, because containers outlive the agent."""

    path: Path | None = None
    #: Resources of which plugins have registered.
    resources: set[str] = field(default_factory=set)
    entries: dict[DeviceKey, Allocated] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Allocations:
        try:
            kept: _Checkpoint = json.loads(path.read_bytes())
            resources = set(kept["resources"])
            entries = {
                DeviceKey(entry["podUID"], entry["container"], entry["resource"]): Allocated(
                    tuple(entry["devices"]), base64.b64decode(entry["response"])
                )
                for entry in kept["allocations"]
            }
        except FileNotFoundError:
            return cls(path)
        except (ValueError, KeyError, TypeError) as e:
            raise CorruptCheckpoint(f"{path} cannot be read: drain the node and remove the file") from e
        return cls(path, resources, entries)

    def save(self) -> None:
        if self.path is None:
            return
        listed: list[_Entry] = [
            {
                "podUID": key.pod_uid,
                "container": key.container,
                "resource": key.resource,
                "devices": given.devices,
                "response": base64.b64encode(given.response).decode(),
            }
            for key, given in self.entries.items()
        ]
        kept: _Checkpoint = {"resources": sorted(self.resources), "allocations": listed}
        atomicfile.write(self.path, json.dumps(kept).encode(), mode=0o600, durable=True)

    def in_use(self, resource: str, *, but: frozenset[str] = frozenset()) -> set[str]:
        """Devices that pods have, without those of the pods in ``but``."""
        return {
            device
            for key, given in self.entries.items()
            if key.resource == resource and key.pod_uid not in but
            for device in given.devices
        }

    def of_pod(self, uid: str) -> dict[DeviceKey, Allocated]:
        return {key: given for key, given in self.entries.items() if key.pod_uid == uid}

    def release(self, uid: str) -> bool:
        """Takes back what a pod had; whether it had anything."""
        gone = self.of_pod(uid)
        for key in gone:
            del self.entries[key]
        return bool(gone)


def is_plugin_resource(name: str) -> bool:
    """Whether a resource may be a plugin's: its name has a domain, and not Kubernetes' own."""
    domain, slash, _ = name.partition("/")
    if not slash or domain == _OWN_DOMAIN or domain.endswith(f".{_OWN_DOMAIN}"):
        return False
    return not names.qualified_name(name)


def wanted(pod: Pod, container: Container, known: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    """The resources of plugins that a container asks for. What the scheduler gave it devices of claims for instead is
    none of theirs."""
    claim = pods.extended_resource_claim(pod) or {}
    from_claims = {
        mapping["resourceName"]
        for mapping in claim.get("requestMappings") or ()
        if mapping["containerName"] == container["name"]
    }
    for name, quantity in ((container.get("resources") or {}).get("limits") or {}).items():
        if name in known and name not in from_claims and (count := whole(str(quantity))):
            yield name, count


def reusable(pod: Pod, container: Container, resource: str, given: Mapping[DeviceKey, Allocated]) -> set[str]:
    """Devices that init containers of the pod had and have no more need of when this container runs."""
    found: set[str] = set()
    uid = pod["metadata"]["uid"]
    for init in pod["spec"].get("initContainers") or ():
        if init["name"] == container["name"]:
            break
        devices = given.get(DeviceKey(uid, init["name"], resource))
        if devices is not None and pods.is_sidecar(init):
            found.difference_update(devices.devices)
        elif devices is not None:
            found.update(devices.devices)
    return found


def choose(
    count: int, *, first: set[str], free: set[str], preferred: tuple[str, ...] = ()
) -> list[str] | None:
    """That many devices, or None: those that must be reused first, then those that the plugin prefers."""
    order = [*sorted(first), *(d for d in preferred if d in free), *sorted(free)]
    chosen = list(dict.fromkeys(order))[:count]
    return chosen if len(chosen) == count else None
