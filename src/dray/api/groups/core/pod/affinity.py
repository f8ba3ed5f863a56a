"""Where a pod wants to be: node selectors, affinity to pods, and spreading over topologies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.groups.core.pod.options import PodValidationOptions
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path
from dray.api.validation.nodeselectors import check_node_selector, check_node_selector_term

if TYPE_CHECKING:
    from dray.api.types.core import (
        NodeAffinity,
        PodAffinity,
        PodAffinityTerm,
        PodSpec,
        PreferredSchedulingTerm,
        TopologySpreadConstraint,
        WeightedPodAffinityTerm,
    )

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION: Final = ("Honor", "Ignore")
_WITHOUT_SELECTOR: Final = "must not be specified when labelSelector is not set"
_BOTH: Final = "exists in both matchLabelKeys and labelSelector"


def check_affinity(spec: PodSpec, path: Path) -> list[FieldError]:
    affinity, at = spec.get("affinity"), path.child("affinity")
    if affinity is None:
        return []
    found: list[FieldError] = []
    if (nodes := affinity.get("nodeAffinity")) is not None:
        found += _check_node_affinity(nodes, at.child("nodeAffinity"))
    for part in ("podAffinity", "podAntiAffinity"):
        if (pods := affinity.get(part)) is not None:
            found += _check_pod_affinity(pods, at.child(part))
    return found


def _check_weight(term: PreferredSchedulingTerm | WeightedPodAffinityTerm, path: Path) -> list[FieldError]:
    weight = term.get("weight", 0)
    if 0 < weight <= 100:
        return []
    return [field.invalid(path.child("weight"), weight, "must be in the range 1-100")]


def _check_node_affinity(affinity: NodeAffinity, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    if (selector := affinity.get(_REQUIRED)) is not None:
        found += check_node_selector(selector, path.child(_REQUIRED))
    for i, term in enumerate(affinity.get(_PREFERRED) or ()):
        at = path.child(_PREFERRED).index(i)
        found += _check_weight(term, at)
        found += check_node_selector_term(term.get("preference") or {}, at.child("preference"), values=False)
    return found


def _check_pod_affinity(affinity: PodAffinity, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    for i, term in enumerate(affinity.get(_REQUIRED) or ()):
        found += _check_pod_term(term, path.child(_REQUIRED).index(i))
    for i, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        at = path.child(_PREFERRED).index(i)
        found += _check_weight(weighted, at)
        found += _check_pod_term(weighted.get("podAffinityTerm") or {}, at.child("podAffinityTerm"))
    return found


def _check_pod_term(term: PodAffinityTerm, path: Path) -> list[FieldError]:
    found = checks.label_selector(term.get("labelSelector"), path.child("labelSelector"))
    found += checks.label_selector(term.get("namespaceSelector"), path.child("namespaceSelector"))
    for name in term.get("namespaces") or ():
        found += checks.each(name, path.child("namespace"), names.dns1123_label(name))
    found += _check_keys(term, path, term.get("mismatchLabelKeys") or ())
    key = term.get("topologyKey", "")
    if not key:
        found.append(field.required(path.child("topologyKey"), "can not be empty"))
    return found + checks.qualified_name(key, path.child("topologyKey"))


def _check_keys(
    term: PodAffinityTerm | TopologySpreadConstraint, path: Path, mismatch: Sequence[str] = ()
) -> list[FieldError]:
    """Label keys whose values are taken from the pod itself."""
    selector = term.get("labelSelector")
    match = term.get("matchLabelKeys") or ()
    found: list[FieldError] = []
    for part, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            found.append(field.forbidden(path.child(part), _WITHOUT_SELECTOR))
        else:
            for i, key in enumerate(keys):
                found += checks.qualified_name(key, path.child(part).index(i))
    if selector is not None:
        seen = set(selector.get("matchLabels") or {})
        for expression in selector.get("matchExpressions") or ():
            key = expression.get("key", "")
            if key in match and key in seen:
                found.append(field.invalid(path.index(list(match).index(key)), key, _BOTH))
            seen.add(key)
    for i, key in enumerate(match):
        if key in mismatch:
            words = "exists in both matchLabelKeys and mismatchLabelKeys"
            found.append(field.invalid(path.child("matchLabelKeys").index(i), key, words))
    return found


def check_spread(spec: PodSpec, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    constraints: Sequence[TopologySpreadConstraint] = spec.get("topologySpreadConstraints") or ()
    found: list[FieldError] = []
    for i, constraint in enumerate(constraints):
        at = path.child("topologySpreadConstraints").index(i)
        found += _check_constraint(constraint, at)
        pair = (constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", ""))
        rest = {(c.get("topologyKey", ""), c.get("whenUnsatisfiable", "")) for c in constraints[i + 1 :]}
        if pair in rest:
            where = at.child("{topologyKey, whenUnsatisfiable}")
            found.append(field.duplicate(where, f"{{{pair[0]}, {pair[1]}}}"))
        found += _check_domains(constraint, at.child("minDomains"))
        for part in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if (policy := constraint.get(part)) is not None:
                found += checks.one_of(policy, at.child(part), _INCLUSION)
        if opts.on("MatchLabelKeysInPodTopologySpreadSelectorMerge"):
            found += _check_keys(constraint, at)
        else:
            found += _check_spread_keys(constraint, at.child("matchLabelKeys"))
        found += checks.label_selector(constraint.get("labelSelector"), at.child("labelSelector"))
    return found


def _check_constraint(constraint: TopologySpreadConstraint, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    if (skew := constraint.get("maxSkew", 0)) <= 0:
        found.append(field.invalid(path.child("maxSkew"), skew, "must be greater than zero"))
    if not constraint.get("topologyKey"):
        found.append(field.required(path.child("topologyKey"), "can not be empty"))
    if (action := constraint.get("whenUnsatisfiable", "")) not in _ACTIONS:
        found.append(field.not_supported(path.child("whenUnsatisfiable"), action, _ACTIONS))
    return found


def _check_domains(constraint: TopologySpreadConstraint, path: Path) -> list[FieldError]:
    domains, action = constraint.get("minDomains"), constraint.get("whenUnsatisfiable", "")
    if domains is None:
        return []
    found = [field.invalid(path, domains, "must be greater than zero")] if domains <= 0 else []
    if action != "DoNotSchedule":
        words = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        found.append(field.invalid(path, domains, words))
    return found


def _check_spread_keys(constraint: TopologySpreadConstraint, path: Path) -> list[FieldError]:
    keys, selector = constraint.get("matchLabelKeys") or (), constraint.get("labelSelector")
    if not keys:
        return []
    found: list[FieldError] = []
    if selector is None:
        found.append(field.forbidden(path, _WITHOUT_SELECTOR))
    selected = {
        *((selector or {}).get("matchLabels") or {}),
        *(e.get("key") for e in (selector or {}).get("matchExpressions") or ()),
    }
    for i, key in enumerate(keys):
        found += checks.qualified_name(key, path.index(i))
        if key in selected:
            found.append(field.invalid(path.index(i), key, _BOTH))
    return found
