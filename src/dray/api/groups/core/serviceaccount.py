"""Service accounts: the identities that pods run under."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.scheme import printers
from dray.api.scheme.kinds import Kind, Version
from dray.api.scheme.strategy import Context, SubdomainStrategy

if TYPE_CHECKING:
    from dray.api.types.core import ServiceAccount

_ENFORCE_MOUNTABLE: Final = "kubernetes.io/enforce-mountable-secrets"


def _names_only(obj: ServiceAccount) -> None:
    """References to secrets carry a name and nothing else."""
    if obj.get("secrets"):
        obj["secrets"] = [{"name": s["name"]} if s.get("name") else {} for s in obj["secrets"]]


def _annotated(obj: ServiceAccount) -> bool:
    return _ENFORCE_MOUNTABLE in (obj["metadata"].get("annotations") or {})


class ServiceAccountStrategy(SubdomainStrategy["ServiceAccount"]):
    rechecks_metadata = True
    delete_returns_object = True

    def prepare_create(self, obj: ServiceAccount, ctx: Context) -> None:
        _names_only(obj)

    def prepare_update(self, new: ServiceAccount, old: ServiceAccount, ctx: Context) -> None:
        _names_only(new)

    def warn(self, obj: ServiceAccount, ctx: Context) -> Sequence[str]:
        if not _annotated(obj):
            return ()
        advice = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        return (f"metadata.annotations[{_ENFORCE_MOUNTABLE}]: {advice}",)

    def warn_update(self, new: ServiceAccount, old: ServiceAccount, ctx: Context) -> Sequence[str]:
        return () if _annotated(old) else self.warn(new, ctx)


KIND = Kind(
    group="",
    kind="ServiceAccount",
    plural="serviceaccounts",
    short_names=("sa",),
    versions=(Version(name="v1", type="core/v1.ServiceAccount"),),
    storage="v1",
    strategy=ServiceAccountStrategy(),
    printer=printers.NAME_AND_AGE,
    actions={"token": ("create",)},
)
