"""What lets nodes join: a cluster introduces itself to strangers, and bootstrap tokens are good for a certificate."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from dray.api import bootstraptoken
from dray.api.errors import AlreadyExists, NotFound
from dray.app import kubeconfig

if TYPE_CHECKING:
    from dray.client.client import Client
    from dray.client.resources import Resource

_RBAC: Final = "rbac.authorization.k8s.io"
_CLUSTER_INFO_ROLE: Final = "dray:cluster-info"
_CSR: Final = "system:certificates.k8s.io:certificatesigningrequests"
#: Who may ask for a node's first certificate, who gets it without further ado, and who gets the next one.
_BINDINGS: Final = (
    ("dray:node-bootstrapper", "system:node-bootstrapper", bootstraptoken.GROUP),
    ("dray:node-client-certificates", f"{_CSR}:nodeclient", bootstraptoken.GROUP),
    ("dray:node-certificate-renewal", f"{_CSR}:selfnodeclient", "system:nodes"),
)


async def allow_bootstrap_tokens(
    client: Client, *, server: str, ca: bytes, update_address: bool = False
) -> None:
    """Prepare a cluster for nodes to join, once: what an administrator has changed or taken away since stays so.

    ``moved``: the server may have another address than when it introduced itself last.
    """
    from dray.client import resources as r

    where, name = bootstraptoken.CLUSTER_INFO_NAMESPACE, bootstraptoken.CLUSTER_INFO
    data = {"kubeconfig": kubeconfig.for_cluster_info(server, ca)}
    try:
        await client.get(r.CONFIGMAPS, where, name)
    except NotFound:
        reading = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get"]}
        role = {"metadata": {"name": _CLUSTER_INFO_ROLE}, "rules": [reading]}
        given = _binding(_CLUSTER_INFO_ROLE, "Role", _CLUSTER_INFO_ROLE, "User", "system:anonymous")
        await asyncio.gather(
            _create(client, r.ROLES, where, role),
            _create(client, r.ROLE_BINDINGS, where, given),
            *(
                _create(
                    client, r.CLUSTER_ROLE_BINDINGS, "", _binding(name, "ClusterRole", role, "Group", group)
                )
                for name, role, group in _BINDINGS
            ),
        )
        # The last thing that is made is the sign that all of it was.
        await _create(client, r.CONFIGMAPS, where, {"metadata": {"name": name}, "data": data})
    else:
        if update_address:
            await client.patch(r.CONFIGMAPS, where, name, {"data": data})


def _binding(name: str, kind: str, role: str, subject: str, who: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role},
        "subjects": [{"apiGroup": _RBAC, "kind": subject, "name": who}],
    }


async def _create(client: Client, resource: Resource[Any], namespace: str, wanted: dict[str, Any]) -> None:
    with contextlib.suppress(AlreadyExists):
        await client.create(resource, namespace, wanted)
