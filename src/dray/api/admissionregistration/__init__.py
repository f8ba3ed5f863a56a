"""admissionregistration.k8s.io: policies and webhooks that decide about requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dray.api import printing
from dray.api.admissionregistration.policies import (
    MutatingBindingRules,
    MutatingPolicyRules,
    ValidatingBindingRules,
    ValidatingPolicyRules,
    ValidatingPolicyStatus,
    default_binding,
    default_policy,
)
from dray.api.admissionregistration.webhooks import WebhookRules, default_mutating, default_validating
from dray.api.kinds import Column, Kind, Object, Printer, Rules, UpdateRules, Version
from dray.api.release import Release
from dray.api.selectors import format_label_selector

GROUP: Final = "admissionregistration.k8s.io"
#: Since when a version of a kind is deprecated, when it goes, and whether upstream names a replacement.
_DEPRECATED: Final[Mapping[tuple[str, str], tuple[str, str, bool]]] = {
    ("Validating", "v1beta1"): ("1.31", "1.34", False),
    ("Validating", "v1alpha1"): ("1.29", "1.32", False),
    ("Mutating", "v1beta1"): ("1.37", "1.40", True),
    ("Mutating", "v1alpha1"): ("1.35", "1.38", False),
}


def kinds(release: Release) -> tuple[Kind, ...]:
    mutating_storage = (
        "v1" if release.at_least("1.37") else "v1beta1" if release.at_least("1.34") else "v1alpha1"
    )
    return (
        _policy(
            release,
            "MutatingAdmissionPolicy",
            MutatingPolicyRules(),
            _policy_printer("Mutations", "How many changes it makes."),
            storage=mutating_storage,
        ),
        _binding(release, "MutatingAdmissionPolicyBinding", MutatingBindingRules(), storage=mutating_storage),
        _webhooks("Mutating", default_mutating),
        _policy(
            release,
            "ValidatingAdmissionPolicy",
            ValidatingPolicyRules(),
            _policy_printer("Validations", "How many conditions it has."),
            views={"status": ValidatingPolicyStatus()},
        ),
        _binding(release, "ValidatingAdmissionPolicyBinding", ValidatingBindingRules()),
        _webhooks("Validating", default_validating),
    )


def _versions(release: Release, kind: str, default: Callable[[Object], None]) -> tuple[Version, ...]:
    found = []
    family = "Mutating" if kind.startswith("Mutating") else "Validating"
    for name in ("v1", "v1beta1", "v1alpha1"):
        warning = ""
        if (family, name) in _DEPRECATED:
            since, until, replaced = _DEPRECATED[family, name]
            if release.at_least(since):
                warning = f"{GROUP}/{name} {kind} is deprecated in v{since}+, unavailable in v{until}+"
                warning += f"; use {GROUP}/v1 {kind}" if replaced else ""
        type_name = f"admissionregistration/{name}.{kind}"
        found.append(Version(name=name, type=type_name, default=default, deprecated=warning))
    return tuple(found)


def _policy(
    release: Release,
    kind: str,
    rules: Rules,
    printer: Printer,
    *,
    views: Mapping[str, UpdateRules] | None = None,
    storage: str = "v1",
) -> Kind:
    return Kind(
        group=GROUP,
        kind=kind,
        plural=f"{kind.lower().removesuffix('y')}ies",
        namespaced=False,
        categories=("api-extensions",),
        versions=_versions(release, kind, default_policy),
        storage=storage,
        rules=rules,
        views=views or {},
        printer=printer,
    )


def _binding(release: Release, kind: str, rules: Rules, *, storage: str = "v1") -> Kind:
    return Kind(
        group=GROUP,
        kind=kind,
        plural=f"{kind.lower()}s",
        namespaced=False,
        categories=("api-extensions",),
        versions=_versions(release, kind, default_binding),
        storage=storage,
        rules=rules,
        printer=printing.printer(
            (
                printing.NAME,
                Column("PolicyName", description="The policy that it puts to work."),
                Column("ParamRef", description="The parameters that it gives the policy."),
                printing.AGE,
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
        rules=WebhookRules(),
        printer=printing.printer(
            (
                printing.NAME,
                Column("Webhooks", type="integer", description="How many webhooks it registers."),
                printing.AGE,
            ),
            lambda obj, now: (printing.name(obj), len(obj.get("webhooks") or ()), printing.age(obj, now)),
        ),
    )


def _policy_printer(column: str, description: str) -> Printer:
    part = column.lower()

    def cells(obj: Object, now: float) -> Sequence[Any]:
        spec = obj.get("spec", {})
        kind = spec.get("paramKind")
        shown = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind is not None else "<unset>"
        return printing.name(obj), len(spec.get(part) or ()), shown, printing.age(obj, now)

    return printing.printer(
        (
            printing.NAME,
            Column(column, type="integer", description=description),
            Column("ParamKind", description="The kind of its parameters."),
            printing.AGE,
        ),
        cells,
    )


def _binding_cells(obj: Object, now: float) -> Sequence[Any]:
    spec = obj.get("spec", {})
    ref = spec.get("paramRef") or {}
    shown = "<unset>"
    if ref.get("name"):
        shown = f"{ref.get('namespace') or '*'}/{ref['name']}"
    elif ref.get("selector") is not None:
        shown = format_label_selector(ref["selector"])
    return printing.name(obj), spec.get("policyName", ""), shown, printing.age(obj, now)
