"""What runs beside the API server in ``dray up``: scheduler, controllers, nodes and drivers; each under its own name.

Imports are inside the functions: a component that is not asked for costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from dray.app import controlplane
from dray.app.datadir import node_directory

if TYPE_CHECKING:
    from dray.api.types.rbac import ClusterRole, ClusterRoleBinding, PolicyRule
    from dray.api.types.resource import DeviceClass, DeviceSelector
    from dray.app.up import Ready, RunningCluster
    from dray.client.client import Client
    from dray.driver.base import Driver
    from dray.node.nodes import Nodes
    from dray.node.options import NodeOptions

SCHEDULER = "system:kube-scheduler"
CONTROLLERS = "system:kube-controller-manager"
DRIVERS = "system:dray:drivers"
CATS = "system:dray:cats"
_RBAC = "rbac.authorization.k8s.io"


async def scheduler(cluster: RunningCluster, ready: Ready) -> None:
    from dray.client.client import Client
    from dray.scheduler import component

    options = component.Options(
        configuration=cluster.options.scheduler,
        gates=cluster.server.api.gates,
        version=cluster.server.api.version,
        nominates_before_every_bind=cluster.quirks.scheduler_nominates_before_every_bind,
        clock=cluster.options.clock,
        monotonic=cluster.options.monotonic,
    )
    with cluster.server.api.metrics.registry.include(options.metrics.text):
        await component.run(Client(cluster.transport(SCHEDULER)), options=options, ready=lambda _: ready())


async def allow_nodes_to_join(cluster: RunningCluster) -> None:
    """Prepare what bootstrap tokens need, whoever runs the controllers that sign for them."""
    from dray.app.bootstraptoken import allow_bootstrap_tokens
    from dray.client.client import Client

    setup = Client(cluster.transport("system:dray:setup", "system:masters"))
    await allow_bootstrap_tokens(
        setup, server=cluster.server.url, ca=cluster.server.pki.ca.read_bytes(), update_address=True
    )


async def controllers(cluster: RunningCluster, ready: Ready) -> None:
    from dray.client.client import Client
    from dray.controllers import manager

    def client_for(name: str) -> Client:
        account = f"system:serviceaccount:kube-system:{name}"
        return Client(
            cluster.transport(account, "system:serviceaccounts", "system:serviceaccounts:kube-system")
        )

    options = manager.Options(
        controllers=controlplane.CONTROLLERS,
        version=cluster.server.api.version,
        gates=cluster.server.api.gates,
        settings=_controller_settings(cluster),
        clock=cluster.options.clock,
    )
    client = Client(cluster.transport(CONTROLLERS))
    with cluster.server.api.metrics.registry.include(options.metrics.registry.text):
        await manager.run(client, options=options, client_for=client_for, ready=ready)


def _controller_settings(cluster: RunningCluster) -> dict[str, dict[str, object]]:
    """What single controllers need to know about this cluster."""
    keys, quirks = cluster.server.pki, cluster.quirks
    return {
        # Upstream waits for the caches of other API servers. Here there are none, so only an emulated release waits.
        "namespace-controller": {"grace_seconds": 0.5 if quirks.namespace_deletion_waits else 0},
        "resourceclaim-controller": {"creates_with_finalizer": quirks.claims_are_created_with_finalizer},
        "root-ca-certificate-publisher-controller": {"ca": keys.ca.read_text()},
        "serviceaccount-token-controller": {
            "key": (keys.folder / "sa.key").read_text(),
            "ca": keys.ca.read_text(),
        },
        "certificatesigningrequest-signing-controller": {
            "certificate": keys.ca.read_text(),
            "key": keys.ca_key.read_text(),
        },
    }


async def nodes(
    cluster: RunningCluster, ready: Ready, *, running: Callable[[Nodes], None] = lambda nodes: None
) -> None:
    """The nodes of this process, with logs and commands offered to the API server. ``running`` is told of them."""
    from dray.app.localnodes import LocalNodes
    from dray.app.nodeserver import cluster_endpoint
    from dray.app.remotenodes import RemoteNodes
    from dray.client.client import Client
    from dray.node.options import has_plugin_sockets
    from dray.node.run import Options, run
    from dray.node.server.host import NodeHost

    def known(found: Nodes) -> None:
        others = RemoteNodes(cluster.server.pki)
        cluster.server.nodes.use(LocalNodes(NodeHost(found), others=others))
        cluster.registered.set()
        running(found)
        ready()

    options = Options(
        nodes=[_node(cluster, name) for name in cluster.node_names],
        runtime=cluster.options.runtime,
        runtime_dir=cluster.data / "runtime",
        hidden=[cluster.data],
        pod_network=cluster.options.pod_network == "bridge",
        api_server=_api_server(cluster),
        clock=cluster.options.clock,
        endpoint=(lambda node: cluster_endpoint(cluster.server.pki, node, runtime=cluster.options.runtime))
        if has_plugin_sockets(cluster.options.runtime)
        else None,
    )
    client = Client(cluster.transport("system:dray:nodes", "system:masters"))
    await run(client, options=options, client_for=lambda name: node_client(cluster, name), ready=known)


def _node(cluster: RunningCluster, name: str) -> NodeOptions:
    from dray.node.hostpaths import HostPaths
    from dray.node.options import NodeOptions, has_plugin_sockets

    version = cluster.server.api.version.git_version
    if not has_plugin_sockets(cluster.options.runtime):
        return NodeOptions.simulated(
            name,
            address="",
            version=version,
            release=cluster.server.api.version,
            gates=cluster.server.api.gates,
        )
    host, port = _api_server(cluster)
    withdraws = cluster.quirks.withdraws_slices_of_gone_drivers
    withdraw_after = cluster.options.withdraw_after if withdraws else None
    first = name == cluster.node_names[0]
    return NodeOptions(
        name=name,
        paths=HostPaths.below(node_directory(cluster.data, name)),
        capacity={"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"},
        address="",
        services={"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)},
        control_plane=controlplane.control_plane_parts(cluster) if first else (),
        version=version,
        withdraw_after=withdraw_after,
        release=cluster.server.api.version,
        gates=cluster.server.api.gates,
    )


def _api_server(cluster: RunningCluster) -> tuple[str, int]:
    host, _, port = cluster.server.url.removeprefix("https://").rpartition(":")
    return host.strip("[]"), int(port)


def node_client(cluster: RunningCluster, name: str) -> Client:
    from dray.client.client import Client

    return Client(cluster.transport(f"system:node:{name}", "system:nodes"))


async def gpu_driver(cluster: RunningCluster, ready: Ready) -> None:
    """The example GPU driver on every node, and the DeviceClass through which its devices are asked for."""
    from dray.drivers.gpu import DRIVER, GpuDriver, GpuOptions

    await _install_driver(cluster, DRIVER)
    await _run_driver(cluster, ready, lambda: GpuDriver(GpuOptions(count=cluster.options.devices)))


async def nic_driver(cluster: RunningCluster, ready: Ready) -> None:
    """The example network cards: the fabric's controller, the part on every node, and their DeviceClass."""
    from dray.client.client import Client
    from dray.driver.resource_api import ResourceApi
    from dray.drivers.nic import DRIVER, Fabric, NicDriver, run_controller
    from dray.node.options import has_plugin_sockets

    await _install_driver(cluster, DRIVER)
    await cluster.registered.wait()
    client = Client(cluster.transport(DRIVERS))
    async with asyncio.TaskGroup() as group:
        if await _api_is_served(cluster, DRIVER, lambda: ResourceApi.connect(client)):
            group.create_task(run_controller(client, fabric=Fabric()), name="the fabric's controller")
            if has_plugin_sockets(cluster.options.runtime):
                for name in cluster.node_names:
                    await _start_on_node(group, client, NicDriver(), cluster, name)
        ready()
        await asyncio.Event().wait()


async def cats_driver(cluster: RunningCluster, ready: Ready) -> None:
    """The example cats: on every node, and in the control plane for classic claims.

    Where the GPU driver runs by default too, their devices are only announced until a DeviceClass names the driver.
    """
    from dray.client.client import Client
    from dray.driver import classic, simulated
    from dray.driver.classic.versions import served
    from dray.driver.plugin import resource_api
    from dray.drivers.cats import CatsController, CatsDriver, control_plane, deviceclass
    from dray.drivers.cats.install import install
    from dray.node.options import has_plugin_sockets

    client, quirks = Client(cluster.transport(CATS)), cluster.quirks
    await cluster.registered.wait()
    setup = Client(cluster.transport("system:dray:setup", "system:masters"))
    await install(setup, user=CATS, with_parameters=quirks.serves_resource_classes)
    gpus_by_default = cluster.options.drivers is None and quirks.serves_device_classes
    hidden = gpus_by_default and not await deviceclass.class_exists(client)
    drivers = [CatsDriver(hidden=hidden) for _ in cluster.node_names]
    async with asyncio.TaskGroup() as group:
        if quirks.serves_resource_classes:
            begun = asyncio.Event()
            controller = CatsController(cluster.node_names)
            group.create_task(control_plane(client, controller, options=classic.Options(), ready=begun.set))
            if await _api_is_served(cluster, CatsDriver.name, lambda: served(client)):
                await begun.wait()
        simulates = not has_plugin_sockets(cluster.options.runtime)
        if simulates:
            await simulated.publish_named(client, drivers[0], cluster.node_names)
        else:
            placed = zip(drivers, cluster.node_names, strict=True)
            starting = [
                group.create_task(_start_on_node(group, client, driver, cluster, name))
                for driver, name in placed
            ]
            if await _api_is_served(cluster, CatsDriver.name, lambda: resource_api(client, classic=True)):
                await asyncio.gather(*starting)
        ready()
        if hidden:
            async with deviceclass.announced(setup, drivers[0].devices(cluster.node_names[0])):
                await deviceclass.wait_for_class(client)
                for driver in drivers:
                    driver.show()
        if simulates and quirks.serves_device_classes:
            await simulated.publish(client, drivers[0], nodes=cluster.node_names)
        await asyncio.Event().wait()


async def withdraw_announcements(cluster: RunningCluster) -> None:
    """Delete what drivers announced before a crash: those that run now announce anew what they have."""
    from dray.api import on_demand
    from dray.client.client import Client
    from dray.client.resources import CONFIGMAPS

    client = Client(cluster.transport("system:dray:setup", "system:masters"))
    left = await client.list(CONFIGMAPS, on_demand.NAMESPACE, label_selector=on_demand.LABEL)
    for config in left.items:
        await client.delete(CONFIGMAPS, on_demand.NAMESPACE, config["metadata"]["name"])


async def _start_on_node(
    group: asyncio.TaskGroup, client: Client, driver: Driver, cluster: RunningCluster, name: str
) -> None:
    """Starts a driver on a node, and waits until the node knows it."""
    from dray.driver import plugin
    from dray.node.hostpaths import HostPaths

    paths = HostPaths.below(node_directory(cluster.data, name))
    options = plugin.Options(node=name, kubelet_dir=paths.kubelet, cdi_dir=paths.cdi[0])
    known = asyncio.Event()

    async def run() -> None:
        async with plugin.serving(client, driver, options=options) as running:
            await running.registered()
            known.set()
            await asyncio.Event().wait()

    group.create_task(run(), name=f"{driver.name} on {name}")
    await known.wait()


async def _run_driver(cluster: RunningCluster, ready: Ready, make: Callable[[], Driver]) -> None:
    from dray.client.client import Client
    from dray.driver import plugin, simulated
    from dray.driver.resource_api import ResourceApi
    from dray.node.hostpaths import HostPaths
    from dray.node.options import has_plugin_sockets

    client = Client(cluster.transport(DRIVERS))
    await cluster.registered.wait()  # slices belong to their node
    async with asyncio.TaskGroup() as group:
        if not has_plugin_sockets(cluster.options.runtime):
            group.create_task(simulated.publish(client, make(), nodes=cluster.node_names))
        else:
            for name in cluster.node_names:
                paths = HostPaths.below(node_directory(cluster.data, name))
                options = plugin.Options(node=name, kubelet_dir=paths.kubelet, cdi_dir=paths.cdi[0])
                group.create_task(plugin.run(client, make(), options=options))
        if await _api_is_served(cluster, make().name, lambda: ResourceApi.connect(client)):
            slices = cluster.server.api.resource("resource.k8s.io", "resourceslices")
            while len(slices.cache.documents) < len(cluster.node_names):  # noqa: ASYNC110
                # The cluster is ready when its devices are there. The server's own cache is asked: a watch would
                # come through the same process, only later.
                await asyncio.sleep(0.005)
        ready()


async def _api_is_served(
    cluster: RunningCluster, driver: str, connect: Callable[[], Awaitable[object]]
) -> bool:
    """Whether the driver finds what it needs. The cluster does not wait for a driver that does not."""
    from dray.driver.resource_api import NoResourceApi

    try:
        await connect()
    except NoResourceApi as problem:
        cluster.waiting[driver] = str(problem)
        return False
    return True


_DRIVER_RULES: tuple[PolicyRule, ...] = (
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"], "verbs": ["patch", "update"]},
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceclaims/driver"],
        "verbs": ["arbitrary-node:patch", "arbitrary-node:update"],
    },
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]},
)


async def _install_driver(cluster: RunningCluster, driver: str) -> None:
    """Create the RBAC rules of drivers, and the DeviceClass through which this driver's devices are asked for."""
    from dray.client.client import Client
    from dray.client.discovery import Discovery
    from dray.client.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, DEVICE_CLASSES

    client = Client(cluster.transport("system:dray:setup", "system:masters"))
    role: ClusterRole = {"metadata": {"name": DRIVERS}, "rules": _DRIVER_RULES}
    binding: ClusterRoleBinding = {
        "metadata": {"name": DRIVERS},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": DRIVERS},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": DRIVERS}],
    }
    await client.create_if_missing(CLUSTER_ROLES, "", role)
    await client.create_if_missing(CLUSTER_ROLE_BINDINGS, "", binding)
    classes = await Discovery(client).first_served(DEVICE_CLASSES, ("v1", "v1beta2", "v1beta1", "v1alpha3"))
    if classes is not None:
        selector: DeviceSelector = {"cel": {"expression": f'device.driver == "{driver}"'}}
        device_class: DeviceClass = {"metadata": {"name": driver}, "spec": {"selectors": [selector]}}
        await client.create_if_missing(classes, "", device_class)
