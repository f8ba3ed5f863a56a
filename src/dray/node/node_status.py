"""The Node object and its Lease: the node registers itself, reports its status and renews the lease."""

from __future__ import annotations

import asyncio
import logging
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from dray.api.errors import AlreadyExists, Conflict, NotFound, StatusError
from dray.api.times import format_micro_time, from_epoch
from dray.backoff import Backoff
from dray.client.client import Client, PatchType
from dray.client.resources import LEASES, NODES
from dray.node.options import NodeOptions, system_labels

if TYPE_CHECKING:
    from dray.api.types.coordination import LeaseSpec
    from dray.api.types.core import Node, NodeCondition, NodeStatus, NodeSystemInfo
    from dray.api.types.meta import ObjectMeta, OwnerReference

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
#: Seconds between reports of a status that has not changed.
STATUS_PERIOD = 300.0
_RETRY = Backoff(initial=0.2, factor=2.0, maximum=7.0, jitter=0.1)


class DeviceCounts(NamedTuple):
    """How many devices plugins have, and how many of them are healthy, by resource."""

    capacity: Mapping[str, str] = MappingProxyType({})
    allocatable: Mapping[str, str] = MappingProxyType({})


class NodeRegistration:
    """Keeps one node registered."""

    def __init__(
        self,
        client: Client,
        options: NodeOptions,
        *,
        runtime: str,
        version: str,
        clock: Callable[[], float] = time.time,
        devices: Callable[[], DeviceCounts] = lambda: DeviceCounts(),
        features: Sequence[str] = (),
    ) -> None:
        """``devices`` are those of device plugins, by resource. ``features`` are those that the node declares."""
        self._features = features
        self._client = client
        self._options = options
        self._runtime = runtime
        self._clock = clock
        self._facts = _node_info(options, runtime=runtime, version=version)
        self._devices = devices
        self._devices_changed = asyncio.Event()
        self.uid = ""

    def devices_changed(self) -> None:
        self._devices_changed.set()

    async def report_devices(self) -> None:
        """Reports what device plugins have whenever that changes, for as long as it runs."""
        pauses = _RETRY.pauses()
        reported = DeviceCounts()
        while True:
            await self._devices_changed.wait()
            self._devices_changed.clear()
            now = self._devices()
            if now == reported:
                continue
            status: NodeStatus = {"capacity": now.capacity, "allocatable": now.allocatable}
            try:
                await self._client.patch_status(NODES, "", self._options.name, {"status": status})
                reported, pauses = now, _RETRY.pauses()
            except StatusError as e:
                log.info("devices of node %s: %s", self._options.name, e)
                self._devices_changed.set()
                await asyncio.sleep(next(pauses))

    async def register(self) -> Node:
        """Creates the node, or takes over the one of this name; keeps trying until that works."""
        pauses = _RETRY.pauses()
        while True:
            try:
                node = await self._register()
                self.uid = node["metadata"]["uid"]
                return node
            except StatusError as e:
                log.warning("node %s cannot be registered yet: %s", self._options.name, e)
            await asyncio.sleep(next(pauses))

    async def run(self) -> None:
        """Renews the lease, and reports the status now and then."""
        reported = self._clock()
        pauses = _RETRY.pauses()
        while True:
            try:
                await self._renew()
                if self._clock() - reported >= STATUS_PERIOD:
                    await self.report()
                    reported = self._clock()
                pauses = _RETRY.pauses()
                await asyncio.sleep(self._options.renew_every)
            except NotFound:
                await self.register()
            except StatusError as e:
                log.warning("lease of node %s: %s", self._options.name, e)
                await asyncio.sleep(next(pauses))

    async def report(self) -> None:
        await self._client.patch_status(
            NODES, "", self._options.name, {"status": self._status({})}, type=PatchType.STRATEGIC
        )

    async def _register(self) -> Node:
        options = self._options
        metadata: ObjectMeta = {"name": options.name, "labels": system_labels(options)}
        if options.annotations:
            metadata["annotations"] = dict(options.annotations)
        document: Node = {"metadata": metadata, "status": self._status({})}
        if options.taints:
            document["spec"] = {"taints": options.taints}
        try:
            return await self._client.create(NODES, "", document)
        except AlreadyExists:
            found = await self._client.get(NODES, "", options.name)
            if (found["metadata"].get("labels") or {}).items() < metadata["labels"].items():
                await self._client.patch(
                    NODES, "", options.name, {"metadata": {"labels": metadata["labels"]}}
                )
            return await self._client.patch_status(
                NODES, "", options.name, {"status": self._status(found)}, type=PatchType.STRATEGIC
            )

    def _status(self, found: Node) -> NodeStatus:
        options = self._options
        old = {c["type"]: c for c in (found.get("status") or {}).get("conditions") or []}
        now = from_epoch(self._clock())

        def condition(kind: str, status: str, reason: str, message: str) -> NodeCondition:
            before = old.get(kind)
            same = before is not None and before["status"] == status
            since = before["lastTransitionTime"] if before and same else now
            return {
                "type": kind,
                "status": status,
                "lastHeartbeatTime": now,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }

        status: NodeStatus = {
            "capacity": {**options.capacity, **self._devices().capacity},
            "allocatable": {**options.capacity, **self._devices().allocatable},
            "conditions": [
                condition(
                    "MemoryPressure",
                    "False",
                    "KubeletHasSufficientMemory",
                    "kubelet has sufficient memory available",
                ),
                condition(
                    "DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"
                ),
                condition(
                    "PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"
                ),
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "addresses": [
                {"type": "InternalIP", "address": options.address},
                {"type": "Hostname", "address": options.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": options.port}},
            "nodeInfo": self._facts,
        }
        if self._features:
            status["declaredFeatures"] = list(self._features)
        return status

    async def _renew(self) -> None:
        options = self._options
        spec: LeaseSpec = {
            "holderIdentity": options.name,
            "leaseDurationSeconds": options.lease_seconds,
            "renewTime": format_micro_time(datetime.fromtimestamp(self._clock(), UTC)),
        }
        try:
            await self._client.patch(LEASES, LEASE_NAMESPACE, options.name, {"spec": spec})
        except NotFound:
            owner: OwnerReference = {
                "apiVersion": "v1",
                "kind": "Node",
                "name": options.name,
                "uid": self.uid,
            }
            metadata: ObjectMeta = {
                "name": options.name,
                "namespace": LEASE_NAMESPACE,
                "ownerReferences": [owner],
            }
            try:
                await self._client.create(LEASES, LEASE_NAMESPACE, {"metadata": metadata, "spec": spec})
            except (AlreadyExists, Conflict):
                return


def _node_info(options: NodeOptions, *, runtime: str, version: str) -> NodeSystemInfo:
    def text(path: str) -> str:
        try:
            return Path(path).read_text().strip()
        except OSError:
            return ""

    release = dict(line.split("=", 1) for line in text("/etc/os-release").splitlines() if "=" in line)
    return {
        "machineID": text("/etc/machine-id"),
        "systemUUID": text("/etc/machine-id"),
        "bootID": text("/proc/sys/kernel/random/boot_id"),
        "kernelVersion": platform.release(),
        "osImage": release.get("PRETTY_NAME", "Linux").strip('"'),
        "containerRuntimeVersion": runtime,
        "kubeletVersion": version,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": system_labels(options)["kubernetes.io/arch"],
    }
