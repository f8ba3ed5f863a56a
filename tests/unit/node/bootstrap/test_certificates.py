"""How a node gets its client certificate and renews it."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dray.app import pki
from dray.controllers.certificates import certificate_authority
from dray.node.bootstrap import certificates
from dray.node.bootstrap.certificates import CertificateManager
from dray.node.bootstrap.cluster_info import JoinError

DAY = 86400.0


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> pki.Pki:
    return pki.ensure(tmp_path_factory.mktemp("pki"), [])


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


async def test_a_denied_signing_request_is_not_retried(keys: pki.Pki) -> None:
    cluster = Cluster(keys)
    cluster.conditions = [{"type": "Denied", "message": "not you"}]
    with pytest.raises(JoinError, match="not you"):
        await certificates.request(cluster, "n1", seconds=5)  # type: ignore[arg-type]


async def test_a_signing_request_that_nobody_signs_times_out(keys: pki.Pki) -> None:
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
