"""What lets nodes join: a cluster introduces itself to strangers, and bootstrap tokens are good for a certificate."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from dray.api import bootstrap
from dray.api.errors import AlreadyExists
from dray.app import kubeconfig

if TYPE_CHECKING:
    from dray.app.server import RunningServer
    from dray.client.client import Client
    from dray.client.resources import Resource

_RBAC: Final = "rbac.authorization.k8s.io"
_INTRODUCTION: Final = "dray:cluster-info"
_CSR: Final = "system:certificates.k8s.io:certificatesigningrequests"
#: Who may ask for a node's first certificate, who gets it without further ado, and who gets the next one.
_BINDINGS: Final = (
    ("dray:node-bootstrapper", "system:node-bootstrapper", bootstrap.GROUP),
    ("dray:node-client-certificates", f"{_CSR}:nodeclient", bootstrap.GROUP),
    ("dray:node-certificate-renewal", f"{_CSR}:selfnodeclient", "system:nodes"),
)


async def open_doors(client: Client, server: RunningServer) -> None:
    """Make what is missing; what an administrator has changed since stays changed."""
    from dray.client import resources as r

    where = bootstrap.CLUSTER_INFO_NAMESPACE
    reading = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [bootstrap.CLUSTER_INFO],
        "verbs": ["get"],
    }
    await asyncio.gather(
        _introduce(client, kubeconfig.for_strangers(server.url, server.pki.ca.read_bytes())),
        _make(client, r.ROLES, where, {"metadata": {"name": _INTRODUCTION}, "rules": [reading]}),
        _make(
            client,
            r.ROLE_BINDINGS,
            where,
            _binding(_INTRODUCTION, "Role", _INTRODUCTION, "User", "system:anonymous"),
        ),
        *(
            _make(client, r.CLUSTER_ROLE_BINDINGS, "", _binding(name, "ClusterRole", role, "Group", group))
            for name, role, group in _BINDINGS
        ),
    )


def _binding(name: str, kind: str, role: str, subject: str, who: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role},
        "subjects": [{"apiGroup": _RBAC, "kind": subject, "name": who}],
    }


async def _introduce(client: Client, text: str) -> None:
    """The address may have changed since the last start."""
    from dray.client.resources import CONFIGMAPS

    where, name = bootstrap.CLUSTER_INFO_NAMESPACE, bootstrap.CLUSTER_INFO
    if not await _make(client, CONFIGMAPS, where, {"metadata": {"name": name}, "data": {"kubeconfig": text}}):
        await client.patch(CONFIGMAPS, where, name, {"data": {"kubeconfig": text}})


async def _make(client: Client, resource: Resource, namespace: str, wanted: dict[str, Any]) -> bool:
    try:
        await client.create(resource, namespace, wanted)
    except AlreadyExists:
        return False
    return True
