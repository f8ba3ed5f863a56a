"""admissionregistration.k8s.io: policies and webhooks that decide about requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.admissionregistration.policies import (
    MutatingAdmissionPolicyBindingStrategy,
    MutatingAdmissionPolicyStrategy,
    ValidatingAdmissionPolicyBindingStrategy,
    ValidatingAdmissionPolicyStatusStrategy,
    ValidatingAdmissionPolicyStrategy,
    default_binding,
    default_policy,
)
from dray.api.groups.admissionregistration.webhooks import (
    WebhookConfigurationStrategy,
    default_mutating,
    default_validating,
)
from dray.api.quirks import APIQuirks
from dray.api.release import V1_29, V1_31, V1_32, V1_34, V1_35, V1_37, Release, Span
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Object, Printer, Version
from dray.api.scheme.strategy import Strategy, UpdateStrategy
from dray.api.selectors import format_label_selector

if TYPE_CHECKING:
    from dray.api.types.admissionregistration import (
        MutatingAdmissionPolicy,
        MutatingAdmissionPolicyBinding,
        ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding,
    )

GROUP: Final = "admissionregistration.k8s.io"
#: Since when a version of a kind is deprecated, when it goes, and whether upstream names a replacement.
_DEPRECATED: Final[Mapping[tuple[str, str], tuple[Release, Release, bool]]] = {
    ("Validating", "v1beta1"): (V1_31, V1_34, False),
    ("Validating", "v1alpha1"): (V1_29, V1_32, False),
    ("Mutating", "v1beta1"): (V1_37, Release(1, 40), True),
    ("Mutating", "v1alpha1"): (V1_35, Release(1, 38), False),
}


def kinds(quirks: APIQuirks) -> tuple[Kind, ...]:
    mutating_storage = quirks.mutating_policy_storage_version
    return (
        _policy(
            quirks,
            "MutatingAdmissionPolicy",
            MutatingAdmissionPolicyStrategy(),
            _policy_printer("Mutations", "How many changes it makes."),
            storage=mutating_storage,
        ),
        _binding(
            quirks,
            "MutatingAdmissionPolicyBinding",
            MutatingAdmissionPolicyBindingStrategy(),
            storage=mutating_storage,
        ),
        _webhooks("Mutating", default_mutating),
        _policy(
            quirks,
            "ValidatingAdmissionPolicy",
            ValidatingAdmissionPolicyStrategy(),
            _policy_printer("Validations", "How many conditions it has."),
            subresources={"status": ValidatingAdmissionPolicyStatusStrategy()},
        ),
        _binding(quirks, "ValidatingAdmissionPolicyBinding", ValidatingAdmissionPolicyBindingStrategy()),
        _webhooks("Validating", default_validating),
    )


def _versions(quirks: APIQuirks, kind: str, default: Callable[[Object], None]) -> tuple[Version, ...]:
    found = []
    family = "Mutating" if kind.startswith("Mutating") else "Validating"
    for name in ("v1", "v1beta1", "v1alpha1"):
        warning = ""
        if (family, name) in _DEPRECATED:
            since, until, replaced = _DEPRECATED[family, name]
            if Span(since).covers(quirks.release):
                warning = f"{GROUP}/{name} {kind} is deprecated in v{since}+, unavailable in v{until}+"
                warning += f"; use {GROUP}/v1 {kind}" if replaced else ""
        type_name = f"admissionregistration/{name}.{kind}"
        found.append(Version(name=name, type=type_name, default=default, deprecated=warning))
    return tuple(found)


def _policy(
    quirks: APIQuirks,
    kind: str,
    rules: Strategy[Any],
    printer: Printer,
    *,
    subresources: Mapping[str, UpdateStrategy[Any]] | None = None,
    storage: str = "v1",
) -> Kind:
    return Kind(
        group=GROUP,
        kind=kind,
        plural=f"{kind.lower().removesuffix('y')}ies",
        namespaced=False,
        categories=("api-extensions",),
        versions=_versions(quirks, kind, default_policy),
        storage=storage,
        strategy=rules,
        subresources=subresources or {},
        printer=printer,
    )


def _binding(quirks: APIQuirks, kind: str, rules: Strategy[Any], *, storage: str = "v1") -> Kind:
    return Kind(
        group=GROUP,
        kind=kind,
        plural=f"{kind.lower()}s",
        namespaced=False,
        categories=("api-extensions",),
        versions=_versions(quirks, kind, default_binding),
        storage=storage,
        strategy=rules,
        printer=printers.printer(
            (
                printers.NAME,
                Column("PolicyName", description="The policy that it puts to work."),
                Column("ParamRef", description="The parameters that it gives the policy."),
                printers.AGE,
            ),
            _binding_cells,
        ),
    )


def _webhooks(family: str, default: Callable[[Object], None]) -> Kind:
    kind = f"{family}WebhookConfiguration"
    return Kind(
        group=GROUP,
        kind=kind,
        plural=f"{kind.lower()}s",
        namespaced=False,
        categories=("api-extensions",),
        versions=(Version(name="v1", type=f"admissionregistration/v1.{kind}", default=default),),
        storage="v1",
        strategy=WebhookConfigurationStrategy(),
        printer=printers.printer(
            (
                printers.NAME,
                Column("Webhooks", type="integer", description="How many webhooks it registers."),
                printers.AGE,
            ),
            lambda obj, now: (printers.name(obj), len(obj.get("webhooks") or ()), printers.age(obj, now)),
        ),
    )


def _policy_printer(column: str, description: str) -> Printer:
    part = column.lower()

    def cells(obj: MutatingAdmissionPolicy | ValidatingAdmissionPolicy, now: float) -> Sequence[Any]:
        spec = obj.get("spec", {})
        parts: Mapping[str, Any] = spec
        kind = spec.get("paramKind")
        shown = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind is not None else "<unset>"
        return printers.name(obj), len(parts.get(part) or ()), shown, printers.age(obj, now)

    return printers.printer(
        (
            printers.NAME,
            Column(column, type="integer", description=description),
            Column("ParamKind", description="The kind of its parameters."),
            printers.AGE,
        ),
        cells,
    )


def _binding_cells(
    obj: MutatingAdmissionPolicyBinding | ValidatingAdmissionPolicyBinding, now: float
) -> Sequence[Any]:
    spec = obj.get("spec", {})
    ref = spec.get("paramRef") or {}
    shown = "<unset>"
    if ref.get("name"):
        shown = f"{ref.get('namespace') or '*'}/{ref['name']}"
    elif ref.get("selector") is not None:
        shown = format_label_selector(ref["selector"])
    return printers.name(obj), spec.get("policyName", ""), shown, printers.age(obj, now)
