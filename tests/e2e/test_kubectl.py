"""What people type: every kubectl verb against the API server, with the oldest and the newest kubectl."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.kubectl import Kubectl
from tests.support.process import DrayProcess

CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
  labels: {{app: demo}}
data:
  colour: {colour}
"""

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: nginx:1
        env:
        - {name: A, value: "1"}
        ports:
        - containerPort: 80
"""


def test_apply_reapply_and_prune_of_a_removed_field(kubectl: Kubectl, namespace: str) -> None:
    both = CONFIG.format(name="c", colour="blue") + "  size: large\n"
    assert "configmap/c created" in kubectl("apply", "-n", namespace, "-f", "-", stdin=both)
    assert "configmap/c unchanged" in kubectl("apply", "-n", namespace, "-f", "-", stdin=both)
    one = CONFIG.format(name="c", colour="blue")
    assert "configmap/c configured" in kubectl("apply", "-n", namespace, "-f", "-", stdin=one)
    assert json.loads(kubectl("get", "cm", "c", "-n", namespace, "-o", "json"))["data"] == {"colour": "blue"}


def test_server_side_apply_owns_fields_and_reports_conflicts(kubectl: Kubectl, namespace: str) -> None:
    apply = ("apply", "--server-side", "-n", namespace, "-f", "-")
    assert "serverside-applied" in kubectl(
        *apply, "--field-manager", "alice", stdin=CONFIG.format(name="c", colour="blue")
    )
    clash = kubectl(
        *apply, "--field-manager", "bob", stdin=CONFIG.format(name="c", colour="red"), code=1, merged=True
    )
    assert 'conflict with "alice"' in clash and ".data.colour" in clash
    kubectl(
        *apply, "--field-manager", "bob", "--force-conflicts", stdin=CONFIG.format(name="c", colour="red")
    )
    managers = kubectl(
        "get",
        "cm",
        "c",
        "-n",
        namespace,
        "--show-managed-fields",
        "-o",
        "jsonpath={.metadata.managedFields[*].manager}",
    )
    assert "bob" in managers
    assert kubectl("get", "cm", "c", "-n", namespace, "-o", "jsonpath={.data.colour}") == "red"


def test_client_side_apply_of_a_deployment_merges_lists_by_key(kubectl: Kubectl, namespace: str) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", stdin=DEPLOYMENT)
    kubectl("set", "env", "deployment/web", "-n", namespace, "B=2")
    kubectl("apply", "-n", namespace, "-f", "-", stdin=DEPLOYMENT.replace('value: "1"', 'value: "3"'))
    env = json.loads(kubectl("get", "deploy", "web", "-n", namespace, "-o", "json"))["spec"]["template"][
        "spec"
    ]["containers"][0]["env"]
    assert {e["name"]: e["value"] for e in env} == {"A": "3", "B": "2"}


@pytest.mark.parametrize("output", ["yaml", "json", "wide", "name"])
def test_get_prints_every_format(kubectl: Kubectl, namespace: str, output: str) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", stdin=CONFIG.format(name="c", colour="blue"))
    shown = kubectl("get", "cm", "c", "-n", namespace, "-o", output)
    assert {"yaml": "kind: ConfigMap", "json": '"kind": "ConfigMap"', "wide": "DATA", "name": "configmap/c"}[
        output
    ] in shown


def test_get_selects_and_sorts(kubectl: Kubectl, namespace: str) -> None:
    for name, colour in (("b", "blue"), ("a", "red")):
        kubectl("apply", "-n", namespace, "-f", "-", stdin=CONFIG.format(name=name, colour=colour))
    kubectl("label", "cm", "a", "-n", namespace, "tier=top")
    kubectl("annotate", "cm", "a", "-n", namespace, "note=x")
    names = ("-n", namespace, "-o", "jsonpath={.items[*].metadata.name}")
    assert kubectl("get", "cm", "-l", "tier=top", *names) == "a"
    assert kubectl("get", "cm", "--field-selector", "metadata.name=b", *names) == "b"
    assert kubectl("get", "cm", "-l", "app=demo", "--sort-by", ".data.colour", *names) == "b a"
    assert "tier=top" in kubectl("get", "cm", "a", "-n", namespace, "--show-labels")
    assert namespace in kubectl("get", "cm", "-A")


def test_get_watch_shows_changes_as_they_happen(kubectl: Kubectl, namespace: str) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", stdin=CONFIG.format(name="c", colour="blue"))
    seen: list[str] = []
    watch = threading.Thread(
        target=lambda: seen.append(
            kubectl(
                "get",
                "cm",
                "c",
                "-n",
                namespace,
                "-w",
                "-o",
                "jsonpath={.data.colour} ",
                "--request-timeout=6s",
                code=None,
            )
        )
    )
    watch.start()
    for colour in ("red", "green"):
        time.sleep(1.5)
        kubectl(
            "patch", "cm", "c", "-n", namespace, "--type=merge", "-p", f'{{"data":{{"colour":"{colour}"}}}}'
        )
    watch.join()
    assert seen[0].split() == ["blue", "red", "green"]


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("merge", '{"spec":{"replicas":5}}'),
        ("json", '[{"op":"replace","path":"/spec/replicas","value":5}]'),
        (
            "strategic",
            '{"spec":{"replicas":5,"template":{"spec":{"containers":[{"name":"main","image":"nginx:2"}]}}}}',
        ),
    ],
)
def test_patch_in_every_type(kubectl: Kubectl, namespace: str, kind: str, patch: str) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", stdin=DEPLOYMENT)
    kubectl("patch", "deploy", "web", "-n", namespace, f"--type={kind}", "-p", patch)
    spec = json.loads(kubectl("get", "deploy", "web", "-n", namespace, "-o", "json"))["spec"]
    assert spec["replicas"] == 5
    assert spec["template"]["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


def test_scale_replace_edit_and_diff(kubectl: Kubectl, namespace: str, tmp_path: Path) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", stdin=DEPLOYMENT)
    kubectl("scale", "deploy", "web", "-n", namespace, "--replicas=4")
    replicas = ("get", "deploy", "web", "-n", namespace, "-o", "jsonpath={.spec.replicas}")
    assert kubectl(*replicas) == "4"
    kubectl("replace", "-n", namespace, "-f", "-", stdin=DEPLOYMENT.replace("replicas: 2", "replicas: 3"))
    assert kubectl(*replicas) == "3"
    diff = kubectl("diff", "-n", namespace, "-f", "-", stdin=DEPLOYMENT, code=1)
    assert "-  replicas: 3" in diff and "+  replicas: 2" in diff


def test_edit_opens_an_editor_and_saves(
    kubectl: Kubectl, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", stdin=CONFIG.format(name="c", colour="blue"))
    monkeypatch.setenv("KUBE_EDITOR", "sed -i s/blue/pink/")
    kubectl("edit", "cm", "c", "-n", namespace)
    assert kubectl("get", "cm", "c", "-n", namespace, "-o", "jsonpath={.data.colour}") == "pink"


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_delete_with_each_cascade(kubectl: Kubectl, namespace: str, cascade: str) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", stdin=DEPLOYMENT)
    kubectl("delete", "deploy", "web", "-n", namespace, f"--cascade={cascade}", "--wait=false")
    finalizers = kubectl(
        "get", "deploy", "web", "-n", namespace, "-o", "jsonpath={.metadata.finalizers}", "--ignore-not-found"
    )
    # No garbage collector runs beside a bare API server: what it would do is left standing as a finalizer.
    assert (
        finalizers
        == {"background": "", "foreground": '["foregroundDeletion"]', "orphan": '["orphan"]'}[cascade]
    )


def test_delete_all_and_by_field(kubectl: Kubectl, namespace: str) -> None:
    for name in ("a", "b", "c"):
        kubectl("apply", "-n", namespace, "-f", "-", stdin=CONFIG.format(name=name, colour="blue"))
    kubectl("delete", "cm", "-n", namespace, "--field-selector", "metadata.name=a")
    left = ("get", "cm", "-n", namespace, "-l", "app=demo", "-o", "name")
    assert kubectl(*left).split() == ["configmap/b", "configmap/c"]
    kubectl("delete", "cm", "-n", namespace, "--all")
    assert kubectl(*left) == ""


def test_wait_sees_a_condition_and_a_deletion(kubectl: Kubectl, namespace: str) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", stdin=CONFIG.format(name="c", colour="blue"))
    kubectl("wait", "cm/c", "-n", namespace, "--for=jsonpath={.data.colour}=blue", "--timeout=10s")
    deleting = threading.Timer(0.5, lambda: kubectl("delete", "cm", "c", "-n", namespace))
    deleting.start()
    kubectl("wait", "cm/c", "-n", namespace, "--for=delete", "--timeout=20s")
    deleting.join()


def test_explain_knows_fields_and_recurses(kubectl: Kubectl) -> None:
    assert "restartPolicy" in kubectl("explain", "pod.spec")
    assert "deviceClassName" in kubectl("explain", "resourceclaim.spec.devices.requests", "--recursive")
    assert "<string>" in kubectl("explain", "deviceclass.spec.selectors.cel.expression")


def test_discovery_lists_resources_and_versions(kubectl: Kubectl) -> None:
    resources = kubectl("api-resources")
    for line in ("deviceclasses", "resourceslices", "pods", "customresourcedefinitions"):
        assert line in resources
    versions = kubectl("api-versions").split()
    assert {"v1", "apps/v1", "resource.k8s.io/v1", "resource.k8s.io/v1beta1"} <= set(versions)


def test_describe_and_events(kubectl: Kubectl, namespace: str) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", stdin=CONFIG.format(name="c", colour="blue"))
    assert "colour:\n----\nblue" in kubectl("describe", "cm", "c", "-n", namespace)
    uid = kubectl("get", "cm", "c", "-n", namespace, "-o", "jsonpath={.metadata.uid}")
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "c.1", "namespace": namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "namespace": namespace, "uid": uid},
        "reason": "Painted", "message": "now blue", "type": "Normal", "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    kubectl("create", "-f", "-", stdin=json.dumps(event))
    assert "Painted" in kubectl("get", "events", "-n", namespace)
    assert "now blue" in kubectl("events", "-n", namespace)


def test_whoami(kubectl: Kubectl) -> None:
    shown = (
        kubectl("auth", "whoami")
        if "1.36" in kubectl("version", "--client")
        else kubectl("alpha", "auth", "whoami", code=None)
    )
    assert "system:masters" in shown or "unknown command" in shown or not shown


def test_a_strict_mistake_is_refused_with_its_path(kubectl: Kubectl, namespace: str) -> None:
    wrong = CONFIG.format(name="c", colour="blue") + "dta: {}\n"
    said = kubectl("apply", "-n", namespace, "-f", "-", stdin=wrong, code=1, merged=True)
    assert 'unknown field "dta"' in said


CHART = {
    "Chart.yaml": "apiVersion: v2\nname: demo\nversion: 0.1.0\n",
    "values.yaml": "colour: blue\n",
    "templates/config.yaml": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-config\ndata:\n  colour: {{ .Values.colour }}\n"
    ),
    "templates/class.yaml": (
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata:\n  name: {{ .Release.Name }}.{{ .Release.Namespace }}\n"
        "spec:\n  selectors:\n  - cel: {expression: 'device.driver == \"gpu.example.com\"'}\n"
    ),
}


@pytest.mark.parametrize("binary", ["helm", "helm-4"])
def test_helm_installs_upgrades_and_uninstalls(
    tool: Callable[[str], str], api_server: DrayProcess, tmp_path: Path, binary: str
) -> None:
    chart = tmp_path / "demo"
    for path, text in CHART.items():
        (chart / path).parent.mkdir(parents=True, exist_ok=True)
        (chart / path).write_text(text)
    space = f"helm-{binary.replace('helm', 'v')}"

    def helm(*arguments: str) -> str:
        command = [tool(binary), "--kubeconfig", str(api_server.kubeconfig), "-n", space, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    helm("upgrade", "-i", "--create-namespace", "demo", str(chart))
    config = f"/api/v1/namespaces/{space}/configmaps/demo-config"
    assert api_server.get(config)["data"] == {"colour": "blue"}
    helm("upgrade", "demo", str(chart), "--set", "colour=red")
    assert api_server.get(config)["data"] == {"colour": "red"}
    assert '"revision":"2"' in helm("list", "-o", "json")
    helm("uninstall", "demo")
    assert not [
        c
        for c in api_server.get(f"/api/v1/namespaces/{space}/configmaps")["items"]
        if c["metadata"]["name"] == "demo-config"
    ]


def test_the_official_python_client_lists_watches_and_patches(api_server: DrayProcess) -> None:
    from kubernetes import client, config, watch

    config.load_kube_config(str(api_server.kubeconfig))
    core = client.CoreV1Api()
    core.create_namespace({"metadata": {"name": "python"}})
    core.create_namespaced_config_map("python", {"metadata": {"name": "c"}, "data": {"a": "1"}})
    listed = core.list_namespaced_config_map("python")
    assert [c.metadata.name for c in listed.items] == ["c"]
    core.patch_namespaced_config_map("c", "python", {"data": {"a": "2"}})
    stream = watch.Watch().stream(
        core.list_namespaced_config_map,
        "python",
        resource_version=listed.metadata.resource_version,
        timeout_seconds=5,
    )
    assert [(e["type"], e["object"].data) for e in stream] == [("MODIFIED", {"a": "2"})]
