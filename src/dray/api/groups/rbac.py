"""rbac.authorization.k8s.io: roles, and who has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.golang import structs
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Object, Version
from dray.api.scheme.strategy import Context, Strategy, T, name_is_path_segment
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.rbac import ClusterRole, PolicyRule, RoleBinding, Subject

GROUP: Final = "rbac.authorization.k8s.io"
_SUBJECT_KINDS: Final = ("ServiceAccount", "User", "Group")
_ROLE_REF: Final = Path("roleRef")
_SELECTORS: Final = Path("aggregationRule").child("clusterRoleSelectors")


class _RbacStrategy(Strategy[T]):
    check_name = staticmethod(name_is_path_segment)
    create_on_update = True
    namespaced = True

    def validate_update(self, new: T, old: T, ctx: Context) -> Sequence[FieldError]:
        return self.validate(new, ctx)


def check_rule(rule: PolicyRule, path: Path, *, namespaced: bool) -> list[FieldError]:
    found: list[FieldError] = []
    if not rule.get("verbs"):
        found.append(field.required(path.child("verbs"), "verbs must contain at least one value"))
    if urls := rule.get("nonResourceURLs"):
        at = path.child("nonResourceURLs")
        if namespaced:
            found.append(field.invalid(at, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            words = "rules cannot apply to both regular resources and non-resource URLs"
            found.append(field.invalid(at, urls, words))
        return found
    if not rule.get("apiGroups"):
        words = "resource rules must supply at least one api group"
        found.append(field.required(path.child("apiGroups"), words))
    if not rule.get("resources"):
        words = "resource rules must supply at least one resource"
        found.append(field.required(path.child("resources"), words))
    return found


class RoleStrategy(_RbacStrategy["ClusterRole"]):
    def validate(self, obj: ClusterRole, ctx: Context) -> Sequence[FieldError]:
        return [
            problem
            for i, rule in enumerate(obj.get("rules") or ())
            for problem in check_rule(rule, Path("rules").index(i), namespaced=self.namespaced)
        ]


class ClusterRoleStrategy(RoleStrategy):
    namespaced = False

    def validate(self, obj: ClusterRole, ctx: Context) -> Sequence[FieldError]:
        found = list(super().validate(obj, ctx))
        aggregation = obj.get("aggregationRule")
        if aggregation is None:
            return found
        selectors = aggregation.get("clusterRoleSelectors") or ()
        if not selectors:
            words = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            found.append(field.required(_SELECTORS, words))
        for i, selector in enumerate(selectors):
            found += checks.label_selector(selector, _SELECTORS.index(i))
        return found


def _default_binding(obj: Object) -> None:
    ref = obj.setdefault("roleRef", {})
    if not ref.get("apiGroup"):
        ref["apiGroup"] = GROUP
    for subject in obj.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = GROUP


def _check_subject(subject: Subject, path: Path, *, namespaced: bool) -> list[FieldError]:
    kind, name, group = subject.get("kind", ""), subject.get("name", ""), subject.get("apiGroup", "")
    found = [] if name else [field.required(path.child("name"))]
    if kind == "ServiceAccount":
        if name:
            found += checks.each(name, path.child("name"), names.dns1123_subdomain(name))
        if group:
            found.append(field.not_supported(path.child("apiGroup"), group, ("",)))
        if not namespaced and not subject.get("namespace"):
            found.append(field.required(path.child("namespace")))
    elif kind in ("User", "Group"):
        if group != GROUP:
            found.append(field.not_supported(path.child("apiGroup"), group, (GROUP,)))
    else:
        found.append(field.not_supported(path.child("kind"), kind, _SUBJECT_KINDS))
    return found


class RoleBindingStrategy(_RbacStrategy["RoleBinding"]):
    role_kinds: tuple[str, ...] = ("Role", "ClusterRole")

    def validate(self, obj: RoleBinding, ctx: Context) -> Sequence[FieldError]:
        ref = obj.get("roleRef") or {}
        found: list[FieldError] = []
        if (group := ref.get("apiGroup", "")) != GROUP:
            found.append(field.not_supported(_ROLE_REF.child("apiGroup"), group, (GROUP,)))
        if (kind := ref.get("kind", "")) not in self.role_kinds:
            found.append(field.not_supported(_ROLE_REF.child("kind"), kind, self.role_kinds))
        name, at = ref.get("name", ""), _ROLE_REF.child("name")
        found += checks.each(name, at, names.path_segment(name)) if name else [field.required(at)]
        for i, subject in enumerate(obj.get("subjects") or ()):
            found += _check_subject(subject, Path("subjects").index(i), namespaced=self.namespaced)
        return found

    def validate_update(self, new: RoleBinding, old: RoleBinding, ctx: Context) -> Sequence[FieldError]:
        found = list(self.validate(new, ctx))
        if new.get("roleRef") != old.get("roleRef"):
            shown = structs.render("rbac/v1.RoleRef", new.get("roleRef"))
            found.append(field.invalid(_ROLE_REF, shown, "cannot change roleRef"))
        return found


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    namespaced = False
    role_kinds = ("ClusterRole",)


def _cells(obj: RoleBinding, now: float) -> Sequence[object]:
    ref, subjects = obj.get("roleRef") or {}, obj.get("subjects") or ()
    users, groups = (
        ", ".join(s.get("name", "") for s in subjects if s.get("kind") == kind) for kind in ("User", "Group")
    )
    accounts = [
        f"{s.get('namespace', '')}/{s.get('name', '')}" for s in subjects if s.get("kind") == "ServiceAccount"
    ]
    role = f"{ref.get('kind', '')}/{ref.get('name', '')}"
    return printers.name(obj), role, printers.age(obj, now), users, groups, ", ".join(accounts)


_BINDING_PRINTER: Final = printers.printer(
    (
        printers.NAME,
        Column("Role", description="The role that is given."),
        printers.AGE,
        Column("Users", priority=1, description="The users who have it."),
        Column("Groups", priority=1, description="The groups that have it."),
        Column("ServiceAccounts", priority=1, description="The service accounts that have it."),
    ),
    _cells,
)

CLUSTER_ROLE_BINDING = Kind(
    group=GROUP,
    kind="ClusterRoleBinding",
    plural="clusterrolebindings",
    namespaced=False,
    versions=(Version(name="v1", type="rbac/v1.ClusterRoleBinding", default=_default_binding),),
    storage="v1",
    strategy=ClusterRoleBindingStrategy(),
    printer=_BINDING_PRINTER,
)
CLUSTER_ROLE = Kind(
    group=GROUP,
    kind="ClusterRole",
    plural="clusterroles",
    namespaced=False,
    versions=(Version(name="v1", type="rbac/v1.ClusterRole"),),
    storage="v1",
    strategy=ClusterRoleStrategy(),
    printer=printers.DEFAULT_PRINTER,
)
ROLE_BINDING = Kind(
    group=GROUP,
    kind="RoleBinding",
    plural="rolebindings",
    versions=(Version(name="v1", type="rbac/v1.RoleBinding", default=_default_binding),),
    storage="v1",
    strategy=RoleBindingStrategy(),
    printer=_BINDING_PRINTER,
)
ROLE = Kind(
    group=GROUP,
    kind="Role",
    plural="roles",
    versions=(Version(name="v1", type="rbac/v1.Role"),),
    storage="v1",
    strategy=RoleStrategy(),
    printer=printers.DEFAULT_PRINTER,
)
KINDS = (CLUSTER_ROLE_BINDING, CLUSTER_ROLE, ROLE_BINDING, ROLE)
