"""What an administrator installs for the cats: the kind of their parameters, and the permissions of their driver."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
)
from dray.drivers.cats.parameters import CLAIM_PARAMETERS, DEFINITION, GROUP

if TYPE_CHECKING:
    from dray.api.types.rbac import ClusterRole, ClusterRoleBinding, PolicyRule

_LOOK: Final = ["get", "list", "watch"]
_WRITE: Final = [*_LOOK, "create", "update", "patch", "delete"]
_RESOURCE: Final = "resource.k8s.io"
_RULES: Final = (
    (GROUP, ["claimparameters"], _LOOK),
    ("", ["pods", "nodes", "configmaps"], _LOOK),
    ("", ["events"], ["create", "patch"]),
    ("events.k8s.io", ["events"], ["create", "patch"]),
    (_RESOURCE, ["deviceclasses", "resourceclasses"], _LOOK),
    (_RESOURCE, ["resourceclaims"], [*_LOOK, "update", "patch"]),
    (_RESOURCE, ["resourceclaims/status"], ["update", "patch"]),
    (_RESOURCE, ["resourceclaims/driver"], ["arbitrary-node:update", "arbitrary-node:patch"]),
    (_RESOURCE, ["podschedulingcontexts", "podschedulings"], _LOOK),
    (_RESOURCE, ["podschedulingcontexts/status", "podschedulings/status"], ["update", "patch"]),
    (_RESOURCE, ["resourceslices", "resourceclaimparameters", "resourceclassparameters"], _WRITE),
)


async def install(client: Client, *, user: str, with_parameters: bool) -> None:
    """Create what is missing, and wait until ClaimParameters can be written, which only classic claims refer to."""
    group = "rbac.authorization.k8s.io"
    rules: list[PolicyRule] = [
        {"apiGroups": [g], "resources": resources, "verbs": verbs} for g, resources, verbs in _RULES
    ]
    binding: ClusterRoleBinding = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    role: ClusterRole = {"metadata": {"name": user}, "rules": rules}
    await client.create_if_missing(CLUSTER_ROLES, "", role)
    await client.create_if_missing(CLUSTER_ROLE_BINDINGS, "", binding)
    if with_parameters:
        await install_parameters(client)


async def install_parameters(client: Client) -> None:
    """The kind of the cats' parameters alone: its definition is created if it is missing, and waited for."""
    discovery = Discovery(client)
    if await discovery.serves(CLAIM_PARAMETERS):
        return
    await client.create_if_missing(CUSTOM_RESOURCE_DEFINITIONS, "", DEFINITION)
    while not await discovery.serves(CLAIM_PARAMETERS):
        discovery.invalidate()
        await asyncio.sleep(0.02)
