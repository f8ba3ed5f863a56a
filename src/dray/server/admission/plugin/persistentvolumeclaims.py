"""DefaultStorageClass and PersistentVolumeClaimResize."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from dray.api.quantity import Quantity
from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope
from dray.server.admission.listers import Listers

if TYPE_CHECKING:
    from dray.api.types.core import PersistentVolumeClaim
    from dray.api.types.storage import StorageClass

_CLAIMS: Final = "persistentvolumeclaims"
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _class_of(claim: PersistentVolumeClaim) -> str | None:
    """The storage class a claim names; the annotation is older than the field and still wins."""
    annotations = claim["metadata"].get("annotations") or {}
    return annotations.get(_OLD_CLASS, claim.get("spec", {}).get("storageClassName"))


class DefaultStorageClass:
    name = "DefaultStorageClass"

    def __init__(self, listers: Listers) -> None:
        self._listers = listers

    def handles(self, scope: RequestScope) -> bool:
        return scope.operation == CREATE and scope.is_for("", _CLAIMS)

    async def admit(self, attributes: Attributes) -> None:
        claim: PersistentVolumeClaim = attributes.object
        if _class_of(claim) is None and (name := self._default()):
            claim.setdefault("spec", {})["storageClassName"] = name

    def _default(self) -> str:
        """Of several defaults the newest, then the first by name."""
        classes: Iterable[StorageClass] = self._listers.all("storage.k8s.io", "storageclasses")
        found = [
            c
            for c in classes
            if any((c["metadata"].get("annotations") or {}).get(key) == "true" for key in _DEFAULT)
        ]
        found.sort(key=lambda c: c["metadata"]["name"])
        found.sort(key=lambda c: c["metadata"].get("creationTimestamp", ""), reverse=True)
        return found[0]["metadata"]["name"] if found else ""


class PersistentVolumeClaimResize:
    name = "PersistentVolumeClaimResize"

    def __init__(self, listers: Listers) -> None:
        self._listers = listers

    def handles(self, scope: RequestScope) -> bool:
        return scope.operation == UPDATE and scope.is_for("", _CLAIMS)

    async def validate(self, attributes: Attributes) -> None:
        new: PersistentVolumeClaim = attributes.object
        old: PersistentVolumeClaim = attributes.old
        if _size(new) <= _size(old):
            return
        if old.get("status", {}).get("phase") != "Bound":
            raise attributes.forbidden("Only bound persistent volume claims can be expanded")
        if not self._may_grow(_class_of(new) or "", _class_of(old) or ""):
            raise attributes.forbidden(
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
                "must support resize"
            )

    def _may_grow(self, new: str, old: str) -> bool:
        if not new or new != old:
            return False
        found: StorageClass | None = self._listers.get("storage.k8s.io", "storageclasses", new)
        return found is not None and bool(found.get("allowVolumeExpansion"))


def _size(claim: PersistentVolumeClaim) -> Quantity:
    requests = (claim.get("spec", {}).get("resources") or {}).get("requests") or {}
    return Quantity.parse(requests.get("storage", "0"))
