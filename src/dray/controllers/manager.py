"""The controller manager: ``run`` starts the chosen controllers over shared informers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from dray.api.errors import StatusError
from dray.api.release import EffectiveVersion, Gates
from dray.client import holder_identity
from dray.client.client import Client
from dray.client.events import EventRecorder
from dray.client.informers import RELIST_BACKOFF
from dray.client.leaderelection import LeaderElector
from dray.controllers.controller import (
    Controller,
    ControllerContext,
    NotConfigured,
    NotServed,
    SharedInformers,
)
from dray.controllers.discovery import ServerResources, discover
from dray.controllers.metrics import Metrics
from dray.controllers.quirks import Quirks

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ControllerDescriptor:
    """Where a controller lives, upstream's other name for it, and the gates without which it has no work."""

    where: str  # module:class
    alias: str = ""
    gates: tuple[str, ...] = ()
    default: bool = True
    reporter: str = ""  # who its events say they are from, where that is not its name
    account: str = ""  # the service account it acts as, where that is not called like it
    is_manager: bool = (
        False  # it acts as the controller manager itself, which no service account stands behind
    )


#: By upstream's names. Imported only when they are run.
CONTROLLERS: Mapping[str, ControllerDescriptor] = {
    "resourceclaim-controller": ControllerDescriptor(
        "dray.controllers.resourceclaim.modern:ModernResourceClaimController",
        "resource-claim-controller",
        ("DynamicResourceAllocation",),
        reporter="resource_claim",
        account="resource-claim-controller",
    ),
    "classic-resourceclaim-controller": ControllerDescriptor(
        "dray.controllers.classic.resourceclaim:ClassicResourceClaimController",
        gates=("DynamicResourceAllocation",),
        reporter="resource_claim",
        account="resource-claim-controller",
    ),
    "early-resourceclaim-controller": ControllerDescriptor(
        "dray.controllers.classic.early:EarlyResourceClaimController",
        gates=("DynamicResourceAllocation",),
        reporter="resource_claim",
        account="resource-claim-controller",
    ),
    "device-taint-eviction-controller": ControllerDescriptor(
        "dray.controllers.devicetainteviction.controller:DeviceTaintEvictionController",
        gates=("DRADeviceTaints",),
    ),
    "resourcepoolstatusrequest-controller": ControllerDescriptor(
        "dray.controllers.resourcepoolstatusrequest:ResourcePoolStatusRequestController",
        gates=("DRAResourcePoolStatus",),
    ),
    "storage-version-migrator-controller": ControllerDescriptor(
        "dray.controllers.storageversionmigrator:StorageVersionMigratorController",
        "svm",
        gates=("StorageVersionMigrator",),
    ),
    "podgroup-protection-controller": ControllerDescriptor(
        "dray.controllers.podgroupprotection:PodGroupProtectionController", gates=("GenericWorkload",)
    ),
    "resourceslice-cleanup-controller": ControllerDescriptor(
        "dray.controllers.resourceslice_cleanup:ResourceSliceCleanupController",
        default=False,
        account="generic-garbage-collector",
    ),
    "pod-garbage-collector-controller": ControllerDescriptor(
        "dray.controllers.podgc:PodGCController", "podgc", account="pod-garbage-collector"
    ),
    "garbage-collector-controller": ControllerDescriptor(
        "dray.controllers.garbagecollector.collector:GarbageCollector",
        "garbagecollector",
        account="generic-garbage-collector",
    ),
    "namespace-controller": ControllerDescriptor(
        "dray.controllers.namespace:NamespaceController", "namespace"
    ),
    "replicaset-controller": ControllerDescriptor(
        "dray.controllers.workloads.replicaset:ReplicaSetController", "replicaset"
    ),
    "replicationcontroller-controller": ControllerDescriptor(
        "dray.controllers.workloads.replicationcontroller:ReplicationControllerController",
        "replicationcontroller",
        reporter="replication-controller",
        account="replication-controller",
    ),
    "deployment-controller": ControllerDescriptor(
        "dray.controllers.workloads.deployment.controller:DeploymentController", "deployment"
    ),
    "statefulset-controller": ControllerDescriptor(
        "dray.controllers.workloads.statefulset.controller:StatefulSetController", "statefulset"
    ),
    "daemonset-controller": ControllerDescriptor(
        "dray.controllers.workloads.daemon.controller:DaemonSetController",
        "daemonset",
        account="daemon-set-controller",
    ),
    "job-controller": ControllerDescriptor("dray.controllers.workloads.job.controller:JobController", "job"),
    "cronjob-controller": ControllerDescriptor(
        "dray.controllers.workloads.cronjob:CronJobController", "cronjob"
    ),
    "clusterrole-aggregation-controller": ControllerDescriptor(
        "dray.controllers.clusterroleaggregation:ClusterRoleAggregationController", "clusterrole-aggregation"
    ),
    "serviceaccount-controller": ControllerDescriptor(
        "dray.controllers.serviceaccount:ServiceAccountController",
        "serviceaccount",
        account="service-account-controller",
    ),
    "serviceaccount-token-controller": ControllerDescriptor(
        "dray.controllers.serviceaccount_token:ServiceAccountTokenController",
        "serviceaccount-token",
        is_manager=True,
    ),
    "root-ca-certificate-publisher-controller": ControllerDescriptor(
        "dray.controllers.certificates.rootcacertpublisher:RootCACertPublisher",
        "root-ca-cert-publisher",
        account="root-ca-cert-publisher",
    ),
    "disruption-controller": ControllerDescriptor(
        "dray.controllers.disruption:DisruptionController", "disruption", reporter="controllermanager"
    ),
    "endpointslice-controller": ControllerDescriptor(
        "dray.controllers.endpointslice:EndpointSliceController", "endpointslice"
    ),
    "endpoints-controller": ControllerDescriptor(
        "dray.controllers.endpoints:EndpointsController", "endpoint", account="endpoint-controller"
    ),
    "certificatesigningrequest-approving-controller": ControllerDescriptor(
        "dray.controllers.certificates.approver:CertificateApprover",
        "csrapproving",
        account="certificate-controller",
    ),
    "certificatesigningrequest-signing-controller": ControllerDescriptor(
        "dray.controllers.certificates.signer:CertificateSigner",
        "csrsigning",
        account="certificate-controller",
    ),
    "certificatesigningrequest-cleaner-controller": ControllerDescriptor(
        "dray.controllers.certificates.cleaner:CertificateCleaner",
        "csrcleaner",
        account="certificate-controller",
    ),
    # As upstream, these two are off by default; ``dray up`` asks for them.
    "bootstrap-signer-controller": ControllerDescriptor(
        "dray.controllers.bootstrap:BootstrapSigner",
        "bootstrapsigner",
        default=False,
        account="bootstrap-signer",
    ),
    "token-cleaner-controller": ControllerDescriptor(
        "dray.controllers.bootstrap:TokenCleaner",
        "tokencleaner",
        default=False,
        account="token-cleaner",
    ),
    "node-lifecycle-controller": ControllerDescriptor(
        "dray.controllers.nodelifecycle:NodeLifecycleController",
        "nodelifecycle",
        reporter="node-controller",
        account="node-controller",
    ),
    "taint-eviction-controller": ControllerDescriptor(
        "dray.controllers.tainteviction:TaintEvictionController", account="node-controller"
    ),
    "validatingadmissionpolicy-status-controller": ControllerDescriptor(
        "dray.controllers.validatingadmissionpolicystatus:ValidatingAdmissionPolicyStatusController"
    ),
    "resourcequota-controller": ControllerDescriptor(
        "dray.controllers.resourcequota:ResourceQuotaController", "resourcequota"
    ),
}


class UnknownController(ValueError):
    """A controller was asked for that does not exist."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """``controllers`` is upstream's list: ``*`` all on by default, ``name`` on, ``-name`` off."""

    controllers: tuple[str, ...] = ("*",)
    version: EffectiveVersion = field(default_factory=EffectiveVersion)
    gates: Gates = field(default_factory=lambda: EffectiveVersion().gates())
    leader_election: bool = False
    #: Keyword arguments of single controllers, by the controller's name.
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    clock: Callable[[], float] = time.time
    metrics: Metrics = field(default_factory=Metrics)


def enabled_controllers(wanted: Iterable[str], gates: Gates) -> list[str]:
    """The names of the controllers to run."""
    on = {name for name, entry in CONTROLLERS.items() if entry.default and "*" in wanted}
    by_name = {name: name for name in CONTROLLERS} | {
        e.alias: name for name, e in CONTROLLERS.items() if e.alias
    }
    for word in wanted:
        if word == "*":
            continue
        name = by_name.get(word.removeprefix("-"))
        if name is None:
            raise UnknownController(
                f"{word.removeprefix('-')!r} is not a controller; there are: {', '.join(CONTROLLERS)}"
            )
        (on.discard if word.startswith("-") else on.add)(name)
    return [
        name for name, entry in CONTROLLERS.items() if name in on and all(g in gates for g in entry.gates)
    ]


async def run(
    client: Client,
    *,
    options: Options,
    client_for: Callable[[str], Client] | None = None,
    ready: Callable[[], None] | None = None,
) -> None:
    """Run the chosen controllers until cancelled. ``client_for`` gives each its own identity where that is possible,
    by the name of a service account."""
    if not options.leader_election:
        await _run(client, options, client_for, ready)
        return
    elector = LeaderElector(
        client,
        namespace="kube-system",
        name="kube-controller-manager",
        identity=holder_identity.new_identity(),
    )
    elector.register_metrics(options.metrics.registry)
    await elector.run(lambda: _run(client, options, client_for, ready))


async def _run(
    client: Client,
    options: Options,
    client_for: Callable[[str], Client] | None,
    ready: Callable[[], None] | None,
) -> None:
    quirks = Quirks.of(options.version, options.gates)
    discovered = await _discover(client)
    informers = SharedInformers(client)
    recorders: list[EventRecorder] = []
    controllers: list[Controller[Any]] = []
    for name in enabled_controllers(options.controllers, options.gates):
        own = client
        if client_for is not None and not CONTROLLERS[name].is_manager:
            own = client_for(CONTROLLERS[name].account or name)
        recorder = EventRecorder(own, CONTROLLERS[name].reporter or name)
        context = ControllerContext(
            client=own,
            informers=informers,
            recorder=recorder,
            quirks=quirks,
            clock=options.clock,
            metrics=options.metrics,
            discovered=discovered,
        )
        module, _, kind = CONTROLLERS[name].where.partition(":")
        settings = options.settings.get(name) or {}
        try:
            controllers.append(getattr(import_module(module), kind)(context, **settings))
        except NotServed as problem:
            _log.info("%s is not run, as the server has no %s", name, problem, extra={"detail": True})
        except NotConfigured as problem:
            _log.info("%s is not run, as it was given no %s", name, problem)
        else:
            recorders.append(recorder)
    async with informers, asyncio.TaskGroup() as tasks:
        for recorder in recorders:
            tasks.create_task(recorder.run())
        await informers.synced()
        _log.info("running %s", ", ".join(one.name for one in controllers), extra={"detail": True})
        if ready is not None:
            ready()
        for controller in controllers:
            tasks.create_task(controller.run(), name=controller.name)


async def _discover(client: Client) -> ServerResources:
    """What the server has; a server that is not up yet is waited for."""
    for pause in RELIST_BACKOFF.pauses():
        try:
            return await discover(client)
        except StatusError as problem:
            _log.warning("the server does not tell what it serves, trying again: %s", problem)
        await asyncio.sleep(pause)
    raise AssertionError("pauses never end")
