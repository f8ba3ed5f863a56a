"""Roles, service accounts, the root certificate, quotas, nodes and certificates, over the real server."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dray.api.scheme.kinds import Object
from dray.api.times import format_micro_time
from dray.app import pki
from dray.client.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLES,
    CONFIGMAPS,
    ENDPOINTS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICASETS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from dray.controllers.endpointslice import ENDPOINT_SLICES
from tests.support.controlplane import NAMESPACE, NOW, ControlPlane, control_plane, pod_template
from tests.support.wait import wait_for


async def role(a: ControlPlane, name: str, *, labels: Object | None = None, **more: object) -> None:
    metadata = {"name": name, "labels": labels or {}}
    await a.client.create(CLUSTER_ROLES, "", {"metadata": metadata, **more})


def rule(resource: str) -> Object:
    return {"apiGroups": [""], "resources": [resource], "verbs": ["get"]}


def test_aggregating_roles_follow_the_roles_they_are_made_of(tmp_path: Path):
    async def play() -> None:
        async with control_plane("clusterrole-aggregation-controller", data=tmp_path) as a:
            await role(a, "b", labels={"part": "yes"}, rules=[rule("pods"), rule("nodes")])
            selectors = {"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]}
            await role(a, "whole", aggregationRule=selectors, rules=[])

            async def rules() -> list[str]:
                return [r["resources"][0] for r in (await a.get(CLUSTER_ROLES, "whole")).get("rules") or ()]

            async def are(*wanted: str) -> None:
                async def look() -> bool:
                    return await rules() == list(wanted)

                await wait_for(f"rules {wanted}", look)

            await are("pods", "nodes")
            await role(a, "a", labels={"part": "yes"}, rules=[rule("secrets"), rule("pods")])
            await are("secrets", "pods", "nodes")
            await a.client.delete(CLUSTER_ROLES, "", "b")
            await are("secrets", "pods")
            await a.client.delete(CLUSTER_ROLES, "", "a")
            await are()
            assert (await a.get(CLUSTER_ROLES, "whole"))["rules"] is None

    asyncio.run(play())


def test_namespaces_have_a_service_account_and_the_root_certificate(tmp_path: Path):
    settings = {"root-ca-certificate-publisher-controller": {"ca": "PEM"}}
    names = ("serviceaccount-controller", "root-ca-certificate-publisher-controller")

    async def play() -> None:
        async with control_plane(*names, data=tmp_path, settings=settings) as a:
            await a.client.create(NAMESPACES, "", {"metadata": {"name": "new"}})

            async def account() -> Object:
                return await a.client.get(SERVICE_ACCOUNTS, "new", "default")

            async def published() -> bool:
                found = await a.client.get(CONFIGMAPS, "new", "kube-root-ca.crt")
                return found["data"] == {"ca.crt": "PEM"}

            first = await wait_for("service account default", account)
            await a.client.delete(SERVICE_ACCOUNTS, "new", "default")

            async def another() -> bool:
                return (await account())["metadata"]["uid"] != first["metadata"]["uid"]

            await wait_for("another service account default", another)
            await wait_for("the root certificates", published)
            await a.client.patch(CONFIGMAPS, "new", "kube-root-ca.crt", {"data": {"ca.crt": "other"}})
            await wait_for("the root certificates again", published)

    asyncio.run(play())


def test_quotas_say_what_is_used_and_notice_what_goes(tmp_path: Path):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}

    async def play() -> None:
        async with control_plane("resourcequota-controller", data=tmp_path) as a:
            await a.create(PODS, "one", {"containers": [container]})
            await a.create(PODS, "two", {"containers": [container]})
            await a.create(RESOURCE_CLAIMS, "claim", {"devices": {"requests": [request]}})
            hard = {
                "pods": "5",
                "count/pods": "9",
                "requests.cpu": "4",
                "count/configmaps": "9",
                "count/resourceclaims.resource.k8s.io": "3",
                "gpu.deviceclass.resource.k8s.io/devices": "8",
            }
            await a.create(RESOURCE_QUOTAS, "q", {"hard": hard})

            async def used(**wanted: str) -> None:
                async def look() -> bool:
                    status = (await a.get(RESOURCE_QUOTAS, "q"))["status"]
                    found = status["used"]
                    return status["hard"] == hard and all(
                        found[n.replace("_", "/")] == v for n, v in wanted.items()
                    )

                await wait_for(f"quota usage {wanted}", look)

            await used(pods="2", count_pods="2")
            found = (await a.get(RESOURCE_QUOTAS, "q"))["status"]["used"]
            assert found == {
                "pods": "2",
                "count/pods": "2",
                "requests.cpu": "1",
                "count/configmaps": "0",
                "count/resourceclaims.resource.k8s.io": "1",
                "gpu.deviceclass.resource.k8s.io/devices": "2",
            }
            await a.finish(await a.get(PODS, "one"))
            await used(pods="1", count_pods="2")
            await a.client.delete(PODS, NAMESPACE, "one")
            await used(pods="1", count_pods="1")

    asyncio.run(play())


async def node(a: ControlPlane, name: str, *, ready: str = "True") -> None:
    condition = {"type": "Ready", "status": ready, "lastHeartbeatTime": NOW, "lastTransitionTime": NOW}
    await a.client.create(NODES, "", {"metadata": {"name": name}, "status": {"conditions": [condition]}})


async def taints(a: ControlPlane, name: str) -> set[tuple[str, str]]:
    found = (await a.get(NODES, name))["spec"].get("taints") or ()
    return {(t["key"].removeprefix("node.kubernetes.io/"), t["effect"]) for t in found}


def test_a_silent_node_loses_its_pods_and_one_without_a_lease_is_left_alone(tmp_path: Path):
    settings = {"node-lifecycle-controller": {"grace_seconds": 0.2}}

    async def play() -> None:
        names = ("node-lifecycle-controller", "taint-eviction-controller")
        async with control_plane(*names, data=tmp_path, settings=settings) as a:
            await node(a, "unwatched")
            await node(a, "silent")
            renewed = format_micro_time(datetime.now(UTC))
            lease = {"metadata": {"name": "silent"}, "spec": {"renewTime": renewed}}
            await a.client.create(LEASES, "kube-node-lease", lease)
            for name, seconds in (("leaves", 0), ("stays", 3600)):
                toleration = {
                    "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": seconds,
                }  # fmt: skip
                container = {"name": "c", "image": "i"}
                spec = {"nodeName": "silent", "containers": [container], "tolerations": [toleration]}
                await a.create(PODS, name, spec)
                await a.run(await a.get(PODS, name))

            async def tainted() -> bool:
                return await taints(a, "silent") == {
                    ("unreachable", "NoSchedule"),
                    ("unreachable", "NoExecute"),
                }

            async def leaving() -> bool:
                return "deletionTimestamp" in (await a.get(PODS, "leaves"))["metadata"]

            await wait_for("node silent to be tainted", tainted)
            await wait_for("pod leaves to be evicted", leaving)
            conditions = {c["type"]: c for c in (await a.get(NODES, "silent"))["status"]["conditions"]}
            assert conditions["Ready"]["status"] == "Unknown"
            assert conditions["Ready"]["message"] == "Kubelet stopped posting node status."
            assert conditions["DiskPressure"]["reason"] == "NodeStatusNeverUpdated"
            reasons = {
                c["type"]: c.get("reason") for c in (await a.get(PODS, "leaves"))["status"]["conditions"]
            }
            assert reasons["DisruptionTarget"] == "DeletionByTaintManager"
            stays = await a.get(PODS, "stays")
            assert "deletionTimestamp" not in stays["metadata"]
            assert {c["type"]: c["status"] for c in stays["status"]["conditions"]}["Ready"] == "False"
            assert (await a.get(NODES, "unwatched"))["status"]["conditions"][0]["status"] == "True"
            assert await taints(a, "unwatched") == set()

            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": renewed[:19] + "Z"}
            patch = {"status": {"conditions": [{**ready, "lastTransitionTime": NOW}]}}
            await a.client.patch_status(NODES, "", "silent", patch)

            async def untainted() -> bool:
                return not await taints(a, "silent")

            await wait_for("node silent to lose its taints", untainted)

    asyncio.run(play())


def test_a_node_gets_its_certificate_and_others_need_approval(tmp_path: Path):
    authority = pki.ensure(tmp_path / "pki", [])
    pem = {"certificate": authority.ca.read_text(), "key": authority.ca_key.read_text()}
    names = (
        "certificatesigningrequest-approving-controller",
        "certificatesigningrequest-signing-controller",
    )

    def request(user: str, group: str) -> str:
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, group),
                x509.NameAttribute(NameOID.COMMON_NAME, user),
            ]
        )
        made = x509.CertificateSigningRequestBuilder().subject_name(subject)
        signed = made.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
        return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()

    async def play() -> None:
        async with control_plane(*names, settings={names[1]: pem}, data=tmp_path) as a:
            spec = {
                "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                "usages": ["digital signature", "client auth"],
                "request": request("system:node:n1", "system:nodes"),
                "expirationSeconds": 86400,
            }
            await a.create(CERTIFICATE_SIGNING_REQUESTS, "node", spec)
            human = {
                **spec,
                "signerName": "kubernetes.io/kube-apiserver-client",
                "request": request("jane", "dev"),
            }
            await a.create(CERTIFICATE_SIGNING_REQUESTS, "human", human)

            async def issued() -> str:
                return str((await a.get(CERTIFICATE_SIGNING_REQUESTS, "node"))["status"]["certificate"])

            certificate = x509.load_pem_x509_certificate(
                base64.b64decode(await wait_for("the certificate", issued))
            )
            ca = x509.load_pem_x509_certificate(authority.ca.read_bytes())
            certificate.verify_directly_issued_by(ca)
            assert certificate.subject.rfc4514_string() == "CN=system:node:n1,O=system:nodes"
            assert not (await a.get(CERTIFICATE_SIGNING_REQUESTS, "human")).get("status")

    asyncio.run(play())


def test_a_budget_says_how_many_pods_may_be_evicted(tmp_path: Path):
    names = ("disruption-controller", "replicaset-controller")

    async def play() -> None:
        async with control_plane(*names, data=tmp_path) as a:
            labels = {"matchLabels": {"app": "x"}}
            await a.create(
                REPLICASETS, "rs", {"replicas": 3, "selector": labels, "template": pod_template(app="x")}
            )
            await a.create(POD_DISRUPTION_BUDGETS, "b", {"maxUnavailable": "34%", "selector": labels})

            async def allowed(count: int, *, healthy: int) -> bool:
                status = (await a.get(POD_DISRUPTION_BUDGETS, "b"))["status"]
                found = [
                    status[n]
                    for n in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
                ]
                return found == [count, healthy, 1, 3]

            async with a.hollow_kubelet():
                await wait_for("two allowed disruptions", lambda: allowed(2, healthy=3))
            pod = (await a.pods(app="x"))[0]
            await a.client.evict(NAMESPACE, pod["metadata"]["name"])
            await wait_for("one allowed disruption", lambda: allowed(1, healthy=2))

    asyncio.run(play())


def test_services_lead_to_the_pods_they_select(tmp_path: Path):
    async def play() -> None:
        async with control_plane("endpointslice-controller", "endpoints-controller", data=tmp_path) as a:
            port = {"name": "web", "containerPort": 8080}
            container = {"name": "c", "image": "i", "ports": [port]}
            await a.create(PODS, "p", {"containers": [container]}, labels={"app": "x"})
            await a.create(PODS, "other", {"containers": [container]}, labels={"app": "y"})
            await a.create(
                SERVICES, "s", {"selector": {"app": "x"}, "ports": [{"port": 80, "targetPort": "web"}]}
            )
            for name, ip in (("p", "10.0.0.1"), ("other", "10.0.0.2")):
                status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}
                await a.client.patch_status(PODS, NAMESPACE, name, {"status": status})

            async def found(*, ready: bool) -> bool:
                listed = await a.client.list(
                    ENDPOINT_SLICES, NAMESPACE, label_selector="kubernetes.io/service-name=s"
                )
                endpoint = listed.items[0]["endpoints"][0]
                ports = [(p["name"], p["port"]) for p in listed.items[0]["ports"]]
                subset = (await a.get(ENDPOINTS, "s"))["subsets"][0]
                kind = "addresses" if ready else "notReadyAddresses"
                told = [address["ip"] for address in subset[kind]]
                return (
                    len(listed.items) == 1
                    and endpoint["addresses"] == ["10.0.0.1"] == told
                    and endpoint["conditions"]["ready"] is ready
                    and ports == [("", 8080)]
                )

            await wait_for("an address that is not ready", lambda: found(ready=False))
            await a.run(await a.get(PODS, "p"))
            await wait_for("an address that is ready", lambda: found(ready=True))
            await a.client.delete(SERVICES, NAMESPACE, "s")

            async def gone() -> bool:
                return not (await a.client.list(ENDPOINTS, NAMESPACE, field_selector="metadata.name=s")).items

            await wait_for("the Endpoints of service s to go", gone)

    asyncio.run(play())
