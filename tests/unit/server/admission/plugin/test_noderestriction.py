"""Node restriction: an agent keeps to its own node."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.scheme.kinds import Object
from dray.server.auth.authorizer import NO_OPINION, AlwaysAllow, Attributes, Verdict
from tests.support.admission import World, make_world, pod, refusal

PODS = "/api/v1/namespaces/default/pods"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


async def agent(name: str = "n1") -> tuple[World, Any]:
    world = await make_world("NodeRestriction")
    return world, world.user(f"system:node:{name}", "system:nodes")


def mirror(owner: Object, **spec: Any) -> Object:
    found = pod(nodeName="n1", **spec)
    found["metadata"] |= {
        "annotations": {"kubernetes.io/config.mirror": "x"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "controller": True, **owner}],
    }
    return found


async def test_an_agent_writes_its_own_node_only() -> None:
    world, node = await agent()
    error = await refusal(world.post("/api/v1/nodes", {"metadata": {"name": "n2"}}, client=node))
    assert error.message == 'nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2"'
    assert await world.post("/api/v1/nodes", {"metadata": {"name": "n1"}}, client=node)


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("example.com/anything", True),
        ("kubernetes.io/hostname", True),
        ("kubelet.kubernetes.io/x", True),
        ("sub.node.kubernetes.io/x", True),
        ("node-role.kubernetes.io/control-plane", False),
        ("node-restriction.kubernetes.io/secure", False),
        ("a.node-restriction.kubernetes.io/secure", False),
        ("k8s.io/x", False),
        ("plain", True),
    ],
)
async def test_labels_that_attract_pods_are_not_the_agents_to_set(label: str, allowed: bool) -> None:
    world, node = await agent()
    body = {"metadata": {"name": "n1", "labels": {label: "x"}}}
    if allowed:
        assert await world.post("/api/v1/nodes", body, client=node)
    else:
        error = await refusal(world.post("/api/v1/nodes", body, client=node))
        assert f"is not allowed to set the following labels: {label}" in error.message


async def test_taints_and_owners_of_a_node_are_not_the_agents_to_change() -> None:
    world, node = await agent()
    await world.post("/api/v1/nodes", {"metadata": {"name": "n1"}}, client=node)
    error = await refusal(
        world.patch(
            "/api/v1/nodes/n1", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, client=node
        )
    )
    assert 'node "n1" is not allowed to modify taints' in error.message
    owner = {"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "1"}
    error = await refusal(
        world.patch("/api/v1/nodes/n1", {"metadata": {"ownerReferences": [owner]}}, client=node)
    )
    assert 'node "n1" is not allowed to modify ownerReferences' in error.message


async def test_an_agent_creates_only_mirrors_of_its_own_static_pods() -> None:
    world, node = await agent()
    created = await world.post("/api/v1/nodes", {"metadata": {"name": "n1"}})
    uid = created["metadata"]["uid"]
    error = await refusal(world.post(PODS, pod(), client=node))
    assert "can only create mirror pods" in error.message
    error = await refusal(world.post(PODS, mirror({"name": "n2", "uid": uid}), client=node))
    assert "can only create pods with an owner reference set to itself" in error.message
    error = await refusal(world.post(PODS, mirror({"name": "n1", "uid": "other"}), client=node))
    assert "UID mismatch" in error.message
    volume = {"name": "v", "configMap": {"name": "m"}}
    error = await refusal(world.post(PODS, mirror({"name": "n1", "uid": uid}, volumes=[volume]), client=node))
    assert 'node "n1" can not create pods that reference configmaps' in error.message
    assert await world.post(PODS, mirror({"name": "n1", "uid": uid}), client=node)


async def test_an_agent_reports_on_and_removes_only_pods_on_its_node() -> None:
    world, node = await agent()
    await world.post(PODS, pod("mine", nodeName="n1"))
    await world.post(PODS, pod("other", nodeName="n2"))
    assert await world.patch(f"{PODS}/mine/status", {"status": {"phase": "Running"}}, client=node)
    error = await refusal(world.patch(f"{PODS}/other/status", {"status": {"phase": "Running"}}, client=node))
    assert "can only update pod status for pods with spec.nodeName set to itself" in error.message
    error = await refusal(world.delete(f"{PODS}/other", client=node))
    assert "can only delete pods with spec.nodeName set to itself" in error.message
    statuses = {"status": {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "c"}]}}
    error = await refusal(world.patch(f"{PODS}/mine/status", statuses, client=node))
    assert 'node "n1" cannot update resource claim statues' in error.message


async def test_an_agent_publishes_only_its_own_devices() -> None:
    world, node = await agent()

    def published(name: str, on: str) -> Object:
        pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
        return {"metadata": {"name": name}, "spec": {"nodeName": on, "driver": "d.example.com", "pool": pool}}

    assert await world.post(SLICES, published("mine", "n1"), client=node)
    error = await refusal(world.post(SLICES, published("other", "n2"), client=node))
    assert "can only create ResourceSlice with the same NodeName as the requesting node" in error.message
    await world.post(SLICES, published("theirs", "n2"))
    error = await refusal(world.delete(f"{SLICES}/theirs", client=node))
    assert "can only delete ResourceSlice with the same NodeName" in error.message


async def test_an_agent_has_one_lease() -> None:
    world, node = await agent()
    lease: Object = {"metadata": {"name": "n1"}, "spec": {}}
    assert await world.post(LEASES.format("kube-node-lease"), lease, client=node)
    error = await refusal(world.post(LEASES.format("default"), lease, client=node))
    assert 'can only access leases in the "kube-node-lease" system namespace' in error.message
    error = await refusal(
        world.post(LEASES.format("kube-node-lease"), {"metadata": {"name": "n2"}, "spec": {}}, client=node)
    )
    assert "can only access node lease with the same name" in error.message


async def test_others_are_not_restricted_and_nameless_agents_get_nowhere() -> None:
    world, _ = await agent()
    assert await world.post("/api/v1/nodes", {"metadata": {"name": "n9"}})
    nameless = world.user("system:node:", "system:nodes")
    error = await refusal(world.post("/api/v1/nodes", {"metadata": {"name": "n8"}}, client=nameless))
    assert 'could not determine node from user "system:node:"' in error.message


class _Nobody(AlwaysAllow):
    """Allows everything but to speak for signers."""

    def authorize(self, attributes: Attributes) -> Verdict:
        return NO_OPINION if attributes.resource == "signers" else super().authorize(attributes)


async def test_certificates_need_leave_for_their_signer_and_make_no_superusers() -> None:
    from base64 import b64encode

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def request(name: str, organization: str, signer: str) -> Object:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.COMMON_NAME, name),
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
            ]
        )
        made = x509.CertificateSigningRequestBuilder(subject).sign(key, hashes.SHA256())
        text = b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()
        usages = ["digital signature", "client auth"]
        return {
            "metadata": {"name": f"{name.replace(':', '-')}-{organization.replace(':', '-')}"},
            "spec": {"request": text, "signerName": signer, "usages": usages},
        }

    requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    names = ("CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "NodeRestriction")
    world = await make_world(*names, authorizer=_Nobody())
    client = "kubernetes.io/kube-apiserver-client"
    error = await refusal(world.post(requests, request("eve", "system:masters", client)))
    assert "with system:masters group is not allowed" in error.message
    made = await world.post(requests, request("bob", "developers", client))
    path = f"{requests}/{made['metadata']['name']}"
    condition = {"type": "Approved", "status": "True", "reason": "r", "message": "m"}
    approved = {**made, "status": {"conditions": [condition]}}
    error = await refusal(world.put(f"{path}/approval", approved))
    assert f'user not permitted to approve requests with signerName "{client}"' in error.message
    signed = {**made, "status": {"conditions": [{**condition, "type": "Failed"}]}}
    error = await refusal(world.put(f"{path}/status", signed))
    assert "user not permitted to sign requests" in error.message
    node = world.user("system:node:n1", "system:nodes")
    kubelet = "kubernetes.io/kube-apiserver-client-kubelet"
    error = await refusal(
        world.post(requests, request("system:node:n2", "system:nodes", kubelet), client=node)
    )
    assert "can only create a node CSR with CN=system:node:n1" in error.message
    assert await world.post(requests, request("system:node:n1", "system:nodes", kubelet), client=node)
