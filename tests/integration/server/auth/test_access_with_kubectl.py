"""Who one is and what one may do, as people and programs meet it: with kubectl."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubectl import Kubectl
from tests.support.wait import wait_for_sync

Object = dict[str, Any]


def test_kubectl_says_who_one_is(cluster: Kubectl) -> None:
    assert "kubernetes-admin" in cluster.kubectl("auth", "whoami")
    jane = cluster.acting("--as", "jane", "--as-group", "developers", "--as-uid", "u-1")
    found = json.loads(jane.kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]
    assert found == {"username": "jane", "uid": "u-1", "groups": ["developers", "system:authenticated"]}
    assert "Unauthorized" in cluster.bearing("wrong").kubectl("auth", "whoami", code=1)


def test_an_old_kubectl_is_told_too(cluster: Kubectl, tool: Callable[[str], str], tmp_path: Path) -> None:
    old = Kubectl(tool("kubectl-1.27"), cluster.server, tmp_path)  # which knows no v1 of this review
    assert "kubernetes-admin" in old.kubectl("auth", "whoami")


def test_impersonation_needs_permission(cluster: Kubectl) -> None:
    cluster.kubectl("create", "serviceaccount", "plain")
    plain = cluster.bearing(cluster.kubectl("create", "token", "plain").strip())
    said = plain.kubectl("get", "--raw", "/api/v1/namespaces/default/pods", "--as", "jane", code=1)
    assert 'User "system:serviceaccount:default:plain" cannot impersonate-on:user-info:list' in said
    cluster.kubectl(
        "create", "clusterrole", "be-jane", "--verb=impersonate", "--resource=users", "--resource-name=jane"
    )
    cluster.kubectl(
        "create", "clusterrolebinding", "be-jane", "--clusterrole=be-jane", "--serviceaccount=default:plain"
    )
    assert "jane" in plain.kubectl("auth", "whoami", "--as", "jane")
    said = plain.kubectl("get", "--raw", "/version", "--as", "jane", "--as-group", "system:masters", code=1)
    assert 'groups "system:masters" is forbidden' in said


def test_a_token_of_an_account_is_good_until_its_pod_or_account_goes(cluster: Kubectl) -> None:
    cluster.kubectl("create", "serviceaccount", "robot")
    robot = cluster.bearing(cluster.kubectl("create", "token", "robot", "--duration", "10m").strip())
    assert "system:serviceaccount:default:robot" in robot.kubectl("auth", "whoami")
    assert "cannot list resource" in robot.kubectl("get", "pods", code=1)
    cluster.kubectl("create", "rolebinding", "robot", "--clusterrole=view", "--serviceaccount=default:robot")
    robot.kubectl("get", "pods")
    assert 'cannot list resource "secrets"' in robot.kubectl("get", "secrets", code=1)
    elsewhere = cluster.bearing(cluster.kubectl("create", "token", "robot", "--audience", "else").strip())
    assert "Unauthorized" in elsewhere.kubectl("get", "pods", code=1)
    cluster.kubectl("delete", "serviceaccount", "robot")
    assert "Unauthorized" in robot.kubectl("get", "pods", code=1)


def test_a_certificate_is_asked_for_approved_and_used(cluster: Kubectl, tmp_path: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    (tmp_path / "jane.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    subject = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.COMMON_NAME, "jane"),
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "developers"),
        ]
    )
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())

    def request(name: str, signer: str) -> Object:
        return {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name},
            "spec": {
                "request": base64.b64encode(asked.public_bytes(pem)).decode(),
                "signerName": signer,
                "usages": ["client auth", "digital signature"],
                "expirationSeconds": 3600,
            },
        }

    cluster.apply(request("jane", "kubernetes.io/kube-apiserver-client"))
    assert "Pending" in cluster.kubectl("get", "csr", "jane")
    cluster.kubectl("certificate", "approve", "jane")
    wait_for_sync(
        "the certificate of jane", lambda: "Approved,Issued" in cluster.kubectl("get", "csr", "jane")
    )
    issued = cluster.kubectl("get", "csr", "jane", "-o", "jsonpath={.status.certificate}")
    (tmp_path / "jane.crt").write_bytes(base64.b64decode(issued))
    config = json.loads(cluster.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    config["users"][0]["user"] = {"client-certificate": "jane.crt", "client-key": "jane.key"}
    (tmp_path / "config").write_text(json.dumps(config))
    jane = cluster.acting("--kubeconfig", str(tmp_path / "config"))
    found = json.loads(jane.kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]
    assert (found["username"], found["groups"]) == ("jane", ["developers", "system:authenticated"])

    # Not everybody approves, and nobody becomes a superuser or a node this way.
    cluster.apply(request("later", "kubernetes.io/kube-apiserver-client"))
    said = jane.kubectl("certificate", "approve", "later", code=1)
    assert "forbidden" in said
    cluster.apply(request("node", "kubernetes.io/kube-apiserver-client-kubelet"))
    cluster.kubectl("certificate", "approve", "node")
    wait_for_sync(
        "the refusal of the node's certificate",
        lambda: "Approved,Failed" in cluster.kubectl("get", "csr", "node"),
    )


def test_edit_in_one_namespace_is_nothing_in_another(cluster: Kubectl) -> None:
    for name in ("red", "blue"):
        cluster.kubectl("create", "namespace", name)
        cluster.kubectl("-n", name, "create", "secret", "generic", f"of-{name}", "--from-literal=a=b")
    cluster.kubectl("-n", "red", "create", "rolebinding", "e", "--clusterrole=edit", "--user=eve")
    eve = cluster.acting("--as", "eve")
    eve.kubectl("-n", "red", "get", "secrets,pods,resourceclaims,deployments")
    eve.kubectl("-n", "red", "create", "configmap", "mine")
    claim: Object = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "mine", "namespace": "red"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
    }
    eve.apply(claim)
    claim["metadata"]["namespace"] = "blue"
    assert "forbidden" in eve.apply(claim, code=1)
    for words in (
        "-n blue get secrets", "-n blue get secret of-blue", "-n blue get pods -w", "get pods -A",
        "-n blue delete secret of-blue", "-n blue get events", "-n blue auth can-i get pods",
        "-n red create rolebinding x --clusterrole=edit --user=mallory", "get resourceslices", "get nodes",
        "label namespace red resource.kubernetes.io/admin-access=true", "-n blue get secret no-such",
    ):  # fmt: skip
        said = eve.kubectl(*words.split(), code=1)
        assert "of-blue" not in said.replace('"of-blue" is forbidden', ""), words
        assert "forbidden" in said or said.strip() == "no", (words, said)
    listed = eve.kubectl("-n", "blue", "auth", "can-i", "--list")
    assert "secrets" not in listed and "selfsubjectreviews" in listed
    listed = eve.kubectl("-n", "red", "auth", "can-i", "--list")
    assert "resourceclaims.resource.k8s.io" in listed and "rolebindings" not in listed


#: Rows: who (a cluster role bound in one namespace), what they ask, and kubectl's answer.
QUESTIONS = """
view   get pods                                   yes
view   get secrets                                no
view   create pods                                no
view   list resourceclaims.resource.k8s.io        yes
view   update resourceclaims.resource.k8s.io      no
view   get pods --subresource=log                 yes
view   create pods --subresource=exec             no
edit   create pods --subresource=exec             yes
edit   create resourceclaimtemplates              yes
edit   patch resourceclaims --subresource=status  no
edit   create roles                               no
edit   get nodes                                  no
edit   impersonate serviceaccounts                yes
edit   create serviceaccounts --subresource=token yes
admin  create rolebindings                        yes
admin  delete namespaces                          no
admin  get resourcequotas                         yes
admin  create resourcequotas                      no
admin  get resourceslices                         no
cluster-admin  create resourcequotas              yes
"""


def test_kubectl_answers_what_one_can_do(cluster: Kubectl) -> None:
    cluster.kubectl("create", "namespace", "asked")
    for role in ("view", "edit", "admin", "cluster-admin"):
        cluster.kubectl(
            "-n", "asked", "create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}"
        )
    wait_for_sync("the aggregated rules of admin", lambda: cluster.get("clusterrole", "admin").get("rules"))
    for line in QUESTIONS.strip().splitlines():
        role, *question, wanted = line.split()
        said = cluster.acting("--as", role).kubectl("-n", "asked", "auth", "can-i", *question, code=None)
        assert wanted in said.splitlines(), (line, said)  # beside warnings about what is in no namespace


@pytest.fixture(scope="module")
def claims(cluster: Kubectl) -> Kubectl:
    """A claim in use on node-1, and another on a node that does not exist."""
    for name, node in (("here", "node-1"), ("there", "node-9")):
        cluster.apply(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "none"}}]}},
            }
        )
        result = {"request": "r", "driver": "gpu.example.com", "pool": node, "device": "gpu-0"}
        pod: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "nodeName": node,
                "resourceClaims": [{"name": "c", "resourceClaimName": name}],
                "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "c"}]}}],
            },
        }
        cluster.apply(pod)
        uid = cluster.get("pod", name)["metadata"]["uid"]
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        status = {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [term]},
            },
            "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
        }
        patch = json.dumps({"status": status})
        cluster.kubectl("patch", "resourceclaim", name, "--subresource=status", "--type=merge", "-p", patch)
    return cluster


def status_patch(name: str, node: str, driver: str = "gpu.example.com") -> list[str]:
    """What a driver does to tell about its device, as kubectl's words."""
    device = {"driver": driver, "pool": node, "device": "gpu-0", "data": {"seen": True}}
    body = json.dumps({"status": {"devices": [device]}})
    return ["patch", "resourceclaim", name, "--subresource=status", "--type=merge", "-p", body]


def test_a_node_reads_the_claims_of_its_own_pods_only(claims: Kubectl) -> None:
    node = claims.acting("--as", "system:node:node-1", "--as-group", "system:nodes")
    node.kubectl("get", "resourceclaim", "here")
    said = node.kubectl("get", "resourceclaim", "there", code=1)
    assert "no relationship found between node 'node-1' and this object" in said
    for words in ("get resourceclaims", "get resourceclaim no-such", "delete resourceclaim here"):
        assert "forbidden" in node.kubectl(*words.split(), code=1), words


def test_a_drivers_account_writes_device_status_only_as_its_role_allows(claims: Kubectl) -> None:
    """Leave to patch the status is not enough: which driver's devices, and on which nodes, is asked too."""
    claims.kubectl("create", "serviceaccount", "driver")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "driver", "namespace": "default"},
        "spec": {
            "nodeName": "node-1",
            "serviceAccountName": "driver",
            "containers": [{"name": "c", "image": "i"}],
        },
    }
    claims.apply(pod)
    bound = ("--bound-object-kind=Pod", "--bound-object-name=driver")
    on_node = claims.bearing(claims.kubectl("create", "token", "driver", *bound).strip())
    assert "node-1" in on_node.kubectl("auth", "whoami")
    anywhere = claims.bearing(claims.kubectl("create", "token", "driver").strip())

    def allow(name: str, verbs: str, resource: str, *names: str) -> None:
        rule: Object = {
            "apiGroups": ["resource.k8s.io"],
            "resources": [resource],
            "verbs": verbs.split(","),
        }
        if names:
            rule["resourceNames"] = list(names)
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [rule],
        }
        claims.apply(role)
        claims.kubectl(
            "create", "clusterrolebinding", name, f"--clusterrole={name}", "--serviceaccount=default:driver"
        )

    allow("driver-base", "get,patch,update", "resourceclaims")
    said = on_node.kubectl(*status_patch("here", "node-1"), code=1)
    assert 'resource "resourceclaims/status"' in said
    allow("driver-status", "get,patch,update", "resourceclaims/status")
    assert "orbidden" in on_node.kubectl(*status_patch("here", "node-1"), code=1)
    allow("driver-own", "associated-node:patch", "resourceclaims/driver", "gpu.example.com")
    on_node.kubectl(*status_patch("here", "node-1"))
    assert claims.get("resourceclaim", "here")["status"]["devices"][0]["data"] == {"seen": True}
    assert "orbidden" in on_node.kubectl(*status_patch("there", "node-9"), code=1)
    assert "orbidden" in anywhere.kubectl(*status_patch("there", "node-9"), code=1)
    allow("driver-all", "arbitrary-node:patch", "resourceclaims/driver", "gpu.example.com")
    anywhere.kubectl(*status_patch("there", "node-9"))
    # What binds a claim is not a driver's to change.
    undo = json.dumps({"status": {"allocation": None, "reservedFor": None, "devices": None}})
    words = ["patch", "resourceclaim", "here", "--subresource=status", "--type=merge", "-p", undo]
    assert "orbidden" in anywhere.kubectl(*words, code=1)
