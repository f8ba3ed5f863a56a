"""Ingress classes: which controller looks after an ingress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.groups.networking.ingress import check_reference
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import SPEC, Context, SubdomainStrategy, immutable, update_generation
from dray.api.validation import checks, field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.networking import IngressClass, IngressClassParametersReference

_DEFAULT_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"
_LONGEST_CONTROLLER: Final = 250
_CONTROLLER: Final = SPEC.child("controller")
_SCOPES: Final = ("Cluster", "Namespace")


def _default(obj: IngressClass) -> None:
    if (parameters := obj.get("spec", {}).get("parameters")) is not None and parameters.get("scope") is None:
        parameters["scope"] = "Cluster"


def _check_parameters(parameters: IngressClassParametersReference, path: Path) -> list[FieldError]:
    found = check_reference(parameters, path)
    scope, namespace, at = parameters.get("scope"), parameters.get("namespace"), path.child("namespace")
    if scope is None:
        return [*found, field.required(path.child("scope"))]
    if scope not in _SCOPES:
        found.append(field.not_supported(path.child("scope"), scope, _SCOPES))
    elif scope == "Namespace":
        words = "`parameters.scope` is set to 'Namespace'"
        found += [field.required(at, words)] if namespace is None else checks.dns_label(namespace, at)
    elif namespace is not None:
        found.append(field.forbidden(at, "`parameters.scope` is set to 'Cluster'"))
    return found


class IngressClassStrategy(SubdomainStrategy["IngressClass"]):
    def prepare_create(self, obj: IngressClass, ctx: Context) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_update(self, new: IngressClass, old: IngressClass, ctx: Context) -> None:
        update_generation(new, old, changed=new.get("spec") != old.get("spec"))

    def validate(self, obj: IngressClass, ctx: Context) -> Sequence[FieldError]:
        spec = obj.get("spec", {})
        controller, parameters = spec.get("controller", ""), spec.get("parameters")
        found: list[FieldError] = []
        if len(controller) > _LONGEST_CONTROLLER:
            found.append(field.too_long(_CONTROLLER, _LONGEST_CONTROLLER))
        found += checks.domain_prefixed_path(controller, _CONTROLLER)
        if parameters is not None:
            found += _check_parameters(parameters, SPEC.child("parameters"))
        return found

    def validate_update(self, new: IngressClass, old: IngressClass, ctx: Context) -> Sequence[FieldError]:
        controller, before = (x.get("spec", {}).get("controller", "") for x in (new, old))
        return [*immutable(controller, before, _CONTROLLER), *self.validate(new, ctx)]


def _cells(obj: IngressClass, now: float) -> Sequence[object]:
    spec = obj.get("spec", {})
    is_default = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    shown = "<none>"
    if (parameters := spec.get("parameters")) is not None:
        group = parameters.get("apiGroup")
        kind = parameters.get("kind", "") + ("" if group is None else f".{group}")
        shown = f"{kind}/{parameters.get('name', '')}"
    return (
        printers.name(obj) + (" (default)" if is_default else ""),
        spec.get("controller", ""),
        shown,
        printers.age(obj, now),
    )


KIND = Kind(
    group="networking.k8s.io",
    kind="IngressClass",
    plural="ingressclasses",
    namespaced=False,
    versions=(Version(name="v1", type="networking/v1.IngressClass", default=_default),),
    storage="v1",
    strategy=IngressClassStrategy(),
    printer=printers.printer(
        (
            printers.NAME,
            Column("Controller", description="Who looks after ingresses of this class."),
            Column("Parameters", description="The object that has more to say about the class."),
            printers.AGE,
        ),
        _cells,
    ),
)
