"""Workload: templates of the groups of pods that one controller makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.scheduling import rules
from dray.api.groups.scheduling.disabledfields import drop_from_workload
from dray.api.scheme.strategy import SPEC, Context, SubdomainStrategy
from dray.api.validation import declarative, field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.scheduling_v1beta1 import Workload, WorkloadSpec

MOST_LEVELS: Final = 4  # of templates, the pod groups at the bottom among them


class WorkloadStrategy(SubdomainStrategy["Workload"]):
    has_declared_rules = True
    unconditional_update = False

    def prepare_create(self, obj: Workload, ctx: Context) -> None:
        drop_from_workload(obj["spec"], {}, ctx.gates)

    def prepare_update(self, new: Workload, old: Workload, ctx: Context) -> None:
        drop_from_workload(new["spec"], old["spec"], ctx.gates)

    def validate(self, obj: Workload, ctx: Context) -> Sequence[FieldError]:
        return [
            *_check_tree(obj["spec"]),
            *declarative.check(rules.WORKLOAD, obj["spec"], None, SPEC, ctx.gates),
        ]

    def validate_update(self, new: Workload, old: Workload, ctx: Context) -> Sequence[FieldError]:
        found = declarative.check(rules.WORKLOAD, new["spec"], old["spec"], SPEC, ctx.gates)
        return [*_check_tree(new["spec"]), *found]


def _check_tree(spec: WorkloadSpec) -> Iterator[FieldError]:
    """The rules for the templates as a whole: names, depth, one priority, no composite without children."""
    names = {template.get("name", "") for template in spec.get("podGroupTemplates") or ()}
    yield from _check_names(spec, SPEC, names)
    composites = spec.get("compositePodGroupTemplates") or ()
    at = SPEC.child("compositePodGroupTemplates")
    for i, template in enumerate(composites):
        if _levels(template) >= MOST_LEVELS:
            words = f"maximum template hierarchy depth is {MOST_LEVELS}"
            yield field.invalid(at.index(i), template.get("compositePodGroupTemplates"), words)
    yield from _check_priorities(spec)
    for i, template in enumerate(composites):
        yield from _check_children(template, at.index(i))


def _check_names(parent: Any, path: Path, names: set[str]) -> Iterator[FieldError]:
    """Names are unique over the whole tree; those of one list among themselves are the declared rules' affair."""
    composites = parent.get("compositePodGroupTemplates") or ()
    for i, template in enumerate(composites):
        if template.get("name", "") in names:
            yield field.duplicate(
                path.child("compositePodGroupTemplates").index(i).child("name"), template["name"]
            )
    names |= {template.get("name", "") for template in composites}
    for i, template in enumerate(composites):
        at = path.child("compositePodGroupTemplates").index(i)
        leaves = template.get("podGroupTemplates") or ()
        for j, leaf in enumerate(leaves):
            if leaf.get("name", "") in names:
                yield field.duplicate(at.child("podGroupTemplates").index(j).child("name"), leaf["name"])
        names |= {leaf.get("name", "") for leaf in leaves}
        yield from _check_names(template, at, names)


def _levels(template: Any) -> int:
    below = template.get("compositePodGroupTemplates") or ()
    return 1 + max(map(_levels, below), default=0)


def _check_priorities(spec: WorkloadSpec) -> Iterator[FieldError]:
    leaves = {_priority(template) for template in spec.get("podGroupTemplates") or ()}
    if len(leaves) > 1:
        yield field.invalid(SPEC, None, "detected multiple priority configurations")
        return
    if len(leaves | set(_priorities(spec.get("compositePodGroupTemplates") or ()))) > 1:
        words = "all priority and priorityClassName values must be identical, detected multiple values"
        yield field.invalid(SPEC, None, words)


def _priority(template: Any) -> tuple[str, int | None]:
    return template.get("priorityClassName", ""), template.get("priority")


def _priorities(composites: Sequence[Any]) -> Iterator[tuple[str, int | None]]:
    for template in composites:
        yield _priority(template)
        yield from map(_priority, template.get("podGroupTemplates") or ())
        yield from _priorities(template.get("compositePodGroupTemplates") or ())


def _check_children(template: Any, path: Path) -> Iterator[FieldError]:
    below = template.get("compositePodGroupTemplates") or ()
    if not below and not template.get("podGroupTemplates"):
        words = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
        yield field.invalid(path, template.get("name", ""), words)
    for i, child in enumerate(below):
        yield from _check_children(child, path.child("compositePodGroupTemplates").index(i))
