"""Which version of resource.k8s.io a server has, for components that work with any of the structured ones."""

from __future__ import annotations

from typing import Any, Protocol

from dray.api.errors import NotFound

GROUP = "resource.k8s.io"
#: Versions with structured parameters, the preferred one first. Their claims have the same status.
VERSIONS = ("v1", "v1beta2", "v1beta1")


class Server(Protocol):
    """What is needed of a client."""

    async def request(self, method: str, path: str, **options: Any) -> Any: ...


class NoResourceApi(Exception):
    """The server does not have the resource API, or none of these versions of it."""


async def served(server: Server) -> str:
    """The newest version that both sides know."""
    try:
        reply = await server.request("GET", f"/apis/{GROUP}")
    except NotFound as e:
        raise NoResourceApi(f"the server does not serve {GROUP}") from e
    offered = {v["version"] for v in reply.object.get("versions") or []}
    for version in VERSIONS:
        if version in offered:
            return version
    raise NoResourceApi(f"the server serves {GROUP} in {', '.join(sorted(offered)) or 'no version'} only")
