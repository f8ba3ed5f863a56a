"""What lets nodes join: ConfigMap cluster-info, which everybody may read, and the roles of bootstrap tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api import bootstraptoken
from dray.api.errors import NotFound
from dray.app import kubeconfig

if TYPE_CHECKING:
    from dray.api.types.core import ConfigMap
    from dray.api.types.rbac import ClusterRoleBinding, PolicyRule, Role, RoleBinding
    from dray.client.client import Client

_RBAC: Final = "rbac.authorization.k8s.io"
_CLUSTER_INFO_ROLE: Final = "dray:cluster-info"
_CSR: Final = "system:certificates.k8s.io:certificatesigningrequests"
#: Who may request a node's first certificate, whose requests are approved, and whose renewals are approved.
_BINDINGS: Final = (
    ("dray:node-bootstrapper", "system:node-bootstrapper", bootstraptoken.GROUP),
    ("dray:node-client-certificates", f"{_CSR}:nodeclient", bootstraptoken.GROUP),
    ("dray:node-certificate-renewal", f"{_CSR}:selfnodeclient", "system:nodes"),
)


async def allow_bootstrap_tokens(
    client: Client, *, server: str, servers: Sequence[str] = (), ca: bytes, update_address: bool = False
) -> None:
    """Create the ConfigMap and the role bindings, once: what an administrator has changed or deleted since stays so.

    ``update_address``: the server may have another address than the one that the ConfigMap has.
    """
    from dray.client import resources as r

    where, name = bootstraptoken.CLUSTER_INFO_NAMESPACE, bootstraptoken.CLUSTER_INFO
    data = {"kubeconfig": kubeconfig.for_cluster_info(server, ca, servers)}
    try:
        await client.get(r.CONFIGMAPS, where, name)
    except NotFound:
        rule: PolicyRule = {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [name],
            "verbs": ["get"],
        }
        role: Role = {"metadata": {"name": _CLUSTER_INFO_ROLE}, "rules": [rule]}
        anyone: RoleBinding = {
            "metadata": {"name": _CLUSTER_INFO_ROLE},
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": _CLUSTER_INFO_ROLE},
            "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": "system:anonymous"}],
        }
        await asyncio.gather(
            client.create_if_missing(r.ROLES, where, role),
            client.create_if_missing(r.ROLE_BINDINGS, where, anyone),
            *(
                client.create_if_missing(r.CLUSTER_ROLE_BINDINGS, "", _binding(binding, cluster_role, group))
                for binding, cluster_role, group in _BINDINGS
            ),
        )
        # The ConfigMap is created last: where it exists, everything else does.
        cluster_info: ConfigMap = {"metadata": {"name": name}, "data": data}
        await client.create_if_missing(r.CONFIGMAPS, where, cluster_info)
    else:
        if update_address:
            await client.patch(r.CONFIGMAPS, where, name, {"data": data})


def _binding(name: str, role: str, group: str) -> ClusterRoleBinding:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": group}],
    }
