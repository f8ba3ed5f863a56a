"""Privilege escalation: nobody may write a role or a binding that grants permissions they do not have.

The check runs as the last of the mutating admission plugins, on the object as it will be, before its own rules look at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api import errors
from dray.api.errors import NotFound
from dray.api.groups.rbac import GROUP
from dray.server import admission
from dray.server.auth.authorizer import Attributes, AuthorizerFunc
from dray.server.auth.rbac.resolver import RuleResolver
from dray.server.auth.rbac.rules import PolicyRule, uncovered
from dray.server.auth.user import MASTERS

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.rbac import ClusterRole, RoleBinding

_ROLES: Final = frozenset({"roles", "clusterroles"})
_BINDINGS: Final = frozenset({"rolebindings", "clusterrolebindings"})
_EVERYTHING: Final = (PolicyRule(("*",), ("*",), ("*",)), PolicyRule(("*",), urls=("*",)))
#: What the garbage collector may change of any object.
_UPKEEP: Final = frozenset({"ownerReferences", "finalizers", "managedFields", "resourceVersion"})


class EscalationCheck:
    """Refuses roles with permissions that their writer lacks, and bindings to such roles."""

    name = "RBACNoEscalation"

    def __init__(self, resolver: RuleResolver, authorize: AuthorizerFunc) -> None:
        self._resolver = resolver
        self._authorize = authorize

    def handles(self, scope: admission.RequestScope) -> bool:
        return scope.group == GROUP and scope.operation in (admission.CREATE, admission.UPDATE)

    async def admit(self, attributes: admission.Attributes) -> None:
        if MASTERS in attributes.user.groups:
            return
        new, old = attributes.object, attributes.old
        if old is not None and _only_upkeep(new, old):
            return
        if attributes.resource in _ROLES:
            self._check_role(attributes, new, old)
        elif attributes.resource in _BINDINGS:
            self._check_binding(attributes, new)

    def _allowed(self, a: admission.Attributes, verb: str, resource: str, name: str) -> bool:
        asked = Attributes(a.user, verb, GROUP, "*", resource, namespace=a.namespace, name=name)
        return self._authorize(asked).allowed

    def _check_role(self, a: admission.Attributes, new: ClusterRole, old: ClusterRole | None) -> None:
        # The name as the URL has it: a new object has none there.
        if self._allowed(a, "escalate", a.resource, a.name if old is not None else ""):
            return
        self._confirm(a, [PolicyRule.of(rule) for rule in new.get("rules") or ()])
        if _gathers(new) or (old is not None and _gathers(old)):
            owned, _ = self._resolver.all_rules(a.user, a.namespace)
            if uncovered(owned, _EVERYTHING):
                words = "must have cluster-admin privileges to use the aggregationRule"
                raise errors.forbidden(a.resource, GROUP, _name(new), words)

    def _check_binding(self, a: admission.Attributes, new: RoleBinding) -> None:
        ref = new.get("roleRef") or {}
        kind, name = ref.get("kind", ""), ref.get("name", "")
        plural = {"Role": "roles", "ClusterRole": "clusterroles"}.get(kind)
        if plural is None:
            return  # the object's own rules will say so
        if self._allowed(a, "bind", plural, name):
            return
        try:
            rules = self._resolver.rules(kind, name, a.namespace)
        except NotFound:
            # Upstream looks the role up in the name of the binding.
            raise errors.not_found(a.resource, GROUP, name) from None
        self._confirm(a, rules)

    def _confirm(self, a: admission.Attributes, wanted: Iterable[PolicyRule]) -> None:
        owned, problems = self._resolver.all_rules(a.user, a.namespace)
        missing = uncovered(owned, wanted)
        if not missing:
            return
        groups = " ".join(f'"{group}"' for group in a.user.groups)
        listed = "\n".join(sorted({str(rule) for rule in compact_rules(missing)}))
        words = (
            f'user "{a.user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions '
            f"not currently held:\n{listed}"
        )
        if problems:
            shown = problems[0] if len(problems) == 1 else f"[{', '.join(dict.fromkeys(problems))}]"
            words += f"; resolution errors: [{shown}]"
        raise errors.forbidden(a.resource, GROUP, _name(a.object), words)


def compact_rules(rules: Sequence[PolicyRule]) -> list[PolicyRule]:
    """Rules about the same thing as one rule with all their verbs."""
    verbs: dict[tuple[Any, ...], list[str]] = {}
    rest = []
    for rule in rules:
        if rule.urls:
            rest.append(rule)
            continue
        found = verbs.setdefault((rule.groups, rule.resources, rule.names), [])
        found += [verb for verb in rule.verbs if verb not in found]
    return [*rest, *(PolicyRule(tuple(found), *thing) for thing, found in verbs.items())]


def _name(obj: Object) -> str:
    return (obj.get("metadata") or {}).get("name") or ""


def _gathers(role: ClusterRole) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _only_upkeep(new: Object, old: Object) -> bool:
    def rest(obj: Object) -> dict[str, object]:
        return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k not in _UPKEEP}}

    return rest(new) == rest(old)
