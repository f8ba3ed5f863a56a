"""Counters that devices of a pool share, and what each device takes from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dray.api.groups.resource import limits
from dray.api.groups.resource.validation import checks
from dray.api.groups.resource.validation.checks import Errors
from dray.api.validation import field, names
from dray.api.validation.field import Path

if TYPE_CHECKING:
    from dray.api.types.resource import CounterSet


def counter_set(value: CounterSet, path: Path, errs: Errors) -> None:
    _set_name(value.get("name", ""), path, "name", errs)
    _counters(value.get("counters"), path, errs)


def consumptions(listed: Sequence[Any], path: Path, errs: Errors) -> None:
    if not checks.within(listed, limits.COUNTER_CONSUMPTIONS, path, "consumesCounters", errs):
        return
    for i, consumption in enumerate(listed):
        here = path.child("consumesCounters").index(i)
        _set_name(consumption.get("counterSet", ""), here, "counterSet", errs)
        _counters(consumption.get("counters"), here, errs)
        groups = consumption.get("compatibilityGroups")
        if groups and checks.within(groups, limits.COMPATIBILITY_GROUPS, here, "compatibilityGroups", errs):
            for j, group in enumerate(groups):
                at = here.child("compatibilityGroups").index(j)
                found = [words.replace("63 characters", "63 bytes") for words in names.dns1123_label(group)]
                checks.refuse(errs, at, group, found)
            checks.unique(groups, here, "compatibilityGroups", errs)
    checks.unique((c.get("counterSet", "") for c in listed), path, "consumesCounters", errs)


def _set_name(name: str, path: Path, child: str, errs: Errors) -> None:
    if name:
        checks.label(name, path, child, errs)
    else:
        errs.append(field.required(path.child(child)))


def _counters(counters: Mapping[str, Any] | None, path: Path, errs: Errors) -> None:
    here = path.child("counters")
    if not counters:
        errs.append(field.required(here))
    elif len(counters) > limits.COUNTERS_PER_SET:
        errs.append(field.too_many(here, len(counters), limits.COUNTERS_PER_SET))
    else:
        for name in counters:
            checks.label(name, here, "", errs)
