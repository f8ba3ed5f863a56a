"""A node's own client certificate: requested with a signing request, kept in one file, renewed in time."""

from __future__ import annotations

import asyncio
import base64
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dray.api.errors import StatusError
from dray.backoff import Backoff
from dray.client.client import Client
from dray.client.resources import CERTIFICATE_SIGNING_REQUESTS as REQUESTS
from dray.node.bootstrap.cluster_info import JoinError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from dray.api.types.certificates import CertificateSigningRequest

log = logging.getLogger(__name__)

SIGNER: Final = "kubernetes.io/kube-apiserver-client-kubelet"
_USAGES: Final = ["digital signature", "client auth"]
_POLL: Final = Backoff(initial=0.05, factor=1.5, maximum=2.0, jitter=0.1)
_RETRY: Final = Backoff(initial=5.0, factor=2.0, maximum=600.0, jitter=0.2)
#: Part of a certificate's life after which it is renewed; chance spreads the nodes of a cluster.
_RENEW_FROM, _RENEW_TO = 0.7, 0.9


async def request(
    client: Client, node: str, *, seconds: float, waiting: Callable[[str], None] = lambda name: None
) -> bytes:
    """A new key and a certificate for it, as one PEM. ``waiting`` is told the request's name when it is not granted
    at once; ``JoinError`` if it is refused or not dealt with for so many seconds."""
    key = _new_key()
    document: CertificateSigningRequest = {
        "metadata": {"generateName": "csr-"},
        "spec": {"signerName": SIGNER, "usages": _USAGES, "request": _signing_request(key, node)},
    }
    made = await client.create(REQUESTS, "", document)
    name = made["metadata"]["name"]
    told = False
    try:
        async with asyncio.timeout(seconds):
            for pause in _POLL.pauses():
                if certificate := _issued_certificate(await client.get(REQUESTS, "", name)):
                    return certificate + _pem(key)
                if pause >= 1.0 and not told:
                    waiting(name)
                    told = True
                await asyncio.sleep(pause)
    except TimeoutError:
        pass
    raise JoinError(f"nobody has signed {name}; see: kubectl get certificatesigningrequests")


def _issued_certificate(found: CertificateSigningRequest) -> bytes:
    status = found.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["type"] in ("Denied", "Failed"):
            why = condition.get("message") or condition.get("reason") or "no reason given"
            raise JoinError(f"the certificate was refused ({condition['type']}): {why}")
    return base64.b64decode(status.get("certificate") or "")


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _signing_request(key: EllipticCurvePrivateKey, node: str) -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import NameOID

    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
        ]
    )
    signed = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


class CertificateManager:
    """The file with a node's certificate and key. ``write`` replaces it at once and keeps others from reading it."""

    def __init__(
        self, path: Path, node: str, *, write: Callable[[Path, bytes], None], clock: Callable[[], float]
    ) -> None:
        self.path = path
        self._node = node
        self._write = write
        self._clock = clock

    def usable(self) -> bool:
        """Whether there is a certificate of this node that has not ended."""
        try:
            user, _, ends = _validity(self.path.read_bytes())
        except (OSError, ValueError):
            return False
        return user == f"system:node:{self._node}" and ends > self._clock()

    def keep(self, pem: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._write(self.path, pem)

    async def renew(self, client: Client, *, seconds: float = 900.0) -> None:
        """Get a new certificate with the old one whenever it is time, until cancelled."""
        pauses = _RETRY.pauses()
        while True:
            left = self._due() - self._clock()
            if left > 0:
                await asyncio.sleep(min(left, 3600.0))  # clocks can be set
                continue
            try:
                self.keep(await request(client, self._node, seconds=seconds))
            except (StatusError, JoinError) as problem:
                log.warning("the node's certificate cannot be renewed yet: %s", problem)
                await asyncio.sleep(next(pauses))
            else:
                log.info("the node has a new certificate")
                pauses = _RETRY.pauses()

    def _due(self) -> float:
        pem = self.path.read_bytes()
        _, begins, ends = _validity(pem)
        # The same moment whenever one asks about the same certificate.
        part = random.Random(pem).uniform(_RENEW_FROM, _RENEW_TO)
        return begins + (ends - begins) * part


def _validity(pem: bytes) -> tuple[str, float, float]:
    """Whose certificate it is, when it begins and when it ends."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    certificate = x509.load_pem_x509_certificate(pem)
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return (
        str(names[-1].value) if names else "",
        certificate.not_valid_before_utc.timestamp(),
        certificate.not_valid_after_utc.timestamp(),
    )
