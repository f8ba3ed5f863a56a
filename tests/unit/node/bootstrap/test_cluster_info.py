"""Whom a new node believes, and how it comes by its certificate and keeps it."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dray.api import bootstraptoken
from dray.api.bootstraptoken import Token
from dray.app import kubeconfig, pki
from dray.controllers.certificates import certificate_authority
from dray.node.bootstrap import certificates
from dray.node.bootstrap.certificates import CertificateManager
from dray.node.bootstrap.cluster_info import BootstrapTokenDiscovery, JoinError, authority

TOKEN = Token("abcdef", "0123456789abcdef")
DAY = 86400.0


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> pki.Pki:
    return pki.ensure(tmp_path_factory.mktemp("pki"), [])


def told(**more: Any) -> BootstrapTokenDiscovery:
    return BootstrapTokenDiscovery(server="https://127.0.0.1:1", token=TOKEN, **more)


def info(keys: pki.Pki, *, signed_by: Token | None = TOKEN) -> dict[str, str]:
    text = kubeconfig.for_cluster_info("https://192.0.2.1:6443", keys.ca.read_bytes())
    found = {"kubeconfig": text}
    if signed_by is not None:
        found[f"jws-kubeconfig-{signed_by.id}"] = bootstraptoken.signature(text, signed_by)
    return found


def test_an_authority_is_believed_for_its_hash_or_for_the_token(keys: pki.Pki) -> None:
    ca = keys.ca.read_bytes()
    assert authority(info(keys, signed_by=None), told(pins=bootstraptoken.pins(ca))) == ca
    assert authority(info(keys), told(trusting=True)) == ca
    with pytest.raises(JoinError, match="not what you gave"):
        authority(info(keys), told(pins=["sha256:00"], trusting=True))
    for nobody in (None, Token("abcdef", "f123456789abcdef"), Token("other1", TOKEN.secret)):
        with pytest.raises(JoinError, match="not signed with this token"):
            authority(info(keys, signed_by=nobody), told(trusting=True))


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "clusters: []", "clusters: [{cluster: {}}]",
        "clusters: [{cluster: {certificate-authority-data: '*'}}]",
        "clusters: [{cluster: {certificate-authority-data: ''}}]",
    ],
)  # fmt: skip
def test_who_names_no_authority_is_not_believed(text: str) -> None:
    with pytest.raises(JoinError, match="names no certificate authority"):
        authority({"kubeconfig": text}, told(trusting=True))


class Cluster:
    """As much of a cluster as signs certificates."""

    def __init__(self, keys: pki.Pki, *, lasting: timedelta = timedelta(days=1)) -> None:
        self._authority = certificate_authority.CertificateAuthority(
            keys.ca.read_text(), keys.ca_key.read_text()
        )
        self._lasting = lasting
        self.conditions: list[dict[str, str]] = []
        self.asked: list[certificate_authority.RequestedSubject] = []
        self._status: dict[str, Any] = {}

    async def create(self, resource: Any, namespace: str, wanted: dict[str, Any]) -> dict[str, Any]:
        spec = wanted["spec"]
        self.asked.append(certificate_authority.requested_subject(spec["request"]))
        assert certificate_authority.signer_problem(spec["signerName"], self.asked[-1], spec["usages"]) == ""
        self._status = {"conditions": self.conditions}
        if not self.conditions:
            self._status["certificate"] = certificate_authority.sign(
                self._authority, spec["request"], spec["usages"], lasting=self._lasting, now=time.time()
            )
        return {"metadata": {"name": "csr-1"}}

    async def get(self, resource: Any, namespace: str, name: str) -> dict[str, Any]:
        return {"status": self._status}


async def test_a_node_asks_for_its_own_name_and_nothing_else(keys: pki.Pki) -> None:
    cluster = Cluster(keys)
    pem = await certificates.request(cluster, "n1", seconds=5)  # type: ignore[arg-type]
    assert pem.startswith(b"-----BEGIN CERTIFICATE") and b"PRIVATE KEY" in pem
    assert cluster.asked == [certificate_authority.RequestedSubject("system:node:n1", ("system:nodes",))]


async def test_a_refusal_is_final(keys: pki.Pki) -> None:
    cluster = Cluster(keys)
    cluster.conditions = [{"type": "Denied", "message": "not you"}]
    with pytest.raises(JoinError, match="not you"):
        await certificates.request(cluster, "n1", seconds=5)  # type: ignore[arg-type]


async def test_nobody_waits_for_ever(keys: pki.Pki) -> None:
    cluster = Cluster(keys)
    cluster.conditions = [{"type": "Approved"}]
    with pytest.raises(JoinError, match="nobody has signed csr-1"):
        await certificates.request(cluster, "n1", seconds=0.01)  # type: ignore[arg-type]


async def test_a_certificate_is_renewed_before_it_ends_and_not_sooner(keys: pki.Pki, tmp_path: Path) -> None:
    cluster, now = Cluster(keys), time.time()
    written: list[bytes] = []

    def write(path: Path, pem: bytes) -> None:
        written.append(pem)
        pki.write_private(path, pem)

    keeper = CertificateManager(tmp_path / "pki" / "node.pem", "n1", write=write, clock=lambda: now)
    assert not keeper.usable()
    keeper.keep(await certificates.request(cluster, "n1", seconds=5))  # type: ignore[arg-type]
    assert keeper.usable()
    assert not CertificateManager(keeper.path, "n2", write=write, clock=lambda: now).usable()

    async def renewing() -> int:
        task = asyncio.create_task(keeper.renew(cluster))  # type: ignore[arg-type]
        for _ in range(100):
            await asyncio.sleep(0)
        task.cancel()
        return len(written)

    now += 0.6 * DAY
    assert await renewing() == 1
    cluster._lasting = timedelta(days=2)
    now += 0.35 * DAY
    assert await renewing() == 2
    assert written[0] != written[1]
    now += 0.2 * DAY
    assert keeper.usable()
    now += 2 * DAY
    assert not keeper.usable()
