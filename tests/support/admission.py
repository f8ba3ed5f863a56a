"""An API server in memory with chosen admission plugins, and short ways to ask it for things."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.errors import StatusError
from dray.api.scheme.kinds import Object
from dray.server.admission import AdmissionChain
from dray.server.admission.registration import build_plugins
from dray.server.auth.authorizer import Authorizer
from dray.server.inprocess import InProcessTransport
from dray.server.registry.cel import compile_policy
from tests.support.apiserver import Server, make_server

KINDS = {
    "namespaces", "configmaps", "secrets", "pods", "bindings", "nodes", "events", "services", "serviceaccounts",
    "endpoints", "deployments", "limitranges", "resourcequotas", "persistentvolumeclaims", "storageclasses",
    "priorityclasses", "runtimeclasses", "leases", "certificatesigningrequests", "resourceclaims",
    "resourceclaimtemplates", "deviceclasses", "resourceslices", "poddisruptionbudgets",
    "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings", "validatingwebhookconfigurations", "mutatingwebhookconfigurations",
}  # fmt: skip
POLICIES = "/apis/admissionregistration.k8s.io/v1"


class World:
    """A server and a caller. ``post``, ``patch`` and the others return the object, or raise ``StatusError``."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.client = server.as_user()

    @property
    def api(self) -> Any:
        return self.server.api

    def user(self, name: str, *groups: str) -> InProcessTransport:
        return self.server.as_user(name, *groups)

    async def post(
        self, path: str, body: Object, *, client: InProcessTransport | None = None, **query: str
    ) -> Object:
        reply = await (client or self.client).request("POST", path, body=body, query=query or None)
        return reply.object

    async def put(self, path: str, body: Object, *, client: InProcessTransport | None = None) -> Object:
        return (await (client or self.client).request("PUT", path, body=body)).object

    async def patch(
        self, path: str, body: Object, *, client: InProcessTransport | None = None, **query: str
    ) -> Object:
        kind = "application/merge-patch+json"
        reply = await (client or self.client).request(
            "PATCH", path, body=body, content_type=kind, query=query or None
        )
        return reply.object

    async def delete(self, path: str, *, client: InProcessTransport | None = None) -> Object:
        return (await (client or self.client).request("DELETE", path)).object

    async def get(self, path: str) -> Object:
        return (await self.client.request("GET", path)).object

    async def warnings(self, path: str, body: Object) -> str:
        reply = await self.client.request("POST", path, body=body)
        return reply.headers.get("warning", "")


async def make_world(*names: str, authorizer: Authorizer | None = None) -> World:
    """A world with these plugins and no others."""
    server = await make_server(served=KINDS, authorizer=authorizer)
    server.api.policies = compile_policy
    server.api.admission = AdmissionChain(build_plugins(server.api, frozenset(names)))
    return World(server)


def pod(name: str = "p", **spec: Any) -> Object:
    containers = [{"name": "c", "image": "registry.example.com/c:1"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def config_map(name: str = "m", **data: str) -> Object:
    return {"metadata": {"name": name}, "data": data}


async def refusal(awaitable: Any) -> StatusError:
    """The error that a call ends with."""
    with pytest.raises(StatusError) as caught:
        await awaitable
    return caught.value


def validating_policy(name: str, *validations: Object | str, **spec: Any) -> Object:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["configmaps"],
    }
    listed = [{"expression": v} if isinstance(v, str) else v for v in validations]
    return {
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": listed, **spec},
    }


def binding(policy: str, *actions: str, **spec: Any) -> Object:
    found: Object = {"policyName": policy, **spec}
    if actions:
        found["validationActions"] = list(actions)
    return {"metadata": {"name": f"{policy}-binding"}, "spec": found}


class _Events(list[Object]):
    def write(self, event: Object) -> None:
        self.append(event)


def listen(world: World, level: str = "Metadata", **policy: Any) -> list[Object]:
    """Audit everything from now on; the events appear in the list."""
    from dray.server.audit import Audit
    from dray.server.audit.policy import Policy

    events = _Events()
    rules = policy.pop("rules", None) or [{"level": level}]
    world.api.audit = Audit(Policy({"rules": rules, **policy}), events, clock=world.server.time)
    return events
