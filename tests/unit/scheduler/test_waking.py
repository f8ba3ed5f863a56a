"""What happens in the cluster reaches the pods that wait for it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from dray.api.release import everything
from dray.client.client import Client
from dray.client.informers import Informers
from dray.client.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, Resource
from dray.scheduler.binding import Recorder
from dray.scheduler.config import SchedulerProfile
from dray.scheduler.scheduler import Scheduler

from .making import pod


class Silent:
    def event(self, *_: Any, **__: Any) -> None:
        raise AssertionError("nothing is to be told")


@pytest.mark.parametrize("resource", [PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES])
@pytest.mark.parametrize(("plugin", "wakes"), [("VolumeBinding", True), ("NodePorts", False)])
def test_storage_wakes_those_that_wait_for_it(resource: Resource, plugin: str, wakes: bool) -> None:
    informers = Informers(cast(Client, None))
    scheduler = Scheduler(
        cast(Client, None),
        informers,
        cast(Recorder, Silent()),
        profiles=[SchedulerProfile()],
        gates=everything().gates(),
    )
    scheduler.queue.add(pod())
    entry = scheduler.queue.pop()
    assert entry is not None
    scheduler.queue.failed(entry, rejected_by=frozenset({plugin}))
    informers.get(resource)._replace([{"metadata": {"name": "x", "namespace": "default"}}], "1")
    assert scheduler.queue.has_sleepers is not wakes
