"""charts/dray-tools on a whole cluster: pods that choose the scheduler are scheduled by it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.paths import ROOT, TOOLS
from tests.support.process import dray_process
from tests.support.wait import wait_for_sync

CHART = ROOT / "charts" / "dray-tools"


def test_pods_that_choose_the_scheduler_are_bound_by_it(tmp_path: Path) -> None:
    with dray_process(tmp_path / "data", "up", "--nodes", "1", "--ui", "none") as server:
        environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "HOME": str(tmp_path)}
        line = [str(TOOLS / "helm-4"), "install", "tools", str(CHART), "--namespace", "kube-system"]
        done = subprocess.run(
            [
                *line, "--set", "scheduler.replicas=1", "--set", "scheduler.devicePolicy=pack",
                # Here the image is a name only, and what runs is the Python of whoever runs the tests.
                "--set", "scheduler.securityContext=null",
            ],
            capture_output=True, text=True, check=False, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        server.request(
            "POST", "/api/v1/namespaces/default/pods",
            {
                "metadata": {"name": "chosen"},
                "spec": {"schedulerName": "dray", "containers": [{"name": "c", "image": "busybox", "command": ["sleep", "60"]}]},
            },
        )  # fmt: skip
        wait_for_sync(
            "the pod to be bound",
            lambda: server.get("/api/v1/namespaces/default/pods/chosen")["spec"].get("nodeName"),
            log=lambda: str(server.get("/api/v1/namespaces/kube-system/pods")),
        )
        events = server.get("/api/v1/namespaces/default/events")["items"]
        assert "dray" in {e.get("reportingComponent") for e in events if e["reason"] == "Scheduled"}
