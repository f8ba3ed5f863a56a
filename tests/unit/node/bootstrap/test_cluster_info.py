"""Which cluster a new node trusts."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api import bootstraptoken
from dray.api.bootstraptoken import Token
from dray.app import kubeconfig, pki
from dray.node.bootstrap.cluster_info import BootstrapTokenDiscovery, JoinError, authority

TOKEN = Token("abcdef", "0123456789abcdef")


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


def test_a_certificate_authority_is_trusted_by_its_hash_or_by_the_token(keys: pki.Pki) -> None:
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
def test_a_cluster_that_names_no_certificate_authority_is_not_trusted(text: str) -> None:
    with pytest.raises(JoinError, match="names no certificate authority"):
        authority({"kubeconfig": text}, told(trusting=True))
