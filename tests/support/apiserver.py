"""An API server in memory, reached without HTTP."""

from __future__ import annotations

from dray.api.release import EffectiveVersion
from dray.api.scheme.kinds import UserInfo
from dray.api.scheme.registry import kinds
from dray.server import beyond_upstream, subresources
from dray.server.admission import AdmissionChain, AdmissionPlugin
from dray.server.admission.listers import Listers
from dray.server.admission.plugin.namespace import NamespaceLifecycle
from dray.server.apiserver import APIServer
from dray.server.auth.authenticator import AuthenticatorChain
from dray.server.auth.authenticator.tokenfile import ADMIN, StaticTokens
from dray.server.auth.authorizer import AlwaysAllow, Authorizer
from dray.server.auth.user import MASTERS
from dray.server.bootstrap import bootstrap
from dray.server.clock import Clock
from dray.server.inprocess import InProcessTransport
from dray.server.registry import serviceallocators
from dray.server.routes.discovery import Discovery
from dray.server.routes.healthz import Health
from dray.server.routes.index import IndexRoutes
from dray.store.memory import MemoryStore

ROOT = UserInfo("root", groups=(MASTERS,))
SERVED = {
    "namespaces", "configmaps", "secrets", "pods", "bindings", "nodes", "events", "services", "deployments",
    "poddisruptionbudgets", "resourceclaims", "deviceclasses", "resourceslices",
}  # fmt: skip


class Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Server:
    """An ``API`` with everything installed, and callers with names."""

    def __init__(self, api: APIServer, time: Time, health: Health) -> None:
        self.api = api
        self.time = time
        self.health = health

    def as_user(self, name: str = "root", *groups: str) -> InProcessTransport:
        return InProcessTransport(self.api, UserInfo(name, groups=groups or (MASTERS,)))


async def make_server(
    *,
    plugins: tuple[AdmissionPlugin, ...] = (),
    authorizer: Authorizer | None = None,
    served: set[str] = SERVED,
) -> Server:
    time = Time()
    version = EffectiveVersion()
    api = APIServer(
        MemoryStore(),
        version=version,
        gates=version.gates(),
        authenticator=AuthenticatorChain([StaticTokens({"secret": ADMIN})]),
        authorizer=authorizer or AlwaysAllow(),
        clock=Clock(time),
    )
    api.admission = AdmissionChain([NamespaceLifecycle(Listers(api)), *plugins])
    chosen = [kind for kind in kinds(version) if kind.plural in served or kind.virtual]
    await api.resources.serve(chosen, version.serving(), api.gates)
    serviceallocators.install(api.resources)
    beyond_upstream.install(api.resources, api.quirks)
    health = Health(api)
    for part in (Discovery(api), health, IndexRoutes(api)):
        part.install()
    subresources.install(api)
    await bootstrap(api, port=6443)
    return Server(api, time, health)
