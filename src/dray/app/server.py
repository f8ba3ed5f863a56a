"""The API server put together: store, kinds, authentication, authorization, admission, HTTP."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from dray.api import release as releases
from dray.api.errors import ServiceUnavailable
from dray.api.groups.core import event
from dray.api.schema import loader as schema_loader
from dray.api.scheme.registry import kinds
from dray.app import keymaker, kubeconfig, pki, shared_pki
from dray.app.options import OptionError, ServerOptions, listen
from dray.app.remotenodes import RemoteNodes
from dray.backoff import Backoff
from dray.server import apiregistration, beyond_upstream, subresources
from dray.server.admission import AdmissionChain, UnknownPlugin, enabled
from dray.server.admission.registration import build_plugins
from dray.server.apiextensions.controller import CRDController
from dray.server.apiserver import APIServer
from dray.server.auth import subjectaccessreview, tokenreview
from dray.server.auth.authenticator import AuthenticatorChain
from dray.server.auth.authenticator.bearertoken import BearerTokens
from dray.server.auth.authenticator.bootstrap_token import BootstrapTokens
from dray.server.auth.authenticator.serviceaccount_token import ServiceAccountTokens, SigningKey
from dray.server.auth.authenticator.tokenfile import ADMIN, StaticTokens, read_token_file
from dray.server.auth.authenticator.x509 import ClientCertificates
from dray.server.auth.authorizer import (
    MODES,
    AlwaysAllow,
    AlwaysDeny,
    Authorizer,
    AuthorizerChain,
    PrivilegedGroups,
)
from dray.server.auth.nodes import Graph, NodeAuthorizer, unlisted_rules
from dray.server.auth.rbac import (
    EscalationCheck,
    RBACAuthorizer,
    RuleResolver,
    bootstrappolicy,
)
from dray.server.bootstrap import bootstrap
from dray.server.clock import Clock
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responsewriter import ResponseWriter, refuse
from dray.server.registry import fencing, serviceallocators
from dray.server.registry.cel import compile_expression, compile_policy, compile_rule
from dray.server.registry.resources import prefix_of
from dray.server.routes import backup, openidmetadata
from dray.server.routes.discovery import Discovery
from dray.server.routes.healthz import Health
from dray.server.routes.index import IndexRoutes
from dray.server.routes.openapi import OpenAPIRoutes
from dray.server.storage.bridge import bridge
from dray.server.subresources import tokenrequest
from dray.store.factory import open_store
from dray.store.interface import Store, StoreError, StoreFull, StoreUnavailable
from dray.wire.http_server import HTTPServer

if TYPE_CHECKING:
    from dray.server.audit import Audit

log = logging.getLogger(__name__)

T = TypeVar("T")

_DRAIN_SECONDS = 5.0
_OUTAGE_BACKOFF: Final = Backoff(initial=0.2, maximum=5.0)

#: Upstream's names of what is done at each step of the start, for health checks.
_ASSEMBLED = (
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/storage-readiness",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
)
_DEFINITIONS_SERVED = (
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
)
_BOOTSTRAPPED = (
    "poststarthook/bootstrap-controller",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/start-cluster-authentication-info-controller",
)


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that answers."""

    api: APIServer
    health: Health
    url: str
    pki: pki.Pki
    nodes: subresources.KubeletClientSwitch  # the nodes of this process are added once they run


@asynccontextmanager
async def run_server(
    options: ServerOptions, *, clock: Callable[[], float] = time.time
) -> AsyncIterator[RunningServer]:
    """Start the API server; it is ready when the block begins and has drained when the block has ended."""
    options.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    schema_loader.read_all()
    listener = listen(options.listen)
    host, port = listener.getsockname()[:2]
    known_as = _reachable(options.advertise or host)
    names = [name for name in (options.listen.host, options.advertise) if name not in ("", "0.0.0.0", "::")]
    try:
        store = await open_store(
            options.store, data=options.data, etcd=options.etcd, on_disk=prefix_of(event.KIND)
        )
    except StoreError as e:
        raise OptionError(f"--store {options.store}: {e}") from e
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        keys = await _keys(store, options.data / "pki", names)
        api = await _through_outages(
            store, partial(assemble, options, store, address=f"{known_as}:{port}", clock=clock)
        )
        stack.callback(api.resources.close)
        health = Health(api)
        for part in (Discovery(api), health, IndexRoutes(api), OpenAPIRoutes(api)):
            part.install()
        health.started(*_ASSEMBLED)
        nodes = subresources.KubeletClientSwitch(RemoteNodes(keys))
        subresources.install(api, nodes=nodes)
        backup.install(api)
        definitions = CRDController(api)
        await definitions.start()
        health.started(*_DEFINITIONS_SERVED)
        await _through_outages(store, partial(bootstrap, api, port=port, client_ca=keys.ca.read_text()))
        if "RBAC" in options.authorization:
            await _through_outages(store, partial(bootstrappolicy.reconcile, api))
            health.started("poststarthook/rbac/bootstrap-roles")
        health.started(*_BOOTSTRAPPED)
        api.audit = _audit(options)
        http = HTTPServer(
            ResponseWriter(api).serve, request_type=Request, tls=_tls(options, keys), refuse=refuse
        )
        await http.listen(listener)
        url = f"https://{known_as}:{port}"
        kubeconfig.write_admin(options.kubeconfig_path, keys, url, options.servers)
        detail = {"detail": True}
        log.info(
            "serving %s on %s from the store %s", api.version.git_version, url, options.store, extra=detail
        )
        log.info("resource.k8s.io: %s", _resource_versions(api) or "not served", extra=detail)
        gates = ", ".join(_dra_gates(api.gates)) or "none"
        log.info("feature gates of DRA that are on: %s", gates, extra=detail)
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(run()) for run in (definitions.run, *api.background)]
            try:
                yield RunningServer(api, health, url, keys, nodes)
            finally:
                health.shutting_down = True
                await http.drain(_DRAIN_SECONDS)
                for task in background:
                    task.cancel()


async def _keys(store: Store, folder: Path, names: Sequence[str]) -> pki.Pki:
    with keymaker.in_child(folder) as maker:
        await _through_outages(store, partial(shared_pki.adopt, store, folder, maker=maker))
        return pki.ensure(folder, names, maker=maker)


async def _through_outages(store: Store, step: Callable[[], Awaitable[T]]) -> T:
    """Take a step of the start, again and again while a store that other servers share cannot be reached.

    Such a store has answered before, so that its address is right, and it comes back: a server that ended instead would
    not be there when it does. Each step may be taken twice; what a first attempt wrote the second one finds.
    """
    failures = 0
    while True:
        try:
            return await step()
        except StoreFull:
            raise
        except (StoreUnavailable, ServiceUnavailable) as e:
            if not store.shared:
                raise
            log.warning("the start waits for the store: %s", e)
        await asyncio.sleep(_OUTAGE_BACKOFF.after(failures))
        failures += 1


def _tls(options: ServerOptions, keys: pki.Pki) -> ssl.SSLContext:
    serving = None
    if options.tls_certificate is not None and options.tls_key is not None:
        serving = pki.Leaf(options.tls_certificate, options.tls_key)
    elif options.tls_certificate is not None or options.tls_key is not None:
        raise OptionError("a certificate to serve with and its key go together: give both or none")
    try:
        return keys.context(serving, options.client_ca)
    except (OSError, ssl.SSLError) as problem:
        files = [str(file) for file in (options.tls_certificate, options.tls_key, options.client_ca) if file]
        raise OptionError(f"{', '.join(files)}: cannot be used for TLS: {problem}") from problem


def _resource_versions(api: APIServer) -> str:
    return ", ".join(
        v for g in api.resources.groups() if g.name == releases.RESOURCE_GROUP for v in g.versions
    )


def _dra_gates(gates: releases.Gates) -> list[str]:
    return sorted(gate for gate in gates.on if gate.startswith(("DRA", "DynamicResource")))


def _reachable(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


async def assemble(
    options: ServerOptions, store: Store, *, address: str = "", clock: Callable[[], float] = time.time
) -> APIServer:
    try:
        version = releases.EffectiveVersion.parse(options.emulate)
        gates = version.gates(releases.parse_gates(options.feature_gates))
        serving = version.serving(releases.parse_runtime_config(options.runtime_config), gates=gates)
        chosen = enabled(options.enable_plugins, options.disable_plugins)
    except (releases.SettingError, UnknownPlugin) as e:
        raise OptionError(str(e)) from e
    api = APIServer(
        store,
        version=version,
        gates=gates,
        authenticator=AuthenticatorChain(
            [], anonymous=False
        ),  # everybody is refused until everything is in place
        authorizer=PrivilegedGroups(),
        expressions=compile_expression,
        policies=compile_policy,
        rules=compile_rule,
        clock=Clock(clock),
    )
    api.admission = AdmissionChain(build_plugins(api, chosen))
    try:
        await _install(options, api, serving, address=address)
    except BaseException:
        api.resources.close()
        raise
    return api


async def _install(
    options: ServerOptions, api: APIServer, serving: releases.Serving, *, address: str
) -> None:
    await api.resources.serve(kinds(api.version), serving, api.gates)
    bridge_generations(api)
    await serviceallocators.install(api.resources, api.store)
    api.leaders = await fencing.install(api.resources, api.store)
    await beyond_upstream.install(api)
    apiregistration.install(api)
    _install_auth(options, api, address=address)


def _audit(options: ServerOptions) -> Audit | None:
    if options.audit_policy is None or not options.audit_log:
        return None
    from dray.server.audit import Audit
    from dray.server.audit.log import Log
    from dray.server.audit.policy import PolicyError, read

    try:
        return Audit(read(options.audit_policy), Log(options.audit_log))
    except (PolicyError, OSError) as e:
        raise OptionError(f"audit: {e}") from e


def bridge_generations(api: APIServer) -> None:
    """Where classic and modern claims are served at once, the classic ones show through the modern versions too."""
    from dray.api.groups.resource.classic import bridge as classic

    newer = api.resources.find("resource.k8s.io", "v1", "resourceclaims")
    older = api.resources.find("resource.k8s.io", "v1alpha2", "resourceclaims")
    if newer is not None and older is not None and newer[0] is not older[0]:
        bridge(newer[0].cache, older[0].cache, show=classic.as_modern, merge=classic.merged)


def _install_auth(options: ServerOptions, api: APIServer, *, address: str) -> None:
    """Who may come in and what they may do, and the kinds that answer questions about it."""
    key = SigningKey(lambda: _account_key(options.data / "pki" / "sa.key"))
    accounts = ServiceAccountTokens(api, key, issuer=options.account_issuer)
    tokens = _tokens(options, api, accounts)
    api.authenticator = AuthenticatorChain([ClientCertificates(), tokens], anonymous=options.anonymous)
    resolver = RuleResolver(api.resources)
    rbac = RBACAuthorizer(resolver) if "RBAC" in options.authorization else None
    api.authorizer = _authorizer(options, api, rbac)
    api.admission = AdmissionChain(
        [*api.admission.plugins, EscalationCheck(resolver, api.authorizer.authorize)]
    )
    unlisted = [unlisted_rules] if "Node" in options.authorization else []
    subjectaccessreview.install(api, None if rbac is None else rbac.rules_for, unlisted=unlisted)
    tokenreview.install(api, tokens)
    tokenrequest.install(api, accounts)
    openidmetadata.install(api, accounts, address=address)


def _account_key(path: Path) -> bytes:
    """The key that signs service accounts' tokens, made once."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        pki.write_private(path, pki.new_account_key())
    return path.read_bytes()


def _tokens(options: ServerOptions, api: APIServer, accounts: ServiceAccountTokens) -> BearerTokens:
    audiences = accounts.audiences
    try:
        users = read_token_file(options.token_file) if options.token_file is not None else {}
    except UnicodeDecodeError as e:
        raise OptionError(f"--token-auth-file: {options.token_file}: not text: {e.reason}") from e
    except ValueError as e:
        raise OptionError(f"--token-auth-file: {e}") from e
    if options.admin_token:
        users[options.admin_token] = ADMIN
    static = StaticTokens(users, audiences=audiences)
    joining = BootstrapTokens(api, audiences=audiences)
    return BearerTokens([static, accounts, joining], audiences=audiences)


def _node_authorizer(api: APIServer) -> NodeAuthorizer:
    graph = Graph(api.resources, fixed_names=api.quirks.names_claims_after_pod_and_entry)
    return NodeAuthorizer(graph, bootstrappolicy.node_rules(api), api.quirks)


def _authorizer(options: ServerOptions, api: APIServer, rbac: RBACAuthorizer | None) -> Authorizer:
    """The authorizers of ``--authorization-mode`` in their order; the administrators' group needs none of them."""
    chain: list[Authorizer] = [PrivilegedGroups()]
    for mode in options.authorization:
        match mode:
            case "RBAC":
                assert rbac is not None
                chain.append(rbac)
            case "AlwaysAllow":
                chain.append(AlwaysAllow())
            case "AlwaysDeny":
                chain.append(AlwaysDeny())
            case "Node":
                chain.append(_node_authorizer(api))
            case _:
                raise OptionError(f"--authorization-mode: {mode} is none of {', '.join(MODES)}")
    return AuthorizerChain(chain)
