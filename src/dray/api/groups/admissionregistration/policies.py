"""Admission policies: what requests must look like, what is changed in them, and where a policy applies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from dray.api.golang import structs
from dray.api.groups.admissionregistration.matchresources import (
    FAILURE_POLICIES,
    REINVOCATION_POLICIES,
    Part,
    check_conditions,
    check_expression,
    check_match,
    default_match,
)
from dray.api.scheme.kinds import Object
from dray.api.scheme.strategy import (
    SPEC,
    STATUS,
    Context,
    SpecAndStatusStrategy,
    StatusStrategy,
    SubdomainStrategy,
    update_generation,
)
from dray.api.validation import checks, field, names, objectmeta
from dray.api.validation.expressions import RESERVED, PolicyScope
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.admissionregistration import (
        AuditAnnotation,
        MatchResources,
        MutatingAdmissionPolicy,
        MutatingAdmissionPolicyBinding,
        MutatingAdmissionPolicySpec,
        ParamKind,
        ParamRef,
        ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding,
        ValidatingAdmissionPolicySpec,
    )

_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_PATCH_TYPES: Final = ("ApplyConfiguration", "JSONPatch")
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*").fullmatch
_MOST_ANNOTATIONS: Final = 20
_LONGEST_ANNOTATION: Final = 5 * 1024
_ONE_NEEDED: Final = "validations or auditAnnotations must contain at least one item"
#: What each kind of mutation evaluates to.
_MUTATIONS: Final = {
    "JSONPatch": ("jsonPatch", "applyConfiguration", "list(JSONPatch)"),
    "ApplyConfiguration": ("applyConfiguration", "jsonPatch", "Object"),
}


def default_policy(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    default_match(spec.get("matchConstraints"))


def default_binding(obj: Object) -> None:
    default_match(obj.setdefault("spec", {}).get("matchResources"))


def _check_param_kind(kind: ParamKind, path: Path) -> list[FieldError]:
    version, at = kind.get("apiVersion", ""), path.child("apiVersion")
    found: list[FieldError] = []
    if not version:
        found.append(field.required(at))
    elif version.count("/") > 1:
        found.append(field.invalid(at, version, f"unexpected GroupVersion string: {version}"))
    else:
        group, _, number = version.rpartition("/")
        if group and (messages := names.dns1123_subdomain(group)):
            found.append(field.invalid(at, group, ",".join(messages)))
        if not number:
            found.append(field.invalid(at, version, "version must be specified"))
        elif messages := names.dns1035_label(number):
            found.append(field.invalid(at, number, ",".join(messages)))
    name, at = kind.get("kind", ""), path.child("kind")
    if not name:
        found.append(field.required(at))
    elif messages := names.dns1035_label(name.lower()):
        words = "may have mixed case, but should otherwise match: " + ",".join(messages)
        found.append(field.invalid(at, name, words))
    return found


P = TypeVar("P", "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
B = TypeVar("B", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding")


class _PolicyStrategy(SpecAndStatusStrategy[P]):
    """What validating and mutating policies have in common."""

    unconditional_update = False
    mutating = False

    def validate(self, obj: P, ctx: Context) -> Sequence[FieldError]:
        return self._check(obj, ctx, conditions_changed=True)

    def validate_update(self, new: P, old: P, ctx: Context) -> Sequence[FieldError]:
        spec, before = new.get("spec", {}), old.get("spec", {})
        parts = ("paramKind", "matchConditions")
        changed = any(spec.get(part) != before.get(part) for part in parts)
        return self._check(new, ctx, conditions_changed=changed)

    def _check(
        self,
        obj: P,
        ctx: Context,
        *,
        conditions_changed: bool,
    ) -> list[FieldError]:
        spec = obj.get("spec", {})
        params = spec.get("paramKind") is not None
        found = checks.one_of(spec.get("failurePolicy") or "", SPEC.child("failurePolicy"), FAILURE_POLICIES)
        if params:
            found += _check_param_kind(spec["paramKind"], SPEC.child("paramKind"))
        constraints, path = spec.get("matchConstraints"), SPEC.child("matchConstraints")
        if constraints is None:
            found.append(field.required(path))
        else:
            found += check_match(constraints, path)
            if not constraints.get("resourceRules"):
                found.append(field.required(path.child("resourceRules")))
            if self.mutating:
                found += check_mutating_operations(constraints, path)
        if conditions_changed:
            conditions = spec.get("matchConditions") or ()
            found += check_conditions(conditions, SPEC.child("matchConditions"), ctx, params=params)
        found += _check_variables(spec, ctx, params=params)
        return found + self.check_body(obj, ctx)

    def check_body(self, obj: P, ctx: Context) -> list[FieldError]:
        raise AssertionError("each kind of policy has a body of its own")


def check_mutating_operations(match: MatchResources, path: Path) -> list[FieldError]:
    """Deletions cannot be changed."""
    allowed = ("*", "CONNECT", "CREATE", "UPDATE")
    return [
        field.not_supported(path.child("resourceRules", "operations"), operation, allowed)
        for rule in match.get("resourceRules") or ()
        for operation in rule.get("operations") or ()
        if operation not in allowed
    ]


def _variables(
    spec: MutatingAdmissionPolicySpec | ValidatingAdmissionPolicySpec,
) -> tuple[tuple[str, str], ...]:
    return tuple((v.get("name", ""), v.get("expression", "")) for v in spec.get("variables") or ())


def _check_variables(
    spec: MutatingAdmissionPolicySpec | ValidatingAdmissionPolicySpec, ctx: Context, *, params: bool
) -> list[FieldError]:
    found: list[FieldError] = []
    known = _variables(spec)
    for i, (name, expression) in enumerate(known):
        path = SPEC.child("variables").index(i)
        if not name.strip():
            found.append(field.required(path.child("name"), "name is not specified"))
        elif not _IDENTIFIER(name) or name in RESERVED:
            found.append(field.invalid(path.child("name"), name, "must be a valid CEL identifier"))
        if not expression.strip():
            found.append(field.required(path.child("expression"), "expression is not specified"))
        else:
            scope = PolicyScope(params=params, authorizer=True, variables=known[:i], results=())
            found += check_expression(expression, path.child("expression"), scope, ctx)
    return found


class ValidatingAdmissionPolicyStrategy(_PolicyStrategy["ValidatingAdmissionPolicy"]):
    def check_body(self, obj: ValidatingAdmissionPolicy, ctx: Context) -> list[FieldError]:
        spec = obj.get("spec", {})
        validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or []
        if not validations and not annotations:
            parts = ("validations", "auditAnnotations")
            return [field.required(SPEC.child(part), _ONE_NEEDED) for part in parts]
        scope = PolicyScope(
            params=spec.get("paramKind") is not None, authorizer=True, variables=_variables(spec) or None
        )
        found: list[FieldError] = []
        for i, validation in enumerate(validations):
            found += _check_validation(validation, SPEC.child("validations").index(i), scope, ctx)
        path = SPEC.child("auditAnnotations")
        if len(annotations) > _MOST_ANNOTATIONS:
            words = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
            shown = [structs.render("admissionregistration/v1.AuditAnnotation", a) for a in annotations]
            found.append(field.invalid(path, shown, words))
        seen: set[str] = set()
        for i, annotation in enumerate(annotations):
            found += _check_annotation(obj, annotation, path.index(i), scope, ctx)
            key = annotation.get("key", "")
            if key in seen:
                found.append(field.duplicate(path.index(i).child("key"), key))
            seen.add(key)
        return found


def _check_validation(validation: Part, path: Path, scope: PolicyScope, ctx: Context) -> list[FieldError]:
    found: list[FieldError] = []
    expression = validation.get("expression", "")
    if expression.strip():
        found += check_expression(expression, path.child("expression"), scope, ctx)
    else:
        found.append(field.required(path.child("expression"), "expression is not specified"))
    made, at = validation.get("messageExpression", ""), path.child("messageExpression")
    if made.strip():
        of_message = scope._replace(authorizer=False, results=("string",))
        found += check_expression(made, at, of_message, ctx)
    elif made:
        found.append(field.invalid(at, made, "must be non-empty if specified"))
    message, at = validation.get("message", ""), path.child("message")
    if message and not message.strip():
        found.append(field.invalid(at, message, "must be non-empty if specified"))
    elif "\n" in message.strip() or "\r" in message.strip():
        found.append(field.invalid(at, message, "must not contain line breaks"))
    if (reason := validation.get("reason")) is not None and reason not in _REASONS:
        found.append(field.not_supported(path.child("reason"), reason, _REASONS))
    return found


def _check_annotation(
    obj: ValidatingAdmissionPolicy, annotation: AuditAnnotation, path: Path, scope: PolicyScope, ctx: Context
) -> list[FieldError]:
    name, key = obj["metadata"].get("name", ""), annotation.get("key", "")
    if name:
        found = checks.qualified_name(f"{name}/{key}", path.child("key"))
    else:
        found = [field.invalid(path.child("key"), key, "requires metadata.name be non-empty")]
    written, at = annotation.get("valueExpression", ""), path.child("valueExpression")
    expression = written.strip()
    if not expression:
        found.append(field.required(at, "valueExpression is not specified"))
    elif len(expression.encode()) > _LONGEST_ANNOTATION:
        found.append(field.required(at, f"must not exceed {_LONGEST_ANNOTATION} bytes in length"))
    else:
        of_value = scope._replace(results=("string", "null_type"))
        found += check_expression(expression, at, of_value, ctx, shown=written)
    return found


class ValidatingAdmissionPolicyStatusStrategy(StatusStrategy["ValidatingAdmissionPolicy"]):
    def validate_update(
        self, new: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy, ctx: Context
    ) -> Sequence[FieldError]:
        status = new.get("status", {})
        found: list[FieldError] = []
        for i, warning in enumerate((status.get("typeChecking") or {}).get("expressionWarnings") or ()):
            path = STATUS.child("typeChecking", "expressionWarnings").index(i)
            if not warning.get("warning"):
                found.append(field.required(path.child("warning")))
            if not warning.get("fieldRef", "").strip():
                found.append(field.required(path.child("fieldRef")))
        return found + objectmeta.validate_conditions(
            status.get("conditions") or (), STATUS.child("conditions"), declared=ctx.quirks.declares_rules
        )


class MutatingAdmissionPolicyStrategy(_PolicyStrategy["MutatingAdmissionPolicy"]):
    mutating = True

    def prepare_create(self, obj: MutatingAdmissionPolicy, ctx: Context) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_update(
        self, new: MutatingAdmissionPolicy, old: MutatingAdmissionPolicy, ctx: Context
    ) -> None:
        update_generation(new, old, changed=new.get("spec") != old.get("spec"))

    def check_body(self, obj: MutatingAdmissionPolicy, ctx: Context) -> list[FieldError]:
        spec = obj.get("spec", {})
        found: list[FieldError] = []
        if not spec.get("mutations"):
            found.append(field.required(SPEC.child("mutations"), "mutations must contain at least one item"))
        scope = PolicyScope(
            params=spec.get("paramKind") is not None,
            authorizer=True,
            patches=True,
            variables=_variables(spec),
        )
        for i, mutation in enumerate(spec.get("mutations") or ()):
            found += _check_mutation(mutation, SPEC.child("mutations").index(i), scope, ctx)
        policy, path = spec.get("reinvocationPolicy", ""), SPEC.child("reinvocationPolicy")
        return found + checks.one_of(policy, path, REINVOCATION_POLICIES)


def _check_mutation(mutation: Part, path: Path, scope: PolicyScope, ctx: Context) -> list[FieldError]:
    kind = mutation.get("patchType", "")
    if kind not in _MUTATIONS:
        return checks.one_of(kind, path.child("patchType"), _PATCH_TYPES)
    part, other, result = _MUTATIONS[kind]
    found: list[FieldError] = []
    if mutation.get(part) is None:
        found.append(field.required(path.child(part), f"must be specified when patchType is {kind}"))
    else:
        expression, at = mutation[part].get("expression", "").strip(), path.child(part, "expression")
        if expression:
            found += check_expression(expression, at, scope._replace(results=(result,)), ctx)
        else:
            found.append(field.required(at))
    if mutation.get(other) is not None:
        words = f"must not be specified when patchType is {kind}"
        found.append(field.invalid(path.child(other), f"{{{other}}}", words))
    return found


def _check_param_ref(ref: ParamRef | None, path: Path) -> list[FieldError]:
    if ref is None:
        return []
    name, selector, exclusive = (
        ref.get("name", ""),
        ref.get("selector"),
        "name and selector are mutually exclusive",
    )
    found: list[FieldError] = []
    if name:
        found += checks.each(name, path.child("name"), names.path_segment(name))
        if selector is not None:
            found.append(field.forbidden(path.child("name"), exclusive))
    if selector is not None:
        found += objectmeta.validate_label_selector(selector, path.child("selector"))
        if name:
            found.append(field.forbidden(path.child("selector"), exclusive))
    if not name and selector is None:
        found.append(field.required(path, "one of name or selector must be specified"))
    action, at = ref.get("parameterNotFoundAction") or "", path.child("parameterNotFoundAction")
    return found + checks.one_of(action, at, ("Deny", "Allow"))


class _PolicyBindingStrategy(SubdomainStrategy[B]):
    unconditional_update = False

    def prepare_create(self, obj: B, ctx: Context) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_update(self, new: B, old: B, ctx: Context) -> None:
        update_generation(new, old, changed=new.get("spec") != old.get("spec"))

    def validate(self, obj: B, ctx: Context) -> Sequence[FieldError]:
        spec = obj.get("spec", {})
        policy, path = spec.get("policyName", ""), SPEC.child("policyName")
        found = checks.dns_subdomain(policy, path) if policy else [field.required(path)]
        found += _check_param_ref(spec.get("paramRef"), SPEC.child("paramRef"))
        return found + check_match(spec.get("matchResources"), SPEC.child("matchResources"))

    def validate_update(self, new: B, old: B, ctx: Context) -> Sequence[FieldError]:
        return self.validate(new, ctx)


class ValidatingAdmissionPolicyBindingStrategy(_PolicyBindingStrategy["ValidatingAdmissionPolicyBinding"]):
    def validate(self, obj: ValidatingAdmissionPolicyBinding, ctx: Context) -> Sequence[FieldError]:
        found = list(super().validate(obj, ctx))
        actions, path = obj.get("spec", {}).get("validationActions") or [], SPEC.child("validationActions")
        for i, action in enumerate(actions):
            if action not in _ACTIONS:
                found.append(field.not_supported(path.index(i), action, _ACTIONS))
            if action in actions[:i]:
                found.append(field.duplicate(path.index(i), action))
        if "Deny" in actions and "Warn" in actions:
            words = (
                "must not contain both Deny and Warn (repeating the same validation failure information in the "
                "API response and headers serves no purpose)"
            )
            found.append(field.invalid(path, actions, words))
        if not actions:
            words = "" if ctx.quirks.declares_rules else "at least one validation action is required"
            found.append(field.required(path, words))
        return found


class MutatingAdmissionPolicyBindingStrategy(_PolicyBindingStrategy["MutatingAdmissionPolicyBinding"]):
    def validate(self, obj: MutatingAdmissionPolicyBinding, ctx: Context) -> Sequence[FieldError]:
        match: MatchResources = obj.get("spec", {}).get("matchResources") or {}
        wrong = check_mutating_operations(match, SPEC.child("matchResources"))
        return [*super().validate(obj, ctx), *wrong]
