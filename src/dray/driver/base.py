"""``Driver``: the class that a driver's author subclasses. The SDK does everything else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from dray.driver.metadata import VERSIONS as METADATA_VERSIONS
from dray.driver.model import Allocated, Claim, ClaimRef, Device, DeviceID, Edits, Handle, Pool, Prepared

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import StructuredResourceHandle
    from dray.driver.plugin import Plugin

log = logging.getLogger(__name__)


class Driver:
    """Subclass it, name it, say which devices there are and what containers get.

    Calls are serialized, also between two instances during a rolling update. ``prepare`` is called once per claim:
    repeated requests are answered from the SDK's checkpoint. If the process dies in between, ``unprepare`` is called
    before anything else happens to the claim, so it has to cope with work that is half done.
    """

    #: A DNS name, the ``driver`` of slices and allocation results.
    name: str = ""
    #: Offer the health service; the driver then reports through ``Plugin.set_health``.
    health: bool = False
    #: Write metadata files that containers can read.
    metadata: bool = False
    #: The versions of ``metadata.resource.k8s.io`` in these files, the preferred one first.
    metadata_versions: Sequence[str] = METADATA_VERSIONS
    #: Devices belong to no node in particular: one instance publishes them for the cluster.
    network_attached: bool = False
    #: Serve claims of the classic generation, too, to kubelets of Kubernetes 1.26 to 1.30 and to dray's node agent.
    classic: bool = False

    def devices(self, node: str) -> Iterable[Device]:
        """The devices of a node, for drivers with one pool a node."""
        return ()

    def pools(self, node: str) -> Mapping[str, Pool]:
        """Everything this instance publishes, by pool name."""
        return {node: Pool.of(self.devices(node))}

    def named_resources(self, node: str) -> Iterable[Device]:
        """What the kubelet of 1.30 publishes for a classic driver; attributes and capacity are what counts there."""
        return self.devices(node)

    def allocated(self, handle: Handle) -> Sequence[Allocated]:
        """The devices that the handle of a classic claim stands for. One that was written by the driver's own
        controller only the driver can read. An exception is told to the kubelet."""
        if handle.structured is None:
            raise ValueError(f"{self.name} has no controller that hands out resources")
        return structured_devices(handle.structured)

    async def prepare(self, claim: Claim) -> Sequence[Prepared]:
        """Makes the claim's devices ready. An exception is told to the kubelet, which tries again later."""
        return [Prepared(device=device, edits=self.edits(claim, device)) for device in claim.devices]

    def edits(self, claim: Claim, device: Allocated) -> Edits:
        """What containers that use this device get."""
        return Edits()

    def common_edits(self, node: str) -> Edits:
        """What every container with a device of this driver gets."""
        return Edits(env={"KUBERNETES_NODE_NAME": node, "DRA_RESOURCE_DRIVER_NAME": self.name})

    async def unprepare(self, claim: ClaimRef) -> None:
        """Undoes ``prepare``, however far it came."""

    async def started(self, plugin: Plugin) -> None:
        """Called when the sockets are open, before devices are published."""

    async def stopped(self) -> None:
        """Called when the sockets are closed."""

    def on_error(self, error: Exception) -> None:
        """Hears of failures in the background, such as slices that the API server refused. They are retried."""
        log.error("%s: %s", self.name, error)


def structured_devices(structured: StructuredResourceHandle) -> list[Allocated]:
    """What 1.30's scheduler has allocated: the pool is the node, the configuration what vendor parameters there are."""
    shared = [structured.get("vendorClassParameters"), structured.get("vendorClaimParameters")]
    return [
        Allocated(
            id=DeviceID(structured.get("nodeName") or "", result["namedResources"]["name"]),
            request="",
            config=[c for c in (*shared, result.get("vendorRequestParameters")) if c is not None],
        )
        for result in structured.get("results") or ()
    ]


class FunctionDriver(Driver):
    """A driver made of functions, for those who prefer them to a subclass."""

    def __init__(
        self,
        name: str,
        *,
        devices: Callable[[str], Iterable[Device]],
        edits: Callable[[Claim, Allocated], Edits] | None = None,
        unprepare: Callable[[ClaimRef], None] | None = None,
    ) -> None:
        self.name = name
        self._devices = devices
        self._edits = edits
        self._unprepare = unprepare

    def devices(self, node: str) -> Iterable[Device]:
        return self._devices(node)

    def edits(self, claim: Claim, device: Allocated) -> Edits:
        return self._edits(claim, device) if self._edits else Edits()

    async def unprepare(self, claim: ClaimRef) -> None:
        if self._unprepare:
            self._unprepare(claim)
