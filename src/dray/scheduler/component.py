"""The scheduler as a component: ``run`` works on any API server that a client reaches."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

from dray.api.release import EffectiveVersion, Gates
from dray.client import holder_identity
from dray.client.client import Client
from dray.client.conversion import VERSIONS, v1_client
from dray.client.discovery import Discovery
from dray.client.informers import Informers
from dray.client.leaderelection import LeaderElector
from dray.client.resources import (
    CLASSIC_RESOURCE_CLAIMS,
    COMPOSITE_POD_GROUPS,
    DEVICE_TAINT_RULES,
    POD_GROUPS,
    RESOURCE_CLAIMS,
    Resource,
)
from dray.placement.config import Configuration
from dray.placement.quirks import PlacementQuirks
from dray.scheduler.events.recorders import Recorders
from dray.scheduler.metrics import Metrics
from dray.scheduler.quirks import SchedulerQuirks
from dray.scheduler.scheduler import Scheduler

log = logging.getLogger(__name__)

_TAINT_RULE_VERSIONS: Final = ("v1beta2", "v1", "v1alpha3")


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What the command line or ``dray up`` decides."""

    configuration: Configuration = field(default_factory=Configuration)
    gates: Gates = field(default_factory=lambda: EffectiveVersion().gates())
    version: EffectiveVersion = field(default_factory=EffectiveVersion)
    #: nominatedNodeName is set before every binding that writes claims; otherwise only if the binding waits
    nominates_before_every_bind: bool = True
    metrics: Metrics = field(default_factory=Metrics)
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


async def run(client: Client, *, options: Options, ready: Callable[[Scheduler], None] | None = None) -> None:
    """Schedule until cancelled; with leader election, only while leading."""
    election = options.configuration.leader_election
    if not election.enabled:
        await _schedule(client, options, ready)
        return
    elector = LeaderElector(
        client,
        namespace=election.namespace,
        name=election.name,
        identity=holder_identity.new_identity(),
        lease_duration=election.lease_seconds,
        renew_deadline=election.renew_seconds,
        retry_period=election.retry_seconds,
    )
    elector.register_metrics(options.metrics.registry)
    await elector.run(lambda: _schedule(client, options, ready))


async def _schedule(client: Client, options: Options, ready: Callable[[Scheduler], None] | None) -> None:
    quirks = SchedulerQuirks.of(options.version, options.gates)
    placement = PlacementQuirks.of(options.version, options.gates)
    discovery = Discovery(client)
    served = await discovery.first_served(RESOURCE_CLAIMS, VERSIONS)
    rules = await discovery.first_served(DEVICE_TAINT_RULES, _TAINT_RULE_VERSIONS)
    if quirks.serves_devices:
        client = await v1_client(client)
        if quirks.serves_claims and served is None:
            log.warning("the server has no %s: pods that use them stay pending", RESOURCE_CLAIMS)
    recorder = Recorders(client, [profile.name for profile in options.configuration.profiles])
    informers = Informers(client)
    scheduler = Scheduler(
        client,
        informers,
        recorder,
        profiles=options.configuration.profiles,
        gates=options.gates,
        version=options.version,
        nominates_before_every_bind=options.nominates_before_every_bind,
        backoff=(options.configuration.initial_backoff, options.configuration.max_backoff),
        metrics=options.metrics,
        classic=await _classic(client) if options.version.serves_classic else (),
        serves_devices=served is not None,
        groups=await _groups(client) if placement.schedules_groups else (),
        taint_rules=rules,
        clock=options.clock,
        monotonic=options.monotonic,
    )
    async with informers, asyncio.TaskGroup() as tasks:
        tasks.create_task(recorder.run(), name="scheduler-events")
        await informers.synced()
        names = ", ".join(profile.name for profile in options.configuration.profiles)
        log.info("scheduling pods for %s", names, extra={"detail": True})
        if ready is not None:
            ready(scheduler)
        await scheduler.run()


async def _groups(client: Client) -> Collection[Resource[Any]]:
    """The kinds of groups of pods that the server has."""
    discovery = Discovery(client)
    kinds: tuple[Resource[Any], ...] = (POD_GROUPS, COMPOSITE_POD_GROUPS)
    return [kind for kind in kinds if await discovery.serves(kind)]


async def _classic(client: Client) -> Collection[Resource[Any]]:
    """The resources of the classic generation that the server has, in the newest version in which it has them."""
    discovery = Discovery(client)
    for claims in (CLASSIC_RESOURCE_CLAIMS, CLASSIC_RESOURCE_CLAIMS.at("v1alpha1")):
        if found := await discovery.resources(claims.api_version):
            return found.values()
    return ()
