"""OwnerReferencesPermissionEnforcement: who makes one object the owner of another needs permissions on both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope
from dray.server.auth import authorizer
from dray.server.auth.authorizer import AuthorizerFunc
from dray.server.endpoints.decoder import split_api_version
from dray.server.registry.resources import Resources

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.meta import OwnerReference


def _owners(obj: Object | None) -> Sequence[OwnerReference]:
    return () if obj is None else (obj.get("metadata") or {}).get("ownerReferences") or ()


class OwnerReferencesPermissionEnforcement:
    name = "OwnerReferencesPermissionEnforcement"

    def __init__(self, resources: Resources, authorize: AuthorizerFunc) -> None:
        self._resources = resources
        self._authorize = authorize

    def handles(self, scope: RequestScope) -> bool:
        return scope.operation in (CREATE, UPDATE) and not scope.is_for("", "pods", "status")

    async def validate(self, attributes: Attributes) -> None:
        new, old = _owners(attributes.object), _owners(attributes.old)
        if list(new) == list(old):
            return
        if attributes.operation != CREATE:
            self._check_deletable(attributes)
        blocked = {ref.get("uid") for ref in old if ref.get("blockOwnerDeletion")}
        blocking = [r for r in new if r.get("blockOwnerDeletion") and r.get("uid") not in blocked]
        if not blocking:
            return
        anything = authorizer.Attributes(attributes.user, "update", "*", "*", "*", "finalizers", name="*")
        if self._authorize(anything).allowed:
            return
        for ref in blocking:
            self._check_blockable(ref, attributes)

    def _check_deletable(self, attributes: Attributes) -> None:
        wanted = authorizer.Attributes(
            attributes.user,
            "delete",
            attributes.group,
            attributes.version,
            attributes.resource,
            attributes.subresource,
            attributes.namespace,
            attributes.name,
        )
        verdict = self._authorize(wanted)
        if not verdict.allowed:
            raise attributes.forbidden(
                f"cannot set an ownerRef on a resource you can't delete: {verdict.reason}, <nil>"
            )

    def _check_blockable(self, ref: OwnerReference, attributes: Attributes) -> None:
        api_version, kind = ref.get("apiVersion", ""), ref.get("kind", "")
        group, version = split_api_version(api_version)
        found = [r for r in self._resources if r.kind.group == group and r.kind.kind == kind]
        found = [r for r in found if version in r.served]
        if not found:
            raise attributes.forbidden(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion "
                f'{api_version} Kind {kind}: no matches for kind "{kind}" in version "{api_version}"'
            )
        for resource in found:
            namespace = attributes.namespace if resource.kind.namespaced else ""
            wanted = authorizer.Attributes(
                attributes.user,
                "update",
                group,
                version,
                resource.kind.plural,
                "finalizers",
                namespace,
                ref.get("name", ""),
            )
            verdict = self._authorize(wanted)
            if not verdict.allowed:
                raise attributes.forbidden(
                    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set "
                    f"finalizers on: {verdict.reason}, <nil>"
                )
