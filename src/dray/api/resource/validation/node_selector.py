"""Node selectors of slices, devices and allocations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dray.api import field
from dray.api.field import Path
from dray.api.resource.validation import checks
from dray.api.resource.validation.checks import Errors


def node_selector(selector: Mapping[str, Any], path: Path, errs: Errors, *, values: bool = True) -> None:
    """A selector; old releases did not look at the ``values`` of its expressions."""
    terms = selector.get("nodeSelectorTerms")
    here = path.child("nodeSelectorTerms")
    if not terms:
        errs.append(field.required(here, "must have at least one node selector term"))
        return
    for i, term in enumerate(terms):
        for j, requirement in enumerate(term.get("matchExpressions") or ()):
            _expression(requirement, here.index(i).child("matchExpressions").index(j), errs, checked=values)
        for j, requirement in enumerate(term.get("matchFields") or ()):
            _field(requirement, here.index(i).child("matchFields").index(j), errs)


def _expression(requirement: Mapping[str, Any], path: Path, errs: Errors, *, checked: bool) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            problem = "must be specified when `operator` is 'In' or 'NotIn'"
            errs.append(field.required(path.child("values"), problem))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            problem = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errs.append(field.forbidden(path.child("values"), problem))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            problem = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errs.append(field.required(path.child("values"), problem))
    else:
        errs.append(field.invalid(path.child("operator"), operator, "not a valid selector operator"))
    checks.label_key(requirement.get("key", ""), path.child("key"), errs)
    for i, value in enumerate(values if checked else ()):
        checks.label_value(value, path.child("values").index(i), errs)


def _field(requirement: Mapping[str, Any], path: Path, errs: Errors) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        if len(values) != 1:
            problem = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            errs.append(field.required(path.child("values"), problem))
    else:
        errs.append(field.invalid(path.child("operator"), operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    if key == "metadata.name":
        for i, value in enumerate(values):
            checks.node_name(value, path.child("values").index(i), errs)
    else:
        errs.append(field.invalid(path.child("key"), key, "not a valid field selector key"))
