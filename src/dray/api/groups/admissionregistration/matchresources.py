"""Which requests a policy or webhook is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.scheme.kinds import Object
from dray.api.scheme.strategy import Context
from dray.api.validation import checks, field, names, objectmeta
from dray.api.validation.expressions import PolicyScope
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.admissionregistration import (
        MatchCondition,
        MatchResources,
        NamedRuleWithOperations,
        RuleWithOperations,
    )

FAILURE_POLICIES: Final = ("Fail", "Ignore")
MATCH_POLICIES: Final = ("Equivalent", "Exact")
REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")

Part = Mapping[str, Any]


def default_match(match: Object | None) -> None:
    if match is None:
        return
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    match.setdefault("matchPolicy", "Equivalent")
    for part in ("resourceRules", "excludeResourceRules"):
        default_rules(match.get(part) or ())


def default_rules(rules: Sequence[Object]) -> None:
    for rule in rules:
        rule.setdefault("scope", "*")


def check_rule(rule: NamedRuleWithOperations | RuleWithOperations, path: Path) -> list[FieldError]:
    operations, at = rule.get("operations") or [], path.child("operations")
    found = [] if operations else [field.required(at)]
    if len(operations) > 1 and "*" in operations:
        found.append(field.invalid(at, operations, "if '*' is present, must not specify other operations"))
    for i, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            found.append(field.not_supported(at.index(i), operation, _OPERATIONS))
    groups, at = rule.get("apiGroups") or [], path.child("apiGroups")
    if not groups:
        found.append(field.required(at))
    if len(groups) > 1 and "*" in groups:
        found.append(field.invalid(at, groups, "if '*' is present, must not specify other API groups"))
    versions, at = rule.get("apiVersions") or [], path.child("apiVersions")
    if not versions:
        found.append(field.required(at))
    if len(versions) > 1 and "*" in versions:
        found.append(field.invalid(at, versions, "if '*' is present, must not specify other API versions"))
    found += [field.required(at.index(i)) for i, version in enumerate(versions) if not version]
    found += _check_resources(rule.get("resources") or [], path.child("resources"))
    if (scope := rule.get("scope")) is not None and scope not in _SCOPES:
        found.append(field.not_supported(path.child("scope"), scope, _SCOPES))
    return found


def _check_resources(resources: Sequence[str], path: Path) -> list[FieldError]:
    found = [] if resources else [field.required(path)]
    any_subresource: set[str] = set()
    any_resource: set[str] = set()
    plain = False
    for i, entry in enumerate(resources):
        if not entry:
            found.append(field.required(path.index(i)))
            continue
        resource, slash, subresource = entry.partition("/")
        if not slash:
            # Only the last entry counts here, as upstream has it.
            plain = entry != "*"
            continue
        if resource in any_subresource:
            words = f"if '{resource}/*' is present, must not specify {entry}"
            found.append(field.invalid(path.index(i), entry, words))
        if subresource in any_resource:
            words = f"if '*/{subresource}' is present, must not specify {entry}"
            found.append(field.invalid(path.index(i), entry, words))
        if subresource == "*":
            any_subresource.add(resource)
        if resource == "*":
            any_resource.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        words = "if '*/*' is present, must not specify other resources"
        found.append(field.invalid(path, resources, words))
    if "*" in resources and plain:
        words = "if '*' is present, must not specify other resources without subresources"
        found.append(field.invalid(path, resources, words))
    return found


def check_match(match: MatchResources | None, path: Path) -> list[FieldError]:
    if match is None:
        return []
    found = checks.one_of(match.get("matchPolicy") or "", path.child("matchPolicy"), MATCH_POLICIES)
    for part in ("namespaceSelector", "objectSelector"):
        if match.get(part) is None:
            found.append(field.required(path.child(part)))
        else:
            found += objectmeta.validate_label_selector(match[part], path.child(part))
    for part, rules in (
        ("resourceRules", match.get("resourceRules")),
        ("excludeResourceRules", match.get("excludeResourceRules")),
    ):
        for i, rule in enumerate(rules or ()):
            at = path.child(part).index(i)
            found += _check_resource_names(rule.get("resourceNames") or (), at.child("resourceNames"))
            found += check_rule(rule, at)
    return found


def _check_resource_names(given: Sequence[str], path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    for i, name in enumerate(given):
        found += checks.each(name, path.index(i), names.path_segment(name))
        if name in given[:i]:
            found.append(field.duplicate(path.index(i), name))
    return found


def check_expression(
    expression: str, path: Path, scope: PolicyScope, ctx: Context, *, shown: str | None = None
) -> list[FieldError]:
    """The verdict of whoever compiles expressions, as an error of the field."""
    verdict = ctx.policies(expression, scope)
    if not verdict.error:
        return []
    if verdict.internal:
        return [field.internal(path, verdict.error)]
    return [field.invalid(path, expression if shown is None else shown, verdict.error)]


def check_conditions(
    conditions: Sequence[MatchCondition], path: Path, ctx: Context, *, params: bool
) -> list[FieldError]:
    found = [field.too_many(path, len(conditions), 64)] if len(conditions) > 64 else []
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        at, name, expression = (
            path.index(i),
            condition.get("name", ""),
            condition.get("expression", "").strip(),
        )
        if expression:
            scope = PolicyScope(params=params, authorizer=True)
            found += check_expression(expression, at.child("expression"), scope, ctx)
        else:
            found.append(field.required(at.child("expression")))
        found += checks.qualified_name(name, at.child("name")) if name else [field.required(at.child("name"))]
        if name and name in seen:
            found.append(field.duplicate(at.child("name"), name))
        seen.add(name)
    return found
