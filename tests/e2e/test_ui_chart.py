"""The dashboard's chart on a cluster of processes, and its metrics and rules before Prometheus' own checker."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support.kubectl import Kubectl
from tests.support.paths import ROOT
from tests.support.process import dray_process
from tests.support.wait import wait_for_sync

CHART = ROOT / "charts/dray-ui"
EVERYTHING = (
    "serviceMonitor.enabled=true,rules.enabled=true,grafana.enabled=true,rules.runbooks=https://example.org"
)


def run(*command: str, given: str = "") -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def rendered(tool: Callable[[str], str]) -> dict[str, dict]:
    text = run(tool("helm"), "template", "dash", str(CHART), "--set", EVERYTHING)
    return {one["kind"]: one for one in yaml.safe_load_all(text) if one}


def test_the_chart_runs_on_a_cluster_and_its_metrics_pass_promtool(
    tool: Callable[[str], str], tmp_path: Path
):
    with dray_process(tmp_path / "c", "up", "--nodes", "1", "--ui", "none") as cluster:
        kubectl = Kubectl(tool("kubectl-1.36"), cluster, tmp_path / "cache")
        helm = (tool("helm"), "--kubeconfig", str(cluster.kubeconfig), "--namespace", "monitoring")
        chosen = ("--set", "grafana.enabled=true")
        assert "STATUS: deployed" in run(*helm, "install", "--create-namespace", "dash", str(CHART), *chosen)
        path = "/apis/apps/v1/namespaces/monitoring/deployments/dash"
        wait_for_sync(
            "the dashboard to be ready",
            lambda: (cluster.get(path) or {}).get("status", {}).get("readyReplicas") == 1,
            log=lambda: kubectl("logs", "-n", "monitoring", "deployment/dash"),
        )
        secret = cluster.get("/api/v1/namespaces/monitoring/secrets/dash")
        token = base64.b64decode(secret["data"]["token"]).decode()
        assert token not in kubectl("logs", "-n", "monitoring", "deployment/dash")
        (pod,) = cluster.get("/api/v1/namespaces/monitoring/pods")["items"]
        url = f"http://{pod['status']['podIP']}:8010/metrics"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(url, timeout=10)
        asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            text = answer.read().decode()
        assert 'dray_devices{driver="gpu.example.com",state="free"} 8' in text
        assert "dray_unreadable_kinds{" not in text  # the chart's role is enough
        assert run(tool("promtool"), "check", "metrics", given=text) == ""
        families = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
        used = (CHART / "files/alerts.yaml").read_text() + (CHART / "files/devices.json").read_text()
        assert set(re.findall(r"\bdray_\w+", used)) <= families
        run(*helm, "uninstall", "dash")


def test_promtool_accepts_the_rules_and_every_runbook_is_there(
    tool: Callable[[str], str], tmp_path: Path, rendered: dict[str, dict]
):
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump(rendered["PrometheusRule"]["spec"]))
    assert "SUCCESS" in run(tool("promtool"), "check", "rules", str(rules))
    headings = re.findall(r"^## (.+)$", (ROOT / "docs/runbooks.md").read_text(), re.MULTILINE)
    anchors = {heading.lower() for heading in headings}
    for group in rendered["PrometheusRule"]["spec"]["groups"]:
        for rule in group["rules"]:
            page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
            assert (page, anchor) == ("https://example.org/docs/runbooks.md", rule["alert"].lower())
            assert anchor in anchors


#: Three hours, a sample a minute.
WELL = {
    'dray_pods_pending{cause="devices"}': "0x180",
    'dray_pods_pending{cause="gang"}': "0x180",
    'dray_pods_pending{cause="claims"}': "0x180",
    'dray_pods_pending{cause="preparing"}': "0x180",
    'dray_devices{driver="d",state="free"}': "8x180",
    'dray_devices{driver="d",state="unhealthy"}': "0x180",
    'dray_class_devices{class="c",state="free"}': "8x180",
    'dray_class_devices{class="c",state="allocated"}': "8x180",
    'dray_pools{driver="d",state="incomplete"}': "0x180",
    'dray_claim_pending_seconds{namespace="n",claim="new"}': "0+60x10 _x170",
}


@pytest.mark.parametrize(
    ("changes", "raised"),
    [
        ({}, []),
        ({'dray_devices{driver="d",state="unhealthy"}': "1x180"}, ["DeviceUnhealthy"]),
        ({'dray_class_devices{class="c",state="free"}': "0x180"}, []),  # nobody wants more
        (
            {
                'dray_class_devices{class="c",state="free"}': "0x180",
                'dray_pods_pending{cause="gang"}': "8x180",
            },
            ["DevicesExhausted"],
        ),
        ({'dray_claim_pending_seconds{namespace="n",claim="old"}': "0+60x180"}, ["ClaimPendingLong"]),
        ({'dray_pods_pending{cause="claims"}': "1x180"}, ["PodsWaitForClaims"]),
        ({'dray_pods_pending{cause="preparing"}': "1x180"}, ["PodsPreparingLong"]),
        ({'dray_pools{driver="d",state="incomplete"}': "1x180"}, ["PoolIncomplete"]),
        (
            {
                'dray_devices{driver="d",state="free"}': "8x90 stale",
                'dray_devices{driver="d",state="unhealthy"}': "0x90 stale",
            },
            ["DriverWithoutDevices"],
        ),
        ({'dray_unreadable_kinds{kind="Node"}': "1x180"}, ["DeviceMetricsPartial"]),
        (
            {name: f"{values.split('x')[0]}x90 stale" for name, values in WELL.items()},
            ["DeviceMetricsMissing"],
        ),
    ],
)
def test_alerts_are_raised_when_they_should_be(
    tool: Callable[[str], str], tmp_path: Path, changes: dict[str, str], raised: list[str]
):
    series = [{"series": name, "values": values} for name, values in (WELL | changes).items()]
    firing = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in raised]
    question = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": "2h",
        "exp_samples": firing,
    }
    case = {"interval": "1m", "input_series": series, "promql_expr_test": [question]}
    checks = tmp_path / "alerts_test.yaml"
    checks.write_text(yaml.safe_dump({"rule_files": [str(CHART / "files/alerts.yaml")], "tests": [case]}))
    assert "SUCCESS" in run(tool("promtool"), "test", "rules", str(checks))


def test_the_chart_only_reads_and_renders_what_it_promises(rendered: dict[str, dict]):
    assert {"Deployment", "Service", "Secret", "ServiceMonitor", "PrometheusRule", "ConfigMap"} <= set(
        rendered
    )
    verbs = {verb for rule in rendered["ClusterRole"]["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}
    assert not {"secrets", "*"} & {r for rule in rendered["ClusterRole"]["rules"] for r in rule["resources"]}
    dashboard = json.loads(rendered["ConfigMap"]["data"]["devices.json"])
    assert all(panel["targets"][0]["expr"] for panel in dashboard["panels"])
