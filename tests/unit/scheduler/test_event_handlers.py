"""What happens in the cluster reaches the pods that wait for it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from dray.api.release import EffectiveVersion, Gates
from dray.client.client import Client
from dray.client.informers import Informers
from dray.client.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    Resource,
)
from dray.placement.config import SchedulerProfile
from dray.scheduler.scheduler import Scheduler
from tests.support.scheduler import pod


class Told:
    def __init__(self) -> None:
        self.messages: list[str] = []

    def event(self, resource: Any, obj: Any, type: str, reason: str, message: str, **_: Any) -> None:
        self.messages.append(message)


def scheduling(informers: Informers, gates: Gates, told: Told | None = None, **more: Any) -> Scheduler:
    return Scheduler(
        cast(Client, None),
        informers,
        told or Told(),
        profiles=[SchedulerProfile()],
        gates=gates,
        version=EffectiveVersion(),
        **more,
    )


@pytest.mark.parametrize("resource", [PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES])
@pytest.mark.parametrize(("plugin", "requeues"), [("VolumeBinding", True), ("NodePorts", False)])
async def test_storage_events_requeue_pods_that_volume_plugins_rejected(
    resource: Resource, plugin: str, requeues: bool
) -> None:
    informers = Informers(cast(Client, None))
    scheduler = scheduling(informers, EffectiveVersion().gates())
    scheduler.queue.add(pod())
    entry = scheduler.queue.pop()
    assert entry is not None
    scheduler.queue.add_unschedulable(entry, rejected_by=frozenset({plugin}))
    await informers.get(resource)._replace([{"metadata": {"name": "x", "namespace": "default"}}], "1")
    assert scheduler.queue.has_unschedulable is not requeues


@pytest.mark.parametrize(
    ("hints", "asleep", "rested", "told"),
    [
        (True, True, True, False),
        (True, False, False, True),
        (False, True, True, True),
        (False, True, False, False),
    ],
)
async def test_a_skipped_pod_is_reported_if_it_is_deleted_when_it_is_due(
    hints: bool, asleep: bool, rested: bool, told: bool
) -> None:
    """Asleep it is not tried any more, unless any change of a pod wakes it and it has rested."""
    informers, heard, now = Informers(cast(Client, None)), Told(), [0.0]
    gates = EffectiveVersion().gates().with_changes({"SchedulerQueueingHints": hints})
    scheduler = scheduling(informers, gates, heard, monotonic=lambda: now[0])
    document = dict(pod("p").document)
    await informers.get(PODS)._replace([document], "1")
    if asleep:
        entry = scheduler.queue.pop()
        assert entry is not None
        scheduler.queue.add_unschedulable(entry, rejected_by=frozenset({"NodePorts"}))
    now[0] += 60 if rested else 0
    deleted = {**document["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "2"}
    await informers.get(PODS)._replace([{**document, "metadata": deleted}], "2")
    assert heard.messages == (["skip schedule deleting pod: default/p"] if told else [])
    assert scheduler.queue.get(deleted["uid"]) is None
