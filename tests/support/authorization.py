"""A server with its authorizers, reached by callers of different powers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dray.api.scheme.kinds import Object
from dray.api.user import UserInfo
from dray.server.apiserver import APIServer
from dray.server.auth.user import MASTERS
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responses import Response
from dray.server.inprocess import InProcessTransport
from dray.wire.messages import Headers
from tests.support.apiserver import assembled

RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Guarded:
    def __init__(self, api: APIServer) -> None:
        self.api = api
        self.root = InProcessTransport(api, UserInfo("root", groups=(MASTERS,)))

    def as_user(self, name: str, *groups: str) -> InProcessTransport:
        return InProcessTransport(self.api, UserInfo(name, groups=groups))

    async def http(self, method: str, path: str, body: Object | bytes = b"", **headers: str) -> Response:
        """A request as it comes from the network: who sends it is yet to be found out."""
        pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
        return await self.api.handle(Request(method, path, headers=Headers(pairs), body=body))

    async def post(self, path: str, body: Object) -> Object:
        return (await self.root.request("POST", path, body=body)).object

    async def grant(self, user: str, *rules: Object, namespace: str = "default", name: str = "given") -> None:
        """Give a user a role in a namespace, or everywhere."""
        base = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
        prefix = "" if namespace else "cluster"
        await self.post(f"{base}/{prefix}roles", {"metadata": {"name": name}, "rules": list(rules)})
        kind = "Role" if namespace else "ClusterRole"
        await self.post(
            f"{base}/{prefix}rolebindings",
            {
                "metadata": {"name": name},
                "roleRef": {"kind": kind, "name": name},
                "subjects": [{"kind": "User", "name": user}],
            },
        )


@asynccontextmanager
async def guarded(tmp_path: Path, **options: object) -> AsyncIterator[Guarded]:
    async with assembled(tmp_path, admin_token="admin", emulate="1.36", **options) as api:
        yield Guarded(api)


def rule(verbs: str, resources: str, *, group: str = "", names: str = "") -> Object:
    found: Object = {
        "verbs": verbs.split(","),
        "apiGroups": [group],
        "resources": resources.split(","),
    }
    if names:
        found["resourceNames"] = names.split(",")
    return found
