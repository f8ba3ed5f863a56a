"""NamespaceLifecycle: nothing is created in a namespace that is missing or ending, and some namespaces must stay."""

from __future__ import annotations

from typing import Final

from dray.api import errors
from dray.server.admission import CREATE, DELETE, Attributes
from dray.server.api import API

_IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})
#: Reviews about a namespace make sense whether or not it is there.
_REVIEWS: Final = frozenset({"localsubjectaccessreviews"})


class NamespaceLifecycle:
    name = "NamespaceLifecycle"

    def __init__(self, api: API) -> None:
        self._api = api

    def handles(self, attributes: Attributes) -> bool:
        if attributes.operation == DELETE:
            return attributes.resource == "namespaces" and not attributes.group
        return attributes.operation == CREATE and bool(attributes.namespace)

    async def admit(self, attributes: Attributes) -> None:
        if attributes.operation == DELETE:
            if attributes.name in _IMMORTAL:
                raise errors.forbidden("namespaces", "", attributes.name, "this namespace may not be deleted")
            return
        if (attributes.resource == "namespaces" and not attributes.group) or attributes.resource in _REVIEWS:
            return
        namespaces = self._api.stored("", "namespaces").stored
        namespace = namespaces.get(attributes.namespace)
        if namespace is None:
            raise errors.not_found("namespaces", "", attributes.namespace)
        if namespace.hub.get("status", {}).get("phase") == "Terminating":
            words = f"unable to create new content in namespace {attributes.namespace} because it is being terminated"
            error = errors.forbidden(attributes.resource, attributes.group, attributes.name, words)
            assert error.details is not None
            error.details["causes"] = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {attributes.namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise error
