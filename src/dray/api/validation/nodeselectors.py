"""What selectors of nodes may say, in pods, volumes, slices, devices and allocations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

Term = Mapping[str, Any]


def check_node_selector(selector: Term, path: Path, *, values: bool = True) -> list[FieldError]:
    """A selector; old releases did not look at the ``values`` of its expressions."""
    terms, at = selector.get("nodeSelectorTerms") or (), path.child("nodeSelectorTerms")
    if not terms:
        return [field.required(at, "must have at least one node selector term")]
    found: list[FieldError] = []
    for i, term in enumerate(terms):
        found += check_node_selector_term(term, at.index(i), values=values)
    return found


def check_node_selector_term(term: Term, path: Path, *, values: bool = True) -> list[FieldError]:
    found: list[FieldError] = []
    for i, wanted in enumerate(term.get("matchExpressions") or ()):
        found += _check_label(wanted, path.child("matchExpressions").index(i), checked=values)
    for i, wanted in enumerate(term.get("matchFields") or ()):
        found += _check_field(wanted, path.child("matchFields").index(i))
    return found


def _check_label(wanted: Term, path: Path, *, checked: bool) -> list[FieldError]:
    operator, values = wanted.get("operator", ""), wanted.get("values") or ()
    found: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not values:
            words = "must be specified when `operator` is 'In' or 'NotIn'"
            found.append(field.required(path.child("values"), words))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(field.forbidden(path.child("values"), words))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            words = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            found.append(field.required(path.child("values"), words))
    else:
        found.append(field.invalid(path.child("operator"), operator, "not a valid selector operator"))
    found += checks.qualified_name(wanted.get("key", ""), path.child("key"))
    for i, value in enumerate(values if checked else ()):
        if problems := names.label_value(value):
            found += checks.each(value, path.child("values").index(i), problems)
    return found


def _check_field(wanted: Term, path: Path) -> list[FieldError]:
    operator, values, key = wanted.get("operator", ""), wanted.get("values") or (), wanted.get("key", "")
    found: list[FieldError] = []
    if operator not in ("In", "NotIn"):
        found.append(field.invalid(path.child("operator"), operator, "not a valid selector operator"))
    elif len(values) != 1:
        words = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        found.append(field.required(path.child("values"), words))
    if key != "metadata.name":
        found.append(field.invalid(path.child("key"), key, "not a valid field selector key"))
        return found
    for i, value in enumerate(values):
        if problems := names.dns1123_subdomain(value):
            found += checks.each(value, path.child("values").index(i), problems)
    return found
