"""``gpu.example.com``: pretend GPUs. What containers see is what the public example driver shows them.

Options turn on what newer releases can do: partitions that share a card, cards that several claims share by the
gigabyte, health reports, data in the claim's status.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from dray.driver import (
    Allocated,
    Attribute,
    Capacity,
    Claim,
    Counters,
    Device,
    Driver,
    Edits,
    Health,
    Metadata,
    Plugin,
    Pool,
    Prepared,
    Version,
)

if TYPE_CHECKING:
    from dray.api.types.resource import AllocatedDeviceStatus

DRIVER = "gpu.example.com"
CONFIG_API = "gpu.resource.example.com/v1alpha1"
MEMORY_GIB = 80
#: Files in this directory say which cards are not well.
UNHEALTHY_DIRECTORY = "ailing"
#: Seconds between looks there.
HEALTH_POLL_SECONDS = 0.5
INTERVALS = ("Default", "Short", "Medium", "Long")


class TimeSlicingConfig(TypedDict, total=False):
    interval: str


class SpacePartitioningConfig(TypedDict, total=False):
    partitionCount: int


class Sharing(TypedDict, total=False):
    strategy: str
    timeSlicingConfig: TimeSlicingConfig
    spacePartitioningConfig: SpacePartitioningConfig


class GpuConfig(TypedDict, total=False):
    """The opaque parameters of a claim or a class that this driver understands."""

    apiVersion: str
    kind: str
    sharing: Sharing


class InvalidConfig(Exception):
    """A claim's or class's configuration is not one this driver understands."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuOptions:
    """What the cards of a node are like."""

    count: int = 8
    #: Cut every card into so many parts that can be given out instead of the whole (DRAPartitionableDevices).
    partitions: int = 0
    #: Let several claims share a card, each with the memory it asks for (DRAConsumableCapacity).
    shared: bool = False
    #: Report health (ResourceHealthStatus). All is well unless a file ``ailing/<device>`` in the driver's directory
    #: says otherwise: its text is the message, and one that begins with "unknown" means just that.
    health: bool = False
    #: Write uuid, model and version of allocated cards into the claim's status.
    device_status: bool = False
    #: Write files in which containers can read about their cards.
    metadata: bool = False


class GpuDriver(Driver):
    name = DRIVER

    def __init__(self, options: GpuOptions | None = None, *, name: str = DRIVER) -> None:
        self.name = name
        self.options = options or GpuOptions()
        self.health = self.options.health
        self.metadata = self.options.metadata
        self._plugin: Plugin | None = None
        self._known: dict[str, Device] = {}
        self._health_task: asyncio.Task[None] | None = None

    def pools(self, node: str) -> Mapping[str, Pool]:
        if not self.options.partitions:
            return {node: Pool.of(self.devices(node))}
        counters = [Counters(_counter_set(i), _amounts(MEMORY_GIB, 100)) for i in range(self.options.count)]
        return {node: Pool.of(self.devices(node), counters=counters)}

    def devices(self, node: str) -> Iterable[Device]:
        devices = [d for i in range(self.options.count) for d in self._card(node, i)]
        self._known = {d.name: d for d in devices}
        return devices

    def _card(self, node: str, index: int) -> Iterable[Device]:
        attributes: dict[str, Attribute] = {
            "driverVersion": Version("1.0.0"),
            "index": index,
            "model": "LATEST-GPU-MODEL",
            "uuid": gpu_uuid(node, index),
        }
        shared = self.options.shared
        parts = self.options.partitions
        if not parts:
            capacity = {"memory": self._memory(MEMORY_GIB)}
            yield Device(
                name=f"gpu-{index}", attributes=attributes, capacity=capacity, many_allocations=shared
            )
            return
        share = MEMORY_GIB // parts
        for part in range(parts):
            yield Device(
                name=f"gpu-{index}-partition-{part}",
                attributes={**attributes, "partition": part, "partitionable": True},
                capacity={"memory": self._memory(share)},
                consumes=[Counters(_counter_set(index), _amounts(share, 100 // parts))],
                many_allocations=shared,
            )
        yield Device(
            name=f"gpu-{index}-full",
            attributes={**attributes, "partitionable": True, "full": True},
            capacity={"memory": self._memory(MEMORY_GIB)},
            consumes=[Counters(_counter_set(index), _amounts(MEMORY_GIB, 100))],
            many_allocations=shared,
        )

    def _memory(self, gib: int) -> str | Capacity:
        if not self.options.shared:
            return f"{gib}Gi"
        return Capacity(value=f"{gib}Gi", default=f"{gib}Gi", minimum="1Gi", maximum=f"{gib}Gi", step="1Gi")

    async def started(self, plugin: Plugin) -> None:
        self._plugin = plugin
        if self.health:
            folder = plugin.options.data_dir or plugin.options.kubelet_dir / "plugins" / self.name
            self._health_task = asyncio.create_task(
                self._watch_health(plugin, folder / UNHEALTHY_DIRECTORY), name="health of cards"
            )

    async def stopped(self) -> None:
        if self._health_task:
            self._health_task.cancel()
            await asyncio.gather(self._health_task, return_exceptions=True)

    async def _watch_health(self, plugin: Plugin, folder: Path) -> None:
        """Pretend cards are as well as the files say."""
        names = [device.name for device in self.devices(plugin.options.node)]
        while True:
            for name in names:
                health, message = read_health(folder / name)
                plugin.set_health(plugin.options.node, name, health, message=message)
            await asyncio.sleep(HEALTH_POLL_SECONDS)

    async def prepare(self, claim: Claim) -> Sequence[Prepared]:
        prepared = []
        for device in claim.devices:
            if self._known and device.name not in self._known:
                raise ValueError(f"requested device is not allocatable: {device.name}")
            known = self._known.get(device.name)
            about = Metadata(attributes=known.attributes) if known and self.metadata else None
            prepared.append(Prepared(device=device, edits=self.edits(claim, device), metadata=about))
        if self.options.device_status and self._plugin:
            await self._plugin.set_device_status(claim.ref, [self._status(d) for d in claim.devices])
        return prepared

    def edits(self, claim: Claim, device: Allocated) -> Edits:
        key = "GPU_DEVICE_" + re.sub(r"[^A-Z0-9]", "_", device.name.removeprefix("gpu-").upper())
        env = {
            key: device.name,
            f"{key}_RESOURCE_CLAIM": claim.ref.uid,
            "DRA_ADMIN_ACCESS": str(device.admin).lower(),
        }
        for name, value in sharing(device.config).items():
            env[f"{key}_{name}"] = value
        if "memory" in device.consumed:
            env[f"{key}_MEMORY"] = device.consumed["memory"]
        return Edits(env=env)

    def _status(self, device: Allocated) -> AllocatedDeviceStatus:
        known = self._known.get(device.name)
        attributes = known.document()["attributes"] if known else {}
        data = {k: attributes[k] for k in ("uuid", "model", "driverVersion") if k in attributes}
        status: AllocatedDeviceStatus = {
            "driver": self.name,
            "pool": device.id.pool,
            "device": device.name,
            "data": data,
        }
        if device.id.share:
            status["shareID"] = device.id.share
        return status


def sharing(configs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The variables for the last configuration given, or for the default: time slicing with the default interval."""
    config: GpuConfig = {"apiVersion": CONFIG_API, "kind": "GpuConfig"}
    if configs:
        config = cast("GpuConfig", configs[-1])
    if (config.get("apiVersion"), config.get("kind")) != (CONFIG_API, "GpuConfig"):
        raise InvalidConfig(
            f"expected {CONFIG_API} GpuConfig, got {config.get('apiVersion')} {config.get('kind')}"
        )
    default: Sharing = {"strategy": "TimeSlicing"}
    wanted = config.get("sharing") or default
    strategy = wanted.get("strategy")
    slicing, partitioning = wanted.get("timeSlicingConfig"), wanted.get("spacePartitioningConfig")
    if strategy == "TimeSlicing":
        if partitioning is not None:
            raise InvalidConfig("cannot use SpacePartitioningConfig with the 'TimeSlicing' strategy")
        interval = (slicing or {}).get("interval", "Default")
        if interval not in INTERVALS:
            raise InvalidConfig(f"unknown time-slice interval: {interval}")
        return {"SHARING_STRATEGY": strategy, "TIMESLICE_INTERVAL": interval}
    if strategy == "SpacePartitioning":
        if slicing is not None:
            raise InvalidConfig("cannot use TimeSlicingConfig with the 'SpacePartitioning' strategy")
        count = (partitioning or {}).get("partitionCount", 1)
        if not isinstance(count, int) or count < 0:
            raise InvalidConfig(f"invalid partition count: {count}")
        return {"SHARING_STRATEGY": strategy, "PARTITION_COUNT": str(count)}
    raise InvalidConfig(f"unknown GPU sharing strategy: {strategy}")


def read_health(file: Path) -> tuple[Health, str]:
    """A card's health and the message that goes with it."""
    try:
        text = file.read_text().strip()
    except OSError:
        return Health.HEALTHY, ""
    return (Health.UNKNOWN if text.lower().startswith("unknown") else Health.UNHEALTHY), text


def gpu_uuid(node: str, index: int) -> str:
    """The same card has the same uuid whenever the driver starts."""
    digest = hashlib.sha256(f"{node}/{index}".encode()).digest()
    return f"gpu-{uuid.UUID(bytes=digest[:16])}"


def _counter_set(index: int) -> str:
    return f"gpu-{index}-counters"


def _amounts(memory_gib: int, compute: int) -> dict[str, str]:
    return {"memory": f"{memory_gib}Gi", "compute": str(compute)}
