"""An API server in memory, reached without HTTP: with chosen parts, or assembled as dray assembles it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dray.api.release import EffectiveVersion
from dray.api.scheme.registry import kinds
from dray.api.user import UserInfo
from dray.app.options import ServerOptions
from dray.app.server import assemble, bridge_generations
from dray.server import beyond_upstream, subresources
from dray.server.admission import AdmissionChain, AdmissionPlugin
from dray.server.admission.listers import Listers
from dray.server.admission.plugin.namespace import NamespaceLifecycle
from dray.server.apiserver import APIServer
from dray.server.auth.authenticator import AuthenticatorChain
from dray.server.auth.authenticator.tokenfile import ADMIN, StaticTokens
from dray.server.auth.authorizer import AlwaysAllow, Authorizer
from dray.server.auth.rbac import bootstrappolicy
from dray.server.auth.user import MASTERS
from dray.server.bootstrap import bootstrap
from dray.server.clock import Clock
from dray.server.inprocess import InProcessTransport
from dray.server.registry import fencing, serviceallocators
from dray.server.registry.cel import compile_expression, compile_rule
from dray.server.routes.discovery import Discovery
from dray.server.routes.healthz import Health
from dray.server.routes.index import IndexRoutes
from dray.store.interface import Store
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
    version: EffectiveVersion | None = None,
    served: set[str] | None = SERVED,
    frozen_clock: bool = True,
    store: Store | None = None,
) -> Server:
    """A server with these admission plugins beside NamespaceLifecycle, of everything or of a release, for some kinds
    or (None) for all."""
    time = Time()
    version = version or EffectiveVersion()
    gates = version.gates()
    api = APIServer(
        store or MemoryStore(),
        version=version,
        gates=gates,
        authenticator=AuthenticatorChain([StaticTokens({"secret": ADMIN})]),
        authorizer=authorizer or AlwaysAllow(),
        expressions=compile_expression,
        rules=compile_rule,
        clock=Clock(time) if frozen_clock else None,
    )
    api.admission = AdmissionChain([NamespaceLifecycle(Listers(api)), *plugins])
    chosen = [kind for kind in kinds(version) if served is None or kind.plural in served or kind.virtual]
    await api.resources.serve(chosen, version.serving(gates=gates), gates)
    bridge_generations(api)
    await serviceallocators.install(api.resources, api.store)
    api.leaders = await fencing.install(api.resources, api.store)
    await beyond_upstream.install(api)
    return Server(api, time, await _install(api))


@asynccontextmanager
async def assembled(data: Path, **options: Any) -> AsyncIterator[APIServer]:
    """The server as dray assembles it from its options, without HTTP."""
    settings = ServerOptions(data=data, **options)
    api = await assemble(settings, MemoryStore())
    await _install(api)
    if "RBAC" in settings.authorization:
        await bootstrappolicy.reconcile(api)
    try:
        yield api
    finally:
        api.resources.close()
        await api.store.close()


async def _install(api: APIServer) -> Health:
    health = Health(api)
    for part in (Discovery(api), health, IndexRoutes(api)):
        part.install()
    subresources.install(api)
    await bootstrap(api, port=6443)
    return health
