"""The API server put together: store, kinds, authentication, authorization, admission, HTTP."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dray.api import claims
from dray.api import release as releases
from dray.api.registry import kinds
from dray.app import kubeconfig, pki
from dray.app.options import Address, OptionError, ServerOptions
from dray.app.remotenodes import RemoteNodes
from dray.server import auth, subresources
from dray.server.admission import AdmissionChain, UnknownPlugin, enabled
from dray.server.admission.plugins import plugins
from dray.server.api import API
from dray.server.auth import (
    AuthenticatorChain,
    Authorizer,
    AuthorizerChain,
    accessreviews,
    policy,
    tokenrequests,
    tokenreviews,
)
from dray.server.auth.accounttokens import AccountTokens, Key, new_key
from dray.server.auth.bootstraptokens import BootstrapTokens
from dray.server.auth.nodes import NodeAuthorizer, Relations, unlisted_rules
from dray.server.auth.rbac import RBAC, NoEscalation, Resolver
from dray.server.auth.static import ADMIN, ClientCertificates, StaticTokens, read_token_file
from dray.server.auth.tokens import BearerTokens
from dray.server.bootstrap import bootstrap
from dray.server.bridging import bridge
from dray.server.definitions import Definitions, published_schema
from dray.server.discovery import Discovery
from dray.server.expressions import compile_expression, compile_policy, compile_rule
from dray.server.health import Health
from dray.server.http import HTTPServer
from dray.server.openapi import OpenAPIPages
from dray.server.pages import Pages
from dray.server.rendering import Renderer, refuse
from dray.store.interface import Store, StoreError
from dray.store.opening import open_store

if TYPE_CHECKING:
    from dray.server.audit import Audit

log = logging.getLogger(__name__)

_DRAIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that answers."""

    api: API
    health: Health
    url: str
    pki: pki.Pki
    nodes: subresources.NodeRouter  # told later who reaches the nodes


@asynccontextmanager
async def run_server(options: ServerOptions) -> AsyncIterator[RunningServer]:
    """Start the API server; it is ready when the block begins and has drained when the block has ended."""
    options.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    listener = listen(options.listen)
    host, port = listener.getsockname()[:2]
    known_as = _reachable(options.advertise or host)
    names = [name for name in (options.listen.host, options.advertise) if name not in ("", "0.0.0.0", "::")]
    keys = pki.ensure(options.data / "pki", names)
    try:
        store = await open_store(options.store, data=options.data)
    except StoreError as e:
        raise OptionError(f"--store {options.store}: {e}") from e
    try:
        api = await assemble(options, store, address=f"{known_as}:{port}")
        health = Health(api)
        for part in (Discovery(api), health, Pages(api), OpenAPIPages(api, custom=published_schema)):
            part.install()
        nodes = subresources.NodeRouter(RemoteNodes(keys))
        subresources.install(api, nodes=nodes)
        definitions = Definitions(api)
        await definitions.start()
        await bootstrap(api, port=port)
        if "RBAC" in options.authorization:
            await policy.reconcile(api)
        api.audit = _audit(options)
        http = HTTPServer(Renderer(api).serve, tls=keys.context(), refuse=refuse)
        await http.listen(listener)
        url = f"https://{known_as}:{port}"
        kubeconfig.write(options.kubeconfig_path, keys, url)
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(definitions.run(), name="custom resource definitions")
            try:
                yield RunningServer(api, health, url, keys, nodes)
            finally:
                health.shutting_down = True
                await http.drain(_DRAIN_SECONDS)
                serving.cancel()
                api.resources.close()
    finally:
        await store.close()


def listen(address: Address) -> socket.socket:
    """A listening socket on the address, or on the next free port if the user did not insist on one."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    for port in range(address.port, address.port + address.tries):
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address.host, port))
            sock.listen(1024)
        except OSError as e:
            sock.close()
            if address.tries == 1:
                raise OptionError(f"cannot listen on {address.host}:{port}: {e.strerror}") from e
            continue
        return sock
    raise OptionError(f"no free port on {address.host} from {address.port} on")


def _reachable(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


async def assemble(options: ServerOptions, store: Store, *, address: str = "") -> API:
    try:
        release = releases.release_named(options.emulate)
        gates = release.gates(releases.parse_gates(options.feature_gates))
        serving = release.serving(releases.parse_runtime_config(options.runtime_config), gates=gates)
        chosen = enabled(options.enable_plugins, options.disable_plugins)
    except (releases.SettingError, UnknownPlugin) as e:
        raise OptionError(str(e)) from e
    api = API(
        store,
        release=release,
        gates=gates,
        authenticator=AuthenticatorChain([], anonymous=False),  # nobody, until everything is in place
        authorizer=auth.Superusers(),
        expressions=compile_expression,
        policies=compile_policy,
        rules=compile_rule,
    )
    api.admission = AdmissionChain(plugins(api, chosen))
    await api.resources.serve(kinds(release), serving, gates)
    _bridge_generations(api)
    _install_auth(options, api, address=address)
    return api


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


def _bridge_generations(api: API) -> None:
    """Where classic and modern claims are served at once, the classic ones show through the modern versions too."""
    from dray.api.resource.classic import bridge as classic

    newer = api.resources.find("resource.k8s.io", "v1", "resourceclaims")
    older = api.resources.find("resource.k8s.io", "v1alpha2", "resourceclaims")
    if newer is not None and older is not None and newer[0] is not older[0]:
        bridge(newer[0].stored, older[0].stored, show=classic.as_modern, merge=classic.merged)


def _install_auth(options: ServerOptions, api: API, *, address: str) -> None:
    """Who may come in and what they may do, and the kinds that answer questions about it."""
    accounts = AccountTokens(api, Key(lambda: _account_key(options.data / "pki" / "sa.key")))
    tokens = _tokens(options, api, accounts)
    api.authenticator = AuthenticatorChain([ClientCertificates(), tokens], anonymous=options.anonymous)
    resolver = Resolver(api.resources)
    rbac = RBAC(resolver) if "RBAC" in options.authorization else None
    api.authorizer = _authorizer(options, api, rbac)
    api.admission = AdmissionChain([*api.admission.plugins, NoEscalation(resolver, api.authorizer.authorize)])
    unlisted = [unlisted_rules] if "Node" in options.authorization else []
    accessreviews.install(api, None if rbac is None else rbac.rules_for, unlisted=unlisted)
    tokenreviews.install(api, tokens)
    tokenrequests.install(api, accounts, address=address)


def _account_key(path: Path) -> bytes:
    """The key that signs service accounts' tokens, made once."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        pki.write_private(path, new_key())
    return path.read_bytes()


def _tokens(options: ServerOptions, api: API, accounts: AccountTokens) -> BearerTokens:
    audiences = accounts.audiences
    users = read_token_file(options.token_file) if options.token_file is not None else {}
    if options.admin_token:
        users[options.admin_token] = ADMIN
    static = StaticTokens(users, audiences=audiences)
    joining = BootstrapTokens(api, audiences=audiences)
    return BearerTokens([static, accounts, joining], audiences=audiences)


def _node_authorizer(api: API) -> NodeAuthorizer:
    # From 1.34 on this cannot be switched off, and later releases have forgotten the gate.
    selectors = "AuthorizeNodeWithSelectors" in api.gates or api.release.at_least("1.34")
    relations = Relations(api.resources, fixed_names=claims.has_fixed_names(api.release.number))
    return NodeAuthorizer(relations, policy.node_rules(api), api.gates, selectors=selectors)


def _authorizer(options: ServerOptions, api: API, rbac: RBAC | None) -> Authorizer:
    """The authorizers of ``--authorization-mode`` in their order; the administrators' group needs none of them."""
    chain: list[Authorizer] = [auth.Superusers()]
    for mode in options.authorization:
        match mode:
            case "RBAC":
                assert rbac is not None
                chain.append(rbac)
            case "AlwaysAllow":
                chain.append(auth.AlwaysAllow())
            case "AlwaysDeny":
                chain.append(auth.AlwaysDeny())
            case "Node":
                chain.append(_node_authorizer(api))
            case _:
                raise OptionError(f"--authorization-mode: {mode} is none of {', '.join(auth.MODES)}")
    return AuthorizerChain(chain)
