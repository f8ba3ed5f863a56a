"""How a new node gets to know a cluster from an address, a token and, better, a hash of its certificate authority.

The address is not trusted: nothing secret is sent there before its certificate authority is known to be the right one.
"""

from __future__ import annotations

import base64
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dray.api import bootstraptoken, yamldocs
from dray.api.bootstraptoken import CLUSTER_INFO, CLUSTER_INFO_NAMESPACE, SIGNATURE_PREFIX, Token
from dray.api.errors import Forbidden, NotFound, StatusError, Unauthorized
from dray.client.client import Client
from dray.client.config import Config
from dray.client.factory import connect
from dray.client.kubeconfig import other_servers
from dray.client.resources import CONFIGMAPS

if TYPE_CHECKING:
    from dray.client.kubeconfig import Kubeconfig


class JoinError(Exception):
    """A node cannot join; the message says what to do about it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BootstrapTokenDiscovery:
    """What the user said about the cluster that the node is to join."""

    server: str  # https://HOST:PORT
    token: Token = field(repr=False)
    ca: bytes | None = None  # PEM
    pins: Collection[str] = ()  # hashes of the authority's public key, any of which will do
    trusting: bool = False  # accept an authority that is signed with the token


async def discover_cluster(told: BootstrapTokenDiscovery) -> Config:
    """How the cluster is reached, with the token as credential; its certificate authority has been checked."""
    if told.ca is not None:
        return Config(server=told.server, ca=told.ca, token=str(told.token))
    ca, others = await _discover(told)
    return Config(server=told.server, other_servers=others, ca=ca, token=str(told.token))


async def _discover(told: BootstrapTokenDiscovery) -> tuple[bytes, tuple[str, ...]]:
    """The authority of the cluster, and its other API servers."""
    if not told.pins and not told.trusting:
        raise JoinError(
            "it must be known which certificate authority to trust: give its hash or its certificate"
        )
    try:
        async with connect(Config(server=told.server, insecure=True)) as stranger:
            info = await _read(stranger)
    except StatusError as problem:
        raise JoinError(f"the cluster does not introduce itself: {problem}") from problem
    found = authority(info, told)
    async with connect(Config(server=told.server, ca=found)) as client:
        try:
            again = await _read(client)
        except StatusError as problem:
            raise JoinError(f"the cluster is not the one it says it is: {problem}") from problem
    if again.get("kubeconfig") != info.get("kubeconfig"):
        raise JoinError("the cluster says different things about itself")
    introduced: Kubeconfig = yamldocs.load(info["kubeconfig"])
    servers = other_servers(introduced["clusters"][0]["cluster"])
    return found, tuple(server for server in servers if server != told.server)


async def _read(client: Client) -> dict[str, str]:
    try:
        info = await client.get(CONFIGMAPS, CLUSTER_INFO_NAMESPACE, CLUSTER_INFO)
    except (Forbidden, NotFound, Unauthorized) as problem:
        raise JoinError(
            f"the cluster does not introduce itself to strangers ({problem}); give the certificate of its authority"
        ) from problem
    return dict(info.get("data") or {})


def authority(info: dict[str, str], told: BootstrapTokenDiscovery) -> bytes:
    """The authority that a cluster names, if there is a reason to believe it."""
    text = info.get("kubeconfig", "")
    try:
        named: Kubeconfig = yamldocs.load(text)
        data = named["clusters"][0]["cluster"]["certificate-authority-data"]
        found = base64.b64decode(data, validate=True)
        hashes = bootstraptoken.pins(found)
    except (KeyError, IndexError, TypeError, ValueError) as problem:
        raise JoinError("the cluster names no certificate authority") from problem
    if not hashes:
        raise JoinError("the cluster names no certificate authority")
    if told.pins:
        if unknown := [pin for pin in hashes if pin not in told.pins]:
            raise JoinError(
                f"the cluster's certificate authority is {', '.join(unknown)}, which is not what you gave"
            )
    elif not bootstraptoken.is_signed(text, info.get(SIGNATURE_PREFIX + told.token.id, ""), told.token):
        raise JoinError("what the cluster says about itself is not signed with this token")
    return found
