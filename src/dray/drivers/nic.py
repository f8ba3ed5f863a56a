"""``nic.example.com``: network cards in a fabric, which any node of their rack can attach.

Such devices belong to no node: one controller publishes them for all, and the scheduler binds a pod only after the
controller has attached its card to the chosen node and said so in the claim's status (binding conditions). The node's
part merely hands the interface to the containers.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dray.api.errors import NotFound
from dray.api.times import format_time
from dray.client.client import Client
from dray.client.informers import Informer
from dray.client.resources import RESOURCE_CLAIMS, ObjectKey, key_of
from dray.client.workqueue import WorkQueue
from dray.driver import Allocated, Claim, ClaimRef, Device, Driver, Edits, Pool, Version
from dray.driver.publisher import Publisher
from dray.driver.resource_api import ResourceApi

if TYPE_CHECKING:
    from dray.api.types.core import NodeSelector, NodeSelectorRequirement
    from dray.api.types.meta import Condition
    from dray.api.types.resource import AllocatedDeviceStatus, NetworkDeviceData, ResourceClaim

log = logging.getLogger(__name__)

DRIVER = "nic.example.com"
ATTACHED = "nic.example.com/attached"
ATTACH_FAILED = "nic.example.com/attach-failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fabric:
    """Cards that the nodes with certain labels can reach; without labels, all nodes."""

    name: str = "fabric-0"
    count: int = 4
    node_labels: Mapping[str, str] | None = None
    #: Cards that refuse to be attached, to see what happens then.
    broken: frozenset[str] = frozenset()

    def pool(self) -> Pool:
        selector: NodeSelector | None = None
        if self.node_labels:
            wanted: list[NodeSelectorRequirement] = [
                {"key": k, "operator": "In", "values": [v]} for k, v in self.node_labels.items()
            ]
            selector = {"nodeSelectorTerms": [{"matchExpressions": wanted}]}
        return Pool.of(self._devices(), node_selector=selector, all_nodes=selector is None)

    def _devices(self) -> Iterator[Device]:
        for i in range(self.count):
            yield Device(
                name=f"nic-{i}",
                attributes={
                    "index": i,
                    "model": "LATEST-NET-MODEL",
                    "driverVersion": Version("1.0.0"),
                    "mac": mac_address(self.name, i),
                },
                binds_to_node=True,
                binding_conditions=[ATTACHED],
                binding_failure_conditions=[ATTACH_FAILED],
            )


class NicDriver(Driver):
    """The node's part."""

    name = DRIVER

    def pools(self, node: str) -> Mapping[str, Pool]:
        return {}

    def edits(self, claim: Claim, device: Allocated) -> Edits:
        key = f"NIC_DEVICE_{device.name.removeprefix('nic-').upper()}"
        network = _network_data(device.id.pool, device.name)
        return Edits(
            env={
                key: device.name,
                f"{key}_INTERFACE": network["interfaceName"],
                f"{key}_ADDRESS": network["ips"][0],
                f"{key}_RESOURCE_CLAIM": claim.ref.uid,
            }
        )


async def run_controller(client: Client, *, fabric: Fabric) -> None:
    """Publishes the fabric's cards and attaches those that claims were given, until it is cancelled."""
    api = await ResourceApi.connect(client)
    publisher = Publisher(api, DRIVER, on_error=lambda e: log.error("slices of %s: %s", DRIVER, e))
    publisher.publish({fabric.name: fabric.pool()})
    claims = Informer(client, RESOURCE_CLAIMS.at(api.version))
    queue = WorkQueue[ObjectKey]()
    claims.add_handler(
        on_add=lambda claim: queue.add(key_of(claim)), on_update=lambda old, new: queue.add(key_of(new))
    )

    async def attach(key: ObjectKey) -> None:
        claim = claims.get(key.namespace, key.name)
        if claim and (devices := statuses(claim, fabric, now=datetime.now(UTC))):
            ref = ClaimRef(key.namespace, key.name, claim["metadata"]["uid"])
            try:
                await api.set_device_status(ref, devices, manager=DRIVER)
            except NotFound:
                return

    async with asyncio.TaskGroup() as group:
        group.create_task(publisher.run())
        group.create_task(claims.run())
        group.create_task(queue.run(attach))


def statuses(claim: ResourceClaim, fabric: Fabric, *, now: datetime) -> list[AllocatedDeviceStatus]:
    """What is to be said about the claim's cards; nothing if all has been said. Pure."""
    status = claim.get("status") or {}
    if not status.get("allocation"):
        return []
    cards = [d for d in Claim.of(claim, DRIVER).devices if d.id.pool == fabric.name and d.binding_conditions]
    said = {
        (d["pool"], d["device"]): {c["type"] for c in d.get("conditions") or [] if c["status"] == "True"}
        for d in status.get("devices") or []
        if d["driver"] == DRIVER
    }
    if all(said.get((d.id.pool, d.name), set()) & {ATTACHED, ATTACH_FAILED} for d in cards):
        return []
    return [_status(d, failed=d.name in fabric.broken, now=now) for d in cards]


def _status(device: Allocated, *, failed: bool, now: datetime) -> AllocatedDeviceStatus:
    condition: Condition = {
        "type": ATTACH_FAILED if failed else ATTACHED,
        "status": "True",
        "reason": "NoLink" if failed else "Ready",
        "message": "the card has no link" if failed else "the card is attached to the node",
        "lastTransitionTime": format_time(now),
    }
    out: AllocatedDeviceStatus = {
        "driver": DRIVER,
        "pool": device.id.pool,
        "device": device.name,
        "conditions": [condition],
    }
    if not failed:
        out["networkData"] = _network_data(device.id.pool, device.name)
    return out


def _network_data(pool: str, device: str) -> NetworkDeviceData:
    index = int(device.removeprefix("nic-"))
    address = ipaddress.ip_address("10.77.0.1") + index
    return {
        "interfaceName": f"net{index}",
        "ips": [f"{address}/16"],
        "hardwareAddress": mac_address(pool, index),
    }


def mac_address(pool: str, index: int) -> str:
    digest = hashlib.sha256(f"{pool}/{index}".encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))
