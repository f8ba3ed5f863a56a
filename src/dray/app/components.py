"""What runs beside the API server in ``dray up``: scheduler, controllers, nodes; each under its own name.

Imports are inside the functions: a component that is not asked for costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dray.app.up import Cluster

SCHEDULER = "system:kube-scheduler"
CONTROLLERS = "system:kube-controller-manager"


async def scheduler(cluster: Cluster) -> None:
    from dray.client.client import Client
    from dray.scheduler import running
    from dray.scheduler.config import Configuration, SchedulerProfile

    profile = SchedulerProfile(
        device_policy=cluster.options.device_policy, device_preemption=cluster.options.device_preemption
    )
    options = running.Options(
        configuration=Configuration(profiles=(profile,)),
        gates=cluster.server.api.gates,
        release=cluster.server.api.release.number[1],
    )
    await running.run(Client(cluster.transport(SCHEDULER)), options=options)


async def controllers(cluster: Cluster) -> None:
    from dray.client.client import Client
    from dray.controllers import running

    def client_for(name: str) -> Client:
        account = f"system:serviceaccount:kube-system:{name}"
        return Client(
            cluster.transport(account, "system:serviceaccounts", "system:serviceaccounts:kube-system")
        )

    options = running.Options(gates=cluster.server.api.gates)
    await running.run(Client(cluster.transport(CONTROLLERS)), options=options, client_for=client_for)
