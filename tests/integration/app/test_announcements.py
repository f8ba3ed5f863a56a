"""What a driver announced is not believed after the cluster was killed."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from tests.support.process import DrayProcess, dray_process
from tests.support.wait import wait_for_sync

LABELLED = "/api/v1/namespaces/kube-system/configmaps?labelSelector=resource.dray.dev%2Fon-demand"


def announced(cluster: DrayProcess) -> list[Any]:
    found: list[Any] = cluster.get(LABELLED)["items"]
    return [one["data"]["driver"] for one in found]


def test_devices_announced_before_a_kill_are_not_announced_by_a_cluster_without_their_driver(tmp_path: Path):
    with dray_process(tmp_path, "up", "--nodes", "1") as cluster:
        cats = "resource-driver.example.com"
        wait_for_sync(
            "the announcement of the cats", lambda: announced(cluster) == [cats], log=lambda: cluster.log
        )
        cluster.process.send_signal(signal.SIGKILL)
        cluster.process.wait(10)
    with dray_process(tmp_path, "up", "--nodes", "1", "--drivers", "gpu") as cluster:
        wait_for_sync(
            "the end of the announcement", lambda: announced(cluster) == [], log=lambda: cluster.log
        )
