"""authorization.k8s.io: questions about what somebody may do. Nothing is stored; the answer is in the reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.golang import structs
from dray.api.scheme.kinds import Kind, Version
from dray.api.scheme.strategy import METADATA, SPEC, Context, Strategy
from dray.api.validation import field, objectmeta
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.authorization import (
        FieldSelectorAttributes,
        LabelSelectorAttributes,
        LocalSubjectAccessReview,
        SubjectAccessReview,
        SubjectAccessReviewSpec,
    )

GROUP: Final = "authorization.k8s.io"


def _check_selector(
    selector: FieldSelectorAttributes | LabelSelectorAttributes | None, path: Path
) -> list[FieldError]:
    if selector is None:
        return []
    raw, requirements = selector.get("rawSelector", ""), selector.get("requirements") or ()
    found: list[FieldError] = []
    if raw and requirements:
        words = "may not specified at the same time as requirements"
        found.append(field.invalid(path.child("rawSelector"), raw, words))
    if not raw and not requirements:
        words = f"when {path} is specified, requirements or rawSelector is required"
        found.append(field.required(path.child("requirements"), words))
    for i, requirement in enumerate(requirements):
        at = path.child("requirements").index(i)
        # Operators of newer clients are let through; authorizers treat them as no restriction.
        known = requirement.get("operator") in ("In", "NotIn", "Exists", "DoesNotExist")
        found += objectmeta.validate_selector_operator(requirement, at) if known else []
        found += objectmeta.validate_label_name(requirement.get("key", ""), at.child("key"))
    return found


def _check_attributes(spec: SubjectAccessReviewSpec) -> list[FieldError]:
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    found: list[FieldError] = []
    if resource is not None and other is not None:
        shown = structs.render("authorization/v1.NonResourceAttributes", other)
        words = "cannot be specified in combination with resourceAttributes"
        found.append(field.invalid(SPEC.child("nonResourceAttributes"), shown, words))
    if resource is None and other is None:
        words = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        found.append(field.invalid(SPEC.child("resourceAttributes"), None, words))
    return found


def _check_selectors(spec: SubjectAccessReviewSpec) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes") or {}, SPEC.child("resourceAttributes")
    found = _check_selector(resource.get("fieldSelector"), path.child("fieldSelector"))
    return found + _check_selector(resource.get("labelSelector"), path.child("labelSelector"))


def _check_empty(
    obj: LocalSubjectAccessReview | SubjectAccessReview, words: str, *, except_for: Sequence[str] = ()
) -> list[FieldError]:
    known = (
        "managedFields",
        *except_for,
    )  # nothing is given by a null or an empty string, which clients write
    given = {k: v for k, v in obj.get("metadata", {}).items() if v and k not in known}
    return [field.invalid(METADATA, obj["metadata"], words)] if given else []


class SubjectAccessReviewStrategy(Strategy["SubjectAccessReview"]):
    """What a user may do."""

    def validate(self, obj: SubjectAccessReview, ctx: Context) -> Sequence[FieldError]:
        return [*self.check_spec(obj.get("spec", {})), *_check_empty(obj, "must be empty")]

    def check_spec(self, spec: SubjectAccessReviewSpec) -> list[FieldError]:
        found = _check_attributes(spec)
        if not spec.get("user") and not spec.get("groups"):
            words = "at least one of user or group must be specified"
            found.append(field.invalid(SPEC.child("user"), "", words))
        return found + _check_selectors(spec)


class SelfSubjectAccessReviewStrategy(SubjectAccessReviewStrategy):
    """What the caller may do."""

    def check_spec(self, spec: SubjectAccessReviewSpec) -> list[FieldError]:
        return _check_attributes(spec) + _check_selectors(spec)


class LocalSubjectAccessReviewStrategy(SubjectAccessReviewStrategy):
    """What a user may do in one namespace."""

    def validate(self, obj: LocalSubjectAccessReview, ctx: Context) -> Sequence[FieldError]:
        spec = obj.get("spec", {})
        found = self.check_spec(spec)
        found += _check_empty(obj, "must be empty except for namespace", except_for=("namespace",))
        resource, namespace = spec.get("resourceAttributes"), obj.get("metadata", {}).get("namespace", "")
        if resource is not None and resource.get("namespace", "") != namespace:
            path, shown = Path("spec.resourceAttributes.namespace"), resource.get("namespace", "")
            found.append(field.invalid(path, shown, "must match metadata.namespace"))
        if (other := spec.get("nonResourceAttributes")) is not None:
            shown = structs.render("authorization/v1.NonResourceAttributes", other)
            words = "disallowed on this kind of request"
            found.append(field.invalid(Path("spec.nonResourceAttributes"), shown, words))
        return found


def _review(kind: str, rules: Strategy[Any], *, namespaced: bool = False) -> Kind:
    return Kind(
        group=GROUP,
        kind=kind,
        plural=f"{kind.lower()}s",
        namespaced=namespaced,
        versions=(Version(name="v1", type=f"authorization/v1.{kind}"),),
        storage="v1",
        strategy=rules,
        verbs=("create",),
    )


LOCAL_SUBJECT_ACCESS_REVIEW = _review(
    "LocalSubjectAccessReview", LocalSubjectAccessReviewStrategy(), namespaced=True
)
SELF_SUBJECT_ACCESS_REVIEW = _review("SelfSubjectAccessReview", SelfSubjectAccessReviewStrategy())
SELF_SUBJECT_RULES_REVIEW = _review("SelfSubjectRulesReview", Strategy())
SUBJECT_ACCESS_REVIEW = _review("SubjectAccessReview", SubjectAccessReviewStrategy())
KINDS = (
    LOCAL_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_RULES_REVIEW,
    SUBJECT_ACCESS_REVIEW,
)
