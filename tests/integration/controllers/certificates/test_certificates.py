"""Certificate signing requests: approved, signed and deleted."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dray.api.scheme.kinds import Object
from dray.app import pki
from dray.client.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    NODES,
)
from tests.support.controlplane import NOW, ControlPlane, control_plane
from tests.support.wait import wait_for


async def node(a: ControlPlane, name: str, *, ready: str = "True") -> None:
    condition = {"type": "Ready", "status": ready, "lastHeartbeatTime": NOW, "lastTransitionTime": NOW}
    await a.client.create(NODES, "", {"metadata": {"name": name}, "status": {"conditions": [condition]}})


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


def test_a_node_gets_its_certificate_and_others_need_approval(tmp_path: Path):
    authority = pki.ensure(tmp_path / "pki", [])
    pem = {"certificate": authority.ca.read_text(), "key": authority.ca_key.read_text()}
    names = (
        "certificatesigningrequest-approving-controller",
        "certificatesigningrequest-signing-controller",
    )

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


def test_a_bootstrap_token_gets_no_certificate_of_a_ready_node(tmp_path: Path):
    authority = pki.ensure(tmp_path / "pki", [])
    pem = {"certificate": authority.ca.read_text(), "key": authority.ca_key.read_text()}
    names = (
        "certificatesigningrequest-approving-controller",
        "certificatesigningrequest-signing-controller",
    )

    async def play() -> None:
        async with control_plane(*names, settings={names[1]: pem}, data=tmp_path) as a:
            await node(a, "busy")
            await node(a, "gone", ready="False")

            async def asked(name: str, wanted: str, user: str) -> Object:
                spec = {
                    "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                    "usages": ["digital signature", "client auth"],
                    "request": request(f"system:node:{wanted}", "system:nodes"),
                }
                document = {"metadata": {"name": name}, "spec": spec}
                await a.client_of(user).create(CERTIFICATE_SIGNING_REQUESTS, "", document)

                async def decided() -> Object:
                    found = (await a.get(CERTIFICATE_SIGNING_REQUESTS, name))["status"]
                    assert found["conditions"][0]["type"] == "Denied" or found["certificate"]
                    return found

                return await wait_for(f"a decision on {name}", decided)

            refused = await asked("impostor", "busy", "system:bootstrap:abcdef")
            assert refused["conditions"][0]["message"] == (
                "the cluster has a node busy already, and it is ready; choose another name"
            )
            assert not refused.get("certificate")
            assert (await asked("again", "gone", "system:bootstrap:abcdef"))["certificate"]
            assert (await asked("renewal", "busy", "system:node:busy"))["certificate"]

    asyncio.run(play())
