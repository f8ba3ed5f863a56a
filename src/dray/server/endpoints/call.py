"""``Call``: one request on one resource, with everything that its handler needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from dray.api import errors
from dray.api.errors import StatusError
from dray.api.scheme.kinds import Object
from dray.api.scheme.strategy import Context
from dray.api.user import UserInfo
from dray.server import admission
from dray.server.endpoints.largedocuments import LARGE, LONG_EXPRESSION
from dray.server.endpoints.negotiation import MediaType
from dray.server.endpoints.requestinfo import RequestInfo
from dray.server.endpoints.requests import Request
from dray.server.registry.resources import Resource
from dray.server.storage.codec import Codec
from dray.server.storage.documents import Document

if TYPE_CHECKING:
    from dray.server.apiserver import APIServer

_R = TypeVar("_R")


class Call:
    __slots__ = ("api", "codec", "info", "large", "media", "namespace", "request", "resource", "user")

    def __init__(
        self,
        api: APIServer,
        request: Request,
        info: RequestInfo,
        resource: Resource,
        codec: Codec,
        user: UserInfo,
        media: MediaType,
    ) -> None:
        self.api = api
        self.request = request
        self.info = info
        self.resource = resource
        self.codec = codec
        self.user = user
        self.media = media
        #: of the objects this call is about; empty for cluster-scoped kinds
        self.namespace = info.namespace if resource.kind.namespaced else ""
        #: whether the work on its documents is too much for the loop, and is done by ``beside``
        body = request.body
        self.large = isinstance(body, bytes) and (
            len(body) > LARGE or (len(body) > LONG_EXPRESSION and b"expression" in body)
        )

    @property
    def key(self) -> str:
        return self.resource.key(self.info.namespace, self.info.name)

    def beside(self, function: Callable[..., _R], *args: Any) -> Awaitable[_R]:
        """Call a pure function beside the loop."""
        return self.api.large_documents.run(self.user.name, function, *args)

    def context(self, verb: str = "") -> Context:
        """What the kind's rules may know."""
        return self.api.context(self.user, verb or self.info.verb, self.info.version)

    def attributes(
        self,
        operation: str,
        *,
        obj: Any = None,
        old: Any = None,
        name: str | None = None,
        options: Object | None = None,
        dry_run: bool = False,
        codec: Codec | None = None,  # of the object, where it is not the resource's own kind
    ) -> admission.Attributes:
        info, kind = self.info, self.resource.kind
        codec = codec or self.codec
        # A namespace is looked at as if it lived in itself, so that policies can select it by its own labels.
        namespace = info.namespace
        if not namespace and kind.plural == "namespaces" and not kind.group:
            namespace = info.name or name or ""
        audit_context = self.request.audit_context
        return admission.Attributes(
            operation,
            self.user,
            kind.group,
            self.codec.version.name,
            kind.plural,
            info.subresource,
            codec.kind.kind,
            namespace,
            info.name if name is None else name,
            codec,
            obj,
            old,
            options or {},
            dry_run,
            self.request.warn,
            None if audit_context is None else audit_context.notes,
        )

    # -- errors about this resource

    def not_found(self, name: str = "") -> StatusError:
        kind = self.resource.kind
        return errors.not_found(kind.plural, kind.error_group, name or self.info.name)

    def conflict(self, problem: str, name: str = "") -> StatusError:
        kind = self.resource.kind
        return errors.conflict(kind.plural, kind.error_group, name or self.info.name, problem)

    def existing(self) -> Document:
        found = self.resource.cache.get(self.key)
        if found is None:
            raise self.not_found()
        return found
