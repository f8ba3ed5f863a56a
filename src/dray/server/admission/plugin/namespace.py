"""NamespaceLifecycle, NamespaceExists and NamespaceAutoProvision.

NamespaceLifecycle refuses objects in a namespace that is missing or terminating, and the deletion of the system's
namespaces. NamespaceExists refuses objects in a missing namespace; NamespaceAutoProvision creates it.
"""

from __future__ import annotations

import contextlib
from typing import Final

from dray.api import errors
from dray.server.admission import CREATE, DELETE, UPDATE, Attributes, RequestScope
from dray.server.admission.listers import Listers
from dray.server.apiserver import APIServer
from dray.server.endpoints.requests import Request

_IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})
#: Reviews about a namespace make sense whether or not it is there, and must not say which.
_REVIEWS: Final = ("authorization.k8s.io", "localsubjectaccessreviews")


def _is_namespace(scope: RequestScope) -> bool:
    return scope.kind == "Namespace" and not scope.group


class NamespaceLifecycle:
    name = "NamespaceLifecycle"

    def __init__(self, listers: Listers) -> None:
        self._listers = listers

    def handles(self, scope: RequestScope) -> bool:
        if _is_namespace(scope):
            return scope.operation == DELETE
        return scope.operation in (CREATE, UPDATE) and (scope.group, scope.resource) != _REVIEWS

    async def admit(self, attributes: Attributes) -> None:
        if attributes.operation == DELETE:
            if attributes.name in _IMMORTAL:
                raise errors.forbidden("namespaces", "", attributes.name, "this namespace may not be deleted")
            return
        if not attributes.namespace:
            return
        namespace = self._listers.namespace(attributes.namespace)
        if namespace is None:
            raise errors.not_found("namespaces", "", attributes.namespace)
        if attributes.operation == CREATE and namespace.get("status", {}).get("phase") == "Terminating":
            raise _terminating(attributes)


def _terminating(attributes: Attributes) -> errors.StatusError:
    name = attributes.namespace
    error = attributes.forbidden(
        f"unable to create new content in namespace {name} because it is being terminated"
    )
    assert error.details is not None
    error.details["causes"] = [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
    ]
    return error


class NamespaceExists:
    name = "NamespaceExists"

    def __init__(self, listers: Listers) -> None:
        self._listers = listers

    def handles(self, scope: RequestScope) -> bool:
        return not _is_namespace(scope)

    async def validate(self, attributes: Attributes) -> None:
        if attributes.namespace and self._listers.namespace(attributes.namespace) is None:
            raise errors.not_found("namespaces", "", attributes.namespace)


class NamespaceAutoProvision:
    name = "NamespaceAutoProvision"

    def __init__(self, api: APIServer, listers: Listers) -> None:
        self._api = api
        self._listers = listers

    def handles(self, scope: RequestScope) -> bool:
        return scope.operation == CREATE and not _is_namespace(scope)

    async def admit(self, attributes: Attributes) -> None:
        if not attributes.namespace or attributes.dry_run:
            return
        if self._listers.namespace(attributes.namespace) is not None:
            return
        from dray.server.bootstrap import APISERVER_USER

        namespace = {"metadata": {"name": attributes.namespace}}
        with contextlib.suppress(errors.AlreadyExists):  # somebody else was faster
            await self._api.handle(Request("POST", "/api/v1/namespaces", body=namespace, user=APISERVER_USER))
