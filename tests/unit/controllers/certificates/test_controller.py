"""Certificate requests: who gets one without being asked, what signers refuse, how long things last."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dray.controllers.certificates import approver, certificate_authority, cleaner
from dray.controllers.certificates.certificate_authority import RequestedSubject

Object = dict[str, Any]
USAGES = ["digital signature", "client auth"]


def request(user: str, group: str = "system:nodes", *, names: tuple[str, ...] = ()) -> str:
    subject = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, group),
        x509.NameAttribute(NameOID.COMMON_NAME, user),
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    if names:
        alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
        builder = builder.add_extension(alternatives, critical=False)
    signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


def asking(user: str, encoded: str, **spec: Any) -> Object:
    return {
        "metadata": {"name": "r", "creationTimestamp": "1970-01-01T00:00:00Z"},
        "spec": {
            "signerName": certificate_authority.KUBELET_CLIENT,
            "usages": USAGES,
            "username": user,
            "request": encoded,
            **spec,
        },
    }


def subresources(one: Object) -> list[str]:
    return [permission.subresource for permission in approver.recognizers(one)]


@pytest.mark.parametrize("name", ["", "../../x", "n1\0", "N1", "n1/../n2", "n_1", "x" * 254])
def test_a_name_that_no_node_can_have_gets_no_certificate(name: str):
    wanted = RequestedSubject(f"system:node:{name}", ("system:nodes",), dns=())
    assert "does not name a node" in certificate_authority.kubelet_client_problem(wanted, USAGES)
    serving = RequestedSubject(f"system:node:{name}", ("system:nodes",), dns=("n1",))
    usages = ["digital signature", "server auth"]
    found = certificate_authority.signer_problem(certificate_authority.KUBELET_SERVING, serving, usages)
    assert "does not name a node" in found


@pytest.mark.parametrize("first", ["system:kube-controller-manager", "kube-apiserver-kubelet-client"])
def test_a_second_common_name_does_not_hide_the_first(first: str):
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, first),
            x509.NameAttribute(NameOID.COMMON_NAME, "system:node:n1"),
        ]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    encoded = base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
    assert subresources(asking("system:bootstrap:abc", encoded)) == []
    wanted = certificate_authority.requested_subject(encoded)
    assert "more than one common name" in certificate_authority.kubelet_client_problem(wanted, USAGES)


def test_nodes_need_the_right_to_their_first_certificate_and_may_renew_their_own():
    encoded = request("system:node:n1")
    assert subresources(asking("system:bootstrap:abc", encoded)) == ["nodeclient"]
    assert subresources(asking("system:node:n1", encoded)) == ["selfnodeclient", "nodeclient"]
    assert subresources(asking("jane", request("jane"))) == []
    assert subresources(asking("system:node:n1", request("system:node:n1", "system:masters"))) == []
    assert subresources(asking("system:node:n1", encoded, signerName=certificate_authority.CLIENT)) == []
    assert subresources(asking("system:node:n1", encoded, usages=["server auth"])) == []


@pytest.mark.parametrize(
    ("signer", "wanted", "usages", "words"),
    [
        (
            certificate_authority.KUBELET_CLIENT,
            RequestedSubject("system:node:a", ("system:nodes",)),
            USAGES,
            "",
        ),
        (
            certificate_authority.KUBELET_CLIENT,
            RequestedSubject("a", ("system:nodes",)),
            USAGES,
            "does not begin with system:node:",
        ),
        (
            certificate_authority.KUBELET_CLIENT,
            RequestedSubject("system:node:a", ("x",)),
            USAGES,
            "organization is not system:nodes",
        ),
        (
            certificate_authority.KUBELET_CLIENT,
            RequestedSubject("system:node:a", ("system:nodes",), dns=("a",)),
            USAGES,
            "DNS subjectAlt",
        ),
        (
            certificate_authority.KUBELET_CLIENT,
            RequestedSubject("system:node:a", ("system:nodes",)),
            ["client auth"],
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (
            certificate_authority.KUBELET_SERVING,
            RequestedSubject("system:node:a", ("system:nodes",)),
            ["digital signature", "server auth"],
            "DNS or IP subjectAltName is required",
        ),
        (
            certificate_authority.KUBELET_SERVING,
            RequestedSubject("system:node:a", ("system:nodes",), addresses=("10.0.0.1",)),
            ["digital signature", "server auth"],
            "",
        ),
        (certificate_authority.CLIENT, RequestedSubject("jane", ()), ["client auth"], ""),
        (
            certificate_authority.CLIENT,
            RequestedSubject("jane", ()),
            ["server auth"],
            "invalid usage for client certificate: server auth",
        ),
        (
            certificate_authority.CLIENT,
            RequestedSubject("jane", ()),
            ["digital signature"],
            "missing required usage",
        ),
    ],
)
def test_signers_refuse_what_is_not_theirs_to_grant(
    signer: str, wanted: RequestedSubject, usages: list[str], words: str
):
    found = certificate_authority.signer_problem(signer, wanted, usages)
    assert words in found and bool(words) == bool(found)


def test_what_a_request_asks_for_is_read():
    assert certificate_authority.requested_subject(
        request("system:node:n", names=("a.example", "b.example"))
    ) == RequestedSubject("system:node:n", ("system:nodes",), dns=("a.example", "b.example"))


def test_certificates_last_as_asked_within_reason():
    assert certificate_authority.lifetime(None) == timedelta(days=365)
    assert certificate_authority.lifetime(3600) == timedelta(hours=1)
    assert certificate_authority.lifetime(1) == timedelta(minutes=10)
    assert certificate_authority.lifetime(10**9) == timedelta(days=365)


def test_requests_go_when_they_are_dealt_with_and_pending_ones_after_a_day():
    pending = asking("jane", "")
    assert cleaner.seconds_until_cleanup(pending, now=0.0) == 86400.0
    denied = {"type": "Denied", "status": "True", "lastUpdateTime": "1970-01-01T01:00:00Z"}
    assert cleaner.seconds_until_cleanup({**pending, "status": {"conditions": [denied]}}, now=0.0) == 7200.0
    approved = {"type": "Approved", "status": "True", "lastUpdateTime": "1970-01-01T01:00:00Z"}
    waiting = {**pending, "status": {"conditions": [approved]}}
    assert cleaner.seconds_until_cleanup(waiting, now=0.0) == 3600.0 + 86400.0
    kept = cleaner.seconds_until_cleanup(waiting, now=0.0, unsigned_too=False)
    assert kept is None, "it is approved and will still be signed"
