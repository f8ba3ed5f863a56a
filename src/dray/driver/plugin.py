"""A running driver: sockets, slices, health, and the ``Plugin`` through which a driver's code reaches them.

``run`` is the entry point; ``serving`` is the same as a context manager.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dray.api.groups.resource.validation.checks import is_driver_name
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.informers import Informer
from dray.client.resources import CLASSIC_RESOURCE_CLAIMS
from dray.driver import cdi, metadata, sockets
from dray.driver.base import Driver
from dray.driver.checkpoint import Checkpoint
from dray.driver.health import Health, HealthService, Report
from dray.driver.model import Claim, ClaimRef, Pool, Prepared
from dray.driver.preparation import Preparer
from dray.driver.publisher import SYNC_DELAY, Publisher
from dray.driver.resource_api import NoResourceApi, ResourceApi, wait_for_api
from dray.kubelet_api.services import DRA_SERVICES, HEALTH_SERVICES, REGISTRATION

if TYPE_CHECKING:
    from dray.api.types.resource import AllocatedDeviceStatus, ResourceClaim, ResourceSlice

log = logging.getLogger(__name__)

#: Seconds that calls under way have to finish when the driver is stopped.
STOP_GRACE = 5.0
_CLASSIC_VERSIONS = ("v1alpha2", "v1alpha1")


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Where a driver runs. The defaults are those of a kubelet on a plain host."""

    node: str
    kubelet_dir: Path = Path("/var/lib/kubelet")
    cdi_dir: Path = Path("/var/run/cdi")
    registry_dir: Path | None = None  # default: plugins_registry below kubelet_dir
    data_dir: Path | None = None  # default: plugins/<driver> below kubelet_dir
    #: The uid of the driver's pod: two instances may then run at once, for updates without a gap (Kubernetes 1.33).
    instance: str = ""
    #: gRPC versions to offer, the preferred one first.
    versions: Sequence[str] = tuple(DRA_SERVICES)
    node_uid: str = ""
    sync_delay: float = SYNC_DELAY
    #: Take the slices along when stopping; otherwise the kubelet removes them if the driver does not come back.
    withdraw: bool = False

    @property
    def registry(self) -> Path:
        """Where kubelets look for the sockets of drivers."""
        return self.registry_dir or self.kubelet_dir / "plugins_registry"


class Plugin:
    """What a driver can do while it runs."""

    def __init__(
        self,
        driver: Driver,
        options: Options,
        *,
        api: ResourceApi | None,
        publisher: Publisher | None,
        registration: sockets.Registration,
        preparer: Preparer,
        files: metadata.Writer | None,
    ) -> None:
        self.driver = driver
        self.options = options
        self.health_service = HealthService()
        self._api = api
        self._publisher = publisher
        self._registration = registration
        self._preparer = preparer
        self._files = files

    async def registered(self) -> None:
        """Waits until a kubelet has registered this driver."""
        await self._registration.registered.wait()

    def prepared_claims(self) -> list[ClaimRef]:
        """The claims that pods on this node use, or that are not unprepared yet."""
        return self._preparer.known_claims()

    @property
    def api(self) -> ResourceApi:
        """The resource API; NoResourceApi on servers that know only the classic generation."""
        if self._api is None:
            raise NoResourceApi("the server knows only the classic generation of the resource API")
        return self._api

    def publish(self, pools: Mapping[str, Pool]) -> None:
        """Replaces everything that is published. Returns at once; writing goes on in the background."""
        if self._publisher is not None:
            self._publisher.publish(pools)

    def set_health(
        self, pool: str, device: str, health: Health, *, message: str = "", timeout: int = 0
    ) -> None:
        self.health_service.set(pool, device, Report(health, message, timeout))

    async def set_device_status(self, claim: ClaimRef, devices: Sequence[AllocatedDeviceStatus]) -> None:
        """Writes ``status.devices`` of a claim: conditions, data and network data, as the API has them."""
        named: list[AllocatedDeviceStatus] = [{"driver": self.driver.name, **d} for d in devices]
        await self.api.set_device_status(claim, named, manager=self.driver.name)

    def update_metadata(self, claim: Claim, request: str, prepared: Sequence[Prepared]) -> None:
        """Replaces what containers read about their devices."""
        if self._files is None:
            raise RuntimeError("the driver does not write metadata files")
        self._files.update(claim, request, prepared)


@asynccontextmanager
async def serving(
    client: Client, driver: Driver, *, options: Options, informer: Informer[ResourceSlice] | None = None
) -> AsyncIterator[Plugin]:
    """Runs a driver for the length of the block."""
    if not is_driver_name(driver.name):  # directories and sockets are named after it
        raise ValueError(
            f"invalid driver name {driver.name!r}: it must be a DNS subdomain of at most 63 characters"
        )
    registry = options.registry
    data = options.data_dir or options.kubelet_dir / "plugins" / driver.name
    for directory in (registry, data, options.cdi_dir):
        directory.mkdir(parents=True, exist_ok=True)
    checkpoint = Checkpoint(data / "checkpoint.json")
    _take_over(
        driver.name, checkpoint, sockets_of_others=[registry / f"{driver.name}-reg.sock", data / "dra.sock"]
    )
    api = await wait_for_api(driver.name, lambda: resource_api(client, classic=driver.classic))
    publisher = None
    if api is not None:
        publisher = Publisher(
            api,
            driver.name,
            node="" if driver.network_attached else options.node,
            node_uid=options.node_uid,
            informer=informer,
            sync_delay=options.sync_delay,
            on_error=driver.on_error,
        )
    files = (
        metadata.Writer(
            driver=driver.name, data_dir=data, cdi_dir=options.cdi_dir, versions=driver.metadata_versions
        )
        if driver.metadata
        else None
    )
    preparer = Preparer(
        driver,
        claims=api.claim if api else _no_claims,
        checkpoint=checkpoint,
        specs=cdi.Specs(options.cdi_dir, cdi.Kind.of(driver.name)),
        lock_file=data / "serialize.lock",
        files=files,
    )
    preparer.write_common(driver.common_edits(options.node))
    endpoint = sockets.service_socket(data, options.instance)
    versions = options.versions if api else ()
    announced = sockets.announced(versions, health=driver.health, classic=driver.classic)
    registration = sockets.Registration(driver=driver.name, endpoint=endpoint, announced=announced)
    plugin = Plugin(
        driver,
        options,
        api=api,
        publisher=publisher,
        registration=registration,
        preparer=preparer,
        files=files,
    )

    services = sockets.dra_services(versions, preparer)
    if driver.classic:
        from dray.driver.classic import node_services

        services += node_services.services(preparer, list(driver.named_resources(options.node)))
    if driver.health:
        services += [(service, plugin.health_service) for service in HEALTH_SERVICES]
    sockets.remove_stale(registry, f"{driver.name}-*-reg.sock")
    sockets.remove_stale(data, "dra-*.sock")
    service = sockets.Listener(endpoint, services)
    register = sockets.Listener(
        sockets.registration_socket(registry, driver.name, options.instance), [(REGISTRATION, registration)]
    )
    async with contextlib.AsyncExitStack() as stack:
        # The kubelet calls as soon as it sees the registration socket: everything else comes before it.
        stack.push_async_callback(service.stop, grace=STOP_GRACE)  # also if it is stopped while it starts
        await service.start()
        await driver.started(plugin)
        stack.push_async_callback(driver.stopped)
        if publisher is not None:
            publisher.publish(driver.pools(options.node))
            publishing = asyncio.create_task(publisher.run(), name=f"slices of {driver.name}")
            stack.push_async_callback(_cancel, publishing)
            if options.withdraw:
                stack.push_async_callback(publisher.withdraw)
        stack.push_async_callback(register.stop)
        await register.start()
        yield plugin


class DriverRunning(Exception):
    """Another program of the same driver name runs on this node."""


def _take_over(name: str, checkpoint: Checkpoint, *, sockets_of_others: Sequence[Path]) -> None:
    """Succeeds another program of the same driver name, such as one written in Go. Claims that it prepared are unprepared
    as any others: their CDI files are removed, and nothing else is known about them."""
    if not checkpoint.is_foreign():
        return
    for socket in sockets_of_others:
        if socket.exists() and sockets.is_listening(socket):
            raise DriverRunning(
                f"another driver named {name} is running: it listens on {socket}. Stop it first"
            )
    aside = checkpoint.set_aside()
    log.warning(
        "%s: another program of this name ran here before; its checkpoint is now %s. This driver takes over",
        name,
        aside,
    )


async def run(client: Client, driver: Driver, *, options: Options) -> None:
    """Runs a driver until it is cancelled."""
    async with serving(client, driver, options=options):
        await asyncio.Event().wait()


async def resource_api(client: Client, *, classic: bool) -> ResourceApi | None:
    """The resource API; None where only the classic generation is served and the driver is content with that;
    NoResourceApi where the server has nothing for it."""
    try:
        return await ResourceApi.connect(client)
    except NoResourceApi:
        if not classic:
            raise
        if await Discovery(client).first_served(CLASSIC_RESOURCE_CLAIMS, _CLASSIC_VERSIONS) is None:
            raise NoResourceApi(
                "the server has no ResourceClaims in any version; "
                "DynamicResourceAllocation or its API versions are switched off"
            ) from None
        return None


async def _no_claims(namespace: str, name: str) -> ResourceClaim:
    raise NoResourceApi("classic claims are handed over, not looked up")


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
