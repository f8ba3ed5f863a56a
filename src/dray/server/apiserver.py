"""The API server: one pipeline for every request. HTTP and the in-process transport call ``APIServer.handle``.

A request is authenticated, impersonated where it asks for that, authorized, and routed to the handler of its verb.
A write then goes through these steps:

1. ``endpoints.decoder`` decodes the body into the hub version of its kind.
2. The mutating admission plugins change the object (``admission``).
3. The strategy of the kind prepares the object (``dray.api.groups``).
4. The begin-write hook of the resource reserves what the object takes until the write has ended: the addresses and
   ports of a service (``registry.serviceallocators``) and, beyond upstream, the devices of a claim and the names of a
   pod's claims (``beyond_upstream``).
5. The strategy validates the object.
6. The validating admission plugins accept or refuse the object.
7. ``registry.writes`` stores the object, and the reservation ends.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from dray.api.errors import (
    InternalError,
    MethodNotAllowed,
    NotFound,
    ServiceUnavailable,
    StatusError,
)
from dray.api.groups.apiextensions.conversion import ConversionNeeded
from dray.api.quirks import APIQuirks
from dray.api.release import EffectiveVersion, Gates
from dray.api.scheme.kinds import Object
from dray.api.scheme.strategy import Context
from dray.api.user import UserInfo
from dray.api.validation.cache import ValidationCache
from dray.api.validation.expressions import (
    Compiler,
    PolicyCompiler,
    RuleCompiler,
    accept_any_policy,
    accept_any_rule,
    accept_anything,
)
from dray.api.validation.names import path_segment
from dray.server.admission import AdmissionChain
from dray.server.auth.authenticator import AuthenticatorChain
from dray.server.auth.authorizer import Attributes, Authorizer
from dray.server.auth.forbidden import forbidden
from dray.server.auth.impersonation import Impersonation, wanted_user
from dray.server.clock import Clock
from dray.server.endpoints import negotiation
from dray.server.endpoints.call import Call
from dray.server.endpoints.decoder import Decoder
from dray.server.endpoints.largedocuments import LargeDocuments
from dray.server.endpoints.requestinfo import RequestInfo, request_info
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responses import RawBody, Response
from dray.server.endpoints.yamljson import UnreadableYAML, convert_large, is_large
from dray.server.handlers.table import Handler, HandlerTable, NoSuchMethod, NoSuchPath
from dray.server.managedfields.manager import FieldManager
from dray.server.metrics import Metrics, request_labels
from dray.server.quirks import Quirks
from dray.server.registry.fencing import Leaders
from dray.server.registry.resources import Resource, Resources
from dray.server.storage.codec import Codec
from dray.store.interface import Store, StoreError

if TYPE_CHECKING:
    from dray.server.apiextensions.conversion import ConversionWebhooks
    from dray.server.audit import Audit

log = logging.getLogger(__name__)

PathHandler = Callable[[Request, RequestInfo], Awaitable[Response]]


class _Route(NamedTuple):
    resource: Resource
    codec: Codec
    handler: Handler
    labels: tuple[str, ...]  # that its requests are counted by


class APIServer:
    """Everything a request may need. Wiring puts it together once, at start."""

    def __init__(
        self,
        store: Store,
        *,
        version: EffectiveVersion,
        gates: Gates,
        authenticator: AuthenticatorChain,
        authorizer: Authorizer,
        admission: AdmissionChain | None = None,
        expressions: Compiler = accept_anything,
        policies: PolicyCompiler = accept_any_policy,
        rules: RuleCompiler = accept_any_rule,
        clock: Clock | None = None,
    ) -> None:
        self.store = store
        self._shared = store.shared
        self.version = version
        self.gates = gates
        self.quirks = Quirks.of(version, gates)
        self.api_quirks = APIQuirks.of(version)
        self.authenticator = authenticator
        self.authorizer = authorizer
        self.impersonation = Impersonation(
            lambda attributes: self.authorizer.authorize(attributes),
            constrained=self.quirks.constrains_impersonation,
        )
        self.admission = admission or AdmissionChain()
        self.expressions = expressions
        self.policies = policies
        self.rules = rules
        self.clock = clock or Clock()
        self._memory = ValidationCache()
        self.resources = Resources(store, release=version.emulation)
        self.decoder = Decoder(self.resources)
        self.large_documents = LargeDocuments()
        self.handlers = HandlerTable()
        self._routes: dict[tuple[str | bool, ...], _Route] = {}  # by the shape of the request
        self.resources.on_change(self._routes.clear)
        self.field_manager = FieldManager()
        self.metrics = Metrics()
        self._conversions: ConversionWebhooks | None = None
        self.audit: Audit | None = None
        self.leaders: Leaders | None = None
        self.background: list[Callable[[], Coroutine[Any, Any, None]]] = []  # runs while the server does
        self.path_handlers: dict[str, PathHandler] = {}  # by path
        self.prefix_handlers: dict[str, PathHandler] = {}  # by the path's beginning, longest match

    # -- the pipeline

    def handle(self, request: Request) -> Awaitable[Response]:
        """Answer a request. Every failure is a ``StatusError``."""
        if self.audit is not None:
            return self.audit.follow(request, self._handle)
        return self._handle(request)

    async def _handle(self, request: Request) -> Response:
        info = request.info
        if info is None:
            info = request.info = request_info(request.method, request.path, request.query)
        user = caller = request.user
        if user is None:
            user, caller = self._identify(request, info)
            request.user, request.authenticated = user, True
            if request.admit is not None:
                request.admit(caller)
        attributes = authorizer_attributes(user, info, request)
        if request.audit_context is not None:
            request.audit_context.identified(attributes, caller=caller or user)
        verdict = self.authorizer.authorize(attributes)
        if request.audit_context is not None:
            request.audit_context.decided(verdict)
        if not verdict.allowed:
            raise forbidden(attributes, verdict.reason)
        if request.receive is not None:
            await request.receive()
        if not info.resource:
            return await self._handle_path(request, info)
        resource, codec, handler, _ = self._route(info)
        if codec.version.deprecated:
            request.warn(codec.version.deprecated)
        # What is asked of a backend, and what is sent to it, is between the caller and the backend.
        proxied = info.subresource == "proxy"
        custom = resource.kind.custom
        media = negotiation.PLAIN if proxied else negotiation.negotiate_output(request, custom=custom)
        known = self.store.revision if self._shared else 0
        try:
            if not proxied and is_large(request.body):
                try:
                    await convert_large(request, self.large_documents)
                except UnreadableYAML as e:
                    raise e.in_words_of(self.api_quirks) from None
            try:
                return await handler(Call(self, request, info, resource, codec, user, media))
            except ConversionNeeded as needed:
                await self.convert(needed)
                return await self._handle_converting(
                    handler, lambda: Call(self, request, info, resource, codec, user, media)
                )
            except StatusError as refusal:
                # A refusal is told from the cache. Where other servers write too, it stands only if nothing was missed.
                if proxied or refusal.code >= 500 or not self._shared:
                    raise
                if await self.store.wait_until_fresh() == known:
                    raise
                return await handler(Call(self, request, info, resource, codec, user, media))
        except StoreError as e:
            raise ServiceUnavailable(f"storage is not available: {e}") from e

    async def _handle_converting(self, handler: Handler, call: Callable[[], Call]) -> Response:
        """Handle a request anew until a webhook has converted all that it needs. Nothing was written so far: objects are
        converted before they are stored."""
        while True:
            try:
                return await handler(call())
            except ConversionNeeded as needed:
                await self.convert(needed)

    async def convert(self, needed: ConversionNeeded, *, also: Sequence[Object] = ()) -> None:
        """Ask the webhook of a custom resource for what could not be had without it."""
        if self._conversions is None:
            from dray.server.admission.listers import Listers
            from dray.server.apiextensions.conversion import ConversionWebhooks

            self._conversions = ConversionWebhooks(Listers(self))
        await self._conversions.convert(needed, also=also)

    def _identify(self, request: Request, info: RequestInfo) -> tuple[UserInfo, UserInfo]:
        """The user that a request acts as, and the caller, who differs if that user is impersonated."""
        caller = self.authenticator.authenticate(request)
        if (wanted := request.headers.once(wanted_user)) is None:
            return caller, caller
        return self.impersonation.impersonate(wanted, authorizer_attributes(caller, info, request)), caller

    def still_allows(self, request: Request) -> bool:
        """Whether a request that was let in would be let in now, as the same user."""
        assert request.info is not None
        try:
            user, _ = self._identify(request, request.info)
        except StatusError:
            return False
        attributes = authorizer_attributes(user, request.info, request)
        return user == request.user and self.authorizer.authorize(attributes).allowed

    def authorize_create(self, call: Call) -> None:
        """An update or an apply that would create its object needs the right to create as well."""
        attributes = replace(authorizer_attributes(call.user, call.info, call.request), verb="create")
        verdict = self.authorizer.authorize(attributes)
        if not verdict.allowed:
            raise forbidden(attributes, verdict.reason)

    def labels(self, info: RequestInfo) -> tuple[str, ...] | None:
        """What a request to a resource is counted as; None if there is no handler for it."""
        try:
            return self._route(info).labels if info.resource else None
        except StatusError:
            return None

    def _route(self, info: RequestInfo) -> _Route:
        """The handler of a request. Requests of one shape have one handler, which is looked up once and kept."""
        shape = (
            info.group,
            info.version,
            info.resource,
            info.subresource,
            info.verb,
            bool(info.namespace),
            bool(info.name),
            bool(info.rest),
        )
        route = self._routes.get(shape)
        if route is None:
            route = self._routes[shape] = self._find(info)
        return route

    def _find(self, info: RequestInfo) -> _Route:
        found = self.resources.find(info.group, info.version, info.resource)
        if found is None:
            raise self._unknown(info)
        resource, codec = found
        try:
            return _Route(resource, codec, self.handlers.find(resource, info), request_labels(info))
        except NoSuchPath:
            raise self.unknown_resource() from None
        except NoSuchMethod:
            raise method_not_allowed() from None

    async def _handle_path(self, request: Request, info: RequestInfo) -> Response:
        path = request.path
        handler = self.path_handlers.get(path) or (
            self.path_handlers.get(path.rstrip("/")) if len(path) > 1 else None
        )
        if handler is None:
            best = max((p for p in self.prefix_handlers if path.startswith(p)), key=len, default=None)
            if best is None:
                return text_not_found()
            handler = self.prefix_handlers[best]
        return await handler(request, info)

    def unknown_resource(self) -> NotFound:
        return NotFound("the server could not find the requested resource", details={})

    def _unknown(self, info: RequestInfo) -> StatusError:
        """A group that the server has is answered with a Status, any other with plain text."""
        if info.prefix == "api" or any(
            r.kind.group == info.group and not r.kind.custom for r in self.resources
        ):
            return self.unknown_resource()
        return PlainNotFound()

    # -- what handlers ask for

    def context(self, user: UserInfo, verb: str, version: str) -> Context:
        return Context(
            self.gates,
            self.api_quirks,
            self.clock.now(),
            user,
            self.namespace_labels,
            partial(self.allows, user),
            verb,
            self.expressions,
            self.policies,
            self.rules,
            self._memory,
            version,
        )

    def allows(
        self,
        user: UserInfo,
        verb: str,
        group: str,
        resource: str,
        subresource: str,
        namespace: str,
        name: str,
    ) -> bool:
        attributes = Attributes(user, verb, group, "*", resource, subresource, namespace, name)
        return self.authorizer.authorize(attributes).allowed

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        resource = self.resources.resource("", "namespaces")
        found = resource.cache.get(name) if resource is not None else None
        return None if found is None else found.labels

    def resource(self, group: str, plural: str) -> Resource:
        """A resource that is served for certain."""
        found = self.resources.resource(group, plural)
        if found is None:
            raise InternalError(f"{plural} are not served")
        return found


class PlainNotFound(StatusError):
    """404 as plain text: the server has no group of that name."""

    def __init__(self) -> None:
        super().__init__("404 page not found", code=404, reason="NotFound")


def text_not_found() -> Response:
    return Response(404, RawBody(b"404 page not found\n", "text/plain; charset=utf-8"))


def method_not_allowed() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource", details={})


_ON_MANY: Final = frozenset({"list", "watch", "deletecollection"})


def authorizer_attributes(user: UserInfo, info: RequestInfo, request: Request) -> Attributes:
    if not info.resource:
        return Attributes(user, info.verb, path=info.path)
    fields = labels = ""
    name = info.name
    if info.verb in _ON_MANY and request.query:
        fields, labels = request.query.get("fieldSelector"), request.query.get("labelSelector")
        if not name and fields and info.verb != "deletecollection":
            name = selected_name(fields)
    return Attributes(
        user,
        info.verb,
        info.group,
        info.version,
        info.resource,
        info.subresource,
        info.namespace,
        name,
        info.path,
        fields,
        labels,
    )


def selected_name(fields: str) -> str:
    """The only name that a field selector lets through: whoever may get that object may list it so."""
    for term in fields.split(","):
        key, _, value = term.partition("=")
        if key == "metadata.name":
            value = value.removeprefix("=")
            return "" if path_segment(value) else value
    return ""
