"""Namespaces: they begin as Active, end through Terminating, and go when nothing finalizes them any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import (
    SPEC,
    STATUS,
    Context,
    Strategy,
    UpdateStrategy,
    keep_fields,
    name_is_dns_label,
    update_generation,
)
from dray.api.validation import field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import Namespace

_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_KUBERNETES: Final = "kubernetes"
#: Finalizers without a domain that have a meaning.
_STANDARD_FINALIZERS: Final = frozenset({_KUBERNETES, "orphan", "foregroundDeletion"})


def _label_name(obj: Namespace) -> None:
    meta = obj["metadata"]
    if meta.get("name"):
        meta["labels"] = {**(meta.get("labels") or {}), _NAME_LABEL: meta["name"]}


def _default(obj: Namespace) -> None:
    _label_name(obj)
    obj.setdefault("status", {}).setdefault("phase", "Active")


def _check_finalizer(name: str, path: Path) -> list[FieldError]:
    found = [field.invalid(path, name, message) for message in names.qualified_name(name)]
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        words = "name is neither a standard finalizer name nor is it fully qualified"
        found.append(field.invalid(path, name, words))
    return found


class NamespaceStrategy(Strategy["Namespace"]):
    check_name = staticmethod(name_is_dns_label)
    delete_returns_object = True

    def prepare_create(self, obj: Namespace, ctx: Context) -> None:
        obj["status"] = {"phase": "Active"}
        finalizers = obj.setdefault("spec", {}).get("finalizers") or []
        if _KUBERNETES not in finalizers:
            obj["spec"]["finalizers"] = [*finalizers, _KUBERNETES]

    def validate(self, obj: Namespace, ctx: Context) -> Sequence[FieldError]:
        path = SPEC.child("finalizers")
        finalizers = obj.get("spec", {}).get("finalizers") or ()
        return [problem for name in finalizers for problem in _check_finalizer(name, path)]

    def prepare_update(self, new: Namespace, old: Namespace, ctx: Context) -> None:
        keep_fields(new, old, "spec", "status")

    def validate_update(self, new: Namespace, old: Namespace, ctx: Context) -> Sequence[FieldError]:
        return self.validate(new, ctx)

    def canonicalize(self, obj: Namespace) -> None:
        _label_name(obj)

    def begin_deletion(self, obj: Namespace, ctx: Context) -> None:
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}

    def held(self, obj: Namespace) -> bool:
        return bool(obj.get("spec", {}).get("finalizers"))


class NamespaceStatusStrategy(UpdateStrategy["Namespace"]):
    def prepare_update(self, new: Namespace, old: Namespace, ctx: Context) -> None:
        keep_fields(new, old, "spec")
        update_generation(new, old, changed=False)

    def validate_update(self, new: Namespace, old: Namespace, ctx: Context) -> Sequence[FieldError]:
        deleting = bool(new["metadata"].get("deletionTimestamp"))
        want, state = ("Terminating", "is not empty") if deleting else ("Active", "is empty")
        phase = new.get("status", {}).get("phase", "")
        if phase == want:
            return ()
        words = f"may only be '{want}' if `deletionTimestamp` {state}"
        return (field.invalid(STATUS.child("Phase"), phase, words),)


class NamespaceFinalizeStrategy(UpdateStrategy["Namespace"]):
    """The finalize subresource: the namespace controller removes spec.finalizers through it."""

    def prepare_update(self, new: Namespace, old: Namespace, ctx: Context) -> None:
        keep_fields(new, old, "status")

    def validate_update(self, new: Namespace, old: Namespace, ctx: Context) -> Sequence[FieldError]:
        path = SPEC.child("finalizers")
        finalizers = new.get("spec", {}).get("finalizers") or ()
        return [p for i, name in enumerate(finalizers) for p in _check_finalizer(name, path.index(i))]


def _phase(obj: Namespace) -> str:
    return str(obj.get("status", {}).get("phase", ""))


KIND = Kind(
    group="",
    kind="Namespace",
    plural="namespaces",
    namespaced=False,
    short_names=("ns",),
    versions=(Version(name="v1", type="core/v1.Namespace", default=_default),),
    storage="v1",
    strategy=NamespaceStrategy(),
    subresources={"finalize": NamespaceFinalizeStrategy(), "status": NamespaceStatusStrategy()},
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    printer=printers.printer(
        (
            printers.NAME,
            Column("Status", description="Whether the namespace is being removed."),
            printers.AGE,
        ),
        lambda obj, now: (printers.name(obj), _phase(obj), printers.age(obj, now)),
    ),
    fields={"status.phase": _phase},
)
