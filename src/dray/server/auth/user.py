"""Names of the users and groups that the system itself knows."""

from __future__ import annotations

from typing import Final

from dray.api.user import UserInfo

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
NODES: Final = "system:nodes"
NODE_PREFIX: Final = "system:node:"
ANONYMOUS: Final = UserInfo("system:anonymous", groups=(UNAUTHENTICATED,))


def node_name(user: UserInfo) -> str | None:
    """The node whose agent a user is, perhaps empty; None for everybody else."""
    if user.name.startswith(NODE_PREFIX) and NODES in user.groups:
        return user.name[len(NODE_PREFIX) :]
    return None
