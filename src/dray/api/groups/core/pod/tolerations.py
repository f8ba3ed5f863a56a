"""Tolerations: which taints a pod can live with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.groups.core.node import TAINT_EFFECTS
from dray.api.groups.core.pod.options import PodValidationOptions
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import Toleration

_OPERATORS: Final = ("Equal", "Exists")
_COMPARISONS: Final = ("Lt", "Gt")
_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)").fullmatch


def check_tolerations(
    tolerations: Sequence[Toleration], path: Path, opts: PodValidationOptions
) -> list[FieldError]:
    return [p for i, toleration in enumerate(tolerations) for p in _check(toleration, path.index(i), opts)]


def _check(toleration: Toleration, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    found: list[FieldError] = []
    if key:
        found += checks.qualified_name(key, path.child("key"))
    elif operator != "Exists":
        words = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        found.append(field.invalid(path.child("operator"), operator, words))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        words = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        found.append(field.invalid(path.child("effect"), effect, words))
    found += _check_operator(operator, value, path, opts)
    if effect and effect not in TAINT_EFFECTS:
        found.append(field.not_supported(path.child("effect"), effect, TAINT_EFFECTS))
    return found


def _check_operator(operator: str, value: str, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    at = path.child("operator")
    if operator in ("Equal", ""):
        messages = names.label_value(value)
        return [field.invalid(at, value, ";".join(messages))] if messages else []
    if operator == "Exists":
        return [field.invalid(at, value, "value must be empty when `operator` is 'Exists'")] if value else []
    if operator not in _COMPARISONS:
        return [field.not_supported(at, operator, _OPERATORS)]
    if not opts.on("TaintTolerationComparisonOperators"):
        return [field.not_supported(at, operator, (*_OPERATORS, *_COMPARISONS))]
    found: list[FieldError] = []
    if not _NUMBER(value):
        words = "must be a valid decimal integer in canonical form"
        found.append(field.invalid(path.child("value"), value, words))
    elif not -(1 << 63) <= int(value) < 1 << 63:
        words = f'strconv.ParseInt: parsing "{value}": value out of range'
        found.append(field.invalid(path.child("value"), value, words))
    return found


def check_only_added(
    new: Sequence[Toleration], old: Sequence[Toleration], path: Path, opts: PodValidationOptions
) -> list[FieldError]:
    """Tolerations may be added to a running pod; of those it has only the seconds may change."""

    def rest(toleration: Toleration) -> Toleration:
        found = toleration.copy()
        found.pop("tolerationSeconds", None)
        return found

    kept = [rest(toleration) for toleration in new]
    if any(rest(toleration) not in kept for toleration in old):
        words = "existing toleration can not be modified except its tolerationSeconds"
        return [field.forbidden(path, words)]
    return check_tolerations(new, path, opts)
