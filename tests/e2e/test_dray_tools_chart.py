"""charts/dray-tools on a whole cluster: pods that choose the scheduler are scheduled by it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.paths import ROOT, TOOLS
from tests.support.process import dray_process
from tests.support.wait import wait_for_sync

CHART = ROOT / "charts" / "dray-tools"


def test_controllers_run_beside_others_with_the_rights_of_their_roles(tmp_path: Path) -> None:
    with dray_process(tmp_path / "data", "up", "--nodes", "1", "--ui", "none") as server:
        environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "HOME": str(tmp_path)}
        role = "system:controller:resourcepoolstatusrequest-controller"
        done = subprocess.run(
            [
                str(TOOLS / "helm-4"), "install", "tools", str(CHART), "--namespace", "kube-system",
                "--set", "scheduler.replicas=0", "--set", "controllers.securityContext=null",
                "--set", "controllers.cleanUpSlices=true",
                "--set", f"controllers.others.resourcepoolstatusrequest-controller={role}",
            ],
            capture_output=True, text=True, check=False, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        kubectl = [str(TOOLS / "kubectl-1.36"), "--namespace", "kube-system"]

        def output(*words: str) -> str:
            return subprocess.run(
                [*kubectl, *words], capture_output=True, text=True, check=False, env=environment
            ).stdout

        wait_for_sync(
            "the controllers to be available",
            lambda: (
                output("get", "deployment", "tools-controllers", "-o", "jsonpath={.status.availableReplicas}")
                == "1"
            ),
            log=lambda: output("describe", "pods") + output("logs", "deployment/tools-controllers"),
        )
        account = ("--as", "system:serviceaccount:kube-system:tools-controllers")

        def may(verb: str, resource: str) -> bool:
            return output("auth", "can-i", verb, resource, *account).strip() == "yes"

        # What the two controllers watch and write, and things that neither has to do with.
        assert all(may(verb, "resourceslices") for verb in ("list", "watch", "delete"))
        assert may("watch", "nodes") and may("watch", "resourcepoolstatusrequests")
        assert not any(may(*what) for what in (("delete", "nodes"), ("list", "secrets"), ("create", "pods")))


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
