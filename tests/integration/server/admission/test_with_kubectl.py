"""Policies, webhooks and the audit log as an administrator meets them: with kubectl."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.support.kubectl import Kubectl
from tests.support.paths import EXAMPLES
from tests.support.unset_node_name import unset_node_name_program

POLICIES = EXAMPLES / "seeds" / "beta-1.32" / "admin-access-policies.yaml"
LABEL = "resource.kubernetes.io/admin-access"


def request(name: str, kind: str, version: str, *, admin: bool = True) -> str:
    """A claim or template that asks for admin access, in the words of a version."""
    asked = {"deviceClassName": "resource.example.com", "adminAccess": admin}
    one = {"name": "req-0", **(asked if version == "v1beta1" else {"exactly": asked})}
    spec = {"devices": {"requests": [one]}}
    return yaml.safe_dump(
        {
            "apiVersion": f"resource.k8s.io/{version}",
            "kind": kind,
            "metadata": {"name": name},
            "spec": {"spec": spec} if kind.endswith("Template") else spec,
        }
    )


def test_the_policies_for_admin_access_work_as_they_are_written(cluster: Kubectl) -> None:
    for name, labels in {
        "adm-none": (),
        "adm-builtin": (f"{LABEL}=true",),
        "adm-both": (f"{LABEL}=true", "admin-access.dra.example.com=yes"),
    }.items():
        cluster.kubectl("create", "namespace", name)
        if labels:
            cluster.kubectl("label", "namespace", name, *labels)
    cluster.kubectl("apply", "-f", str(POLICIES))
    try:
        for kind in ("ResourceClaim", "ResourceClaimTemplate"):
            for version in ("v1beta1", "v1"):
                name = f"{kind.lower()}-{version}"
                text = request(name, kind, version)
                # Without the built-in label the kind itself refuses, with it the policy does.
                said = cluster.kubectl("apply", "-n", "adm-none", "-f", "-", stdin=text, code=1)
                assert f"requires the `{LABEL}: true` label on the containing namespace" in said
                said = cluster.kubectl("apply", "-n", "adm-builtin", "-f", "-", stdin=text, code=1)
                assert "denied request: admin access to devices not enabled" in said
                cluster.kubectl("apply", "-n", "adm-both", "-f", "-", stdin=text)
                modest = request(f"{name}-modest", kind, version, admin=False)
                cluster.kubectl("apply", "-n", "adm-builtin", "-f", "-", stdin=modest)
    finally:
        cluster.kubectl("delete", "-f", str(POLICIES))
    cluster.kubectl("apply", "-n", "adm-builtin", "-f", "-", stdin=request("free", "ResourceClaim", "v1"))


POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  nodeName: node-1
  nodeSelector: {disk: ssd}
  containers: [{name: c, image: registry.example.com/c}]
"""


def placed(cluster: Kubectl, name: str) -> tuple[str, dict[str, str]]:
    cluster.kubectl("apply", "-f", "-", stdin=POD.replace("NAME", name))
    spec = json.loads(cluster.kubectl("get", "pod", name, "-o", "json"))["spec"]
    return spec.get("nodeName", ""), spec["nodeSelector"]


SCHEDULED = ("", {"disk": "ssd", "kubernetes.io/hostname": "node-1"})


def test_a_policy_takes_the_node_from_pods_and_gives_them_a_selector(cluster: Kubectl) -> None:
    policy = str(EXAMPLES / "unset-node-name" / "policy.yaml")
    cluster.kubectl("apply", "-f", policy)
    try:
        assert placed(cluster, "by-policy") == SCHEDULED
    finally:
        cluster.kubectl("delete", "-f", policy)
    assert placed(cluster, "as-it-was") == ("node-1", {"disk": "ssd"})


def test_a_webhook_does_the_same(cluster: Kubectl, tmp_path: Path) -> None:
    with unset_node_name_program() as text:
        cluster.kubectl("apply", "-f", "-", stdin=text)
        assert placed(cluster, "by-webhook") == SCHEDULED
    said = cluster.kubectl("apply", "-f", "-", stdin=POD.replace("NAME", "unasked"), code=1)
    assert (
        'failed calling webhook "unset-node-name.example.com": failed to call webhook: Post "https://' in said
    )
    cluster.kubectl("delete", "-f", "-", stdin=text)


def test_the_audit_log_tells_what_was_done_and_keeps_secrets(cluster: Kubectl) -> None:
    cluster.kubectl("create", "configmap", "audited", "--from-literal=a=b")
    cluster.kubectl("create", "secret", "generic", "hidden", "--from-literal=password=hunter2")
    text = (cluster.server.data / "audit.log").read_text()
    events = [json.loads(line) for line in text.splitlines()]
    [made] = [e for e in events if e.get("objectRef", {}).get("name") == "audited"]
    assert (made["verb"], made["level"], made["user"]["username"]) == (
        "create",
        "RequestResponse",
        "kubernetes-admin",
    )
    assert made["requestObject"]["data"] == {"a": "b"}
    assert made["userAgent"].startswith("kubectl")
    [secret] = [e for e in events if e.get("objectRef", {}).get("resource") == "secrets"]
    assert secret["level"] == "Metadata"
    assert "hunter2" not in text and "aHVudGVyMg==" not in text
    assert {e["stage"] for e in events} == {"ResponseComplete"}
    assert not [e for e in events if e["verb"] in ("get", "list")]
