"""Binding: how a scheduler gives a pod its node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dray.api import errors
from dray.api.groups.core.pod.options import Part
from dray.api.scheme.kinds import Object
from dray.api.scheme.strategy import Context
from dray.api.validation import checks, field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import Binding, Pod, PodCondition

_TARGET = Path("target")


def check_binding(binding: Binding) -> list[FieldError]:
    target = binding.get("target") or {}
    kind, name = target.get("kind", ""), target.get("name", "")
    found = checks.one_of(kind, _TARGET.child("kind"), ("Node", "<empty>"), needed=False)
    return found if name else [*found, field.required(_TARGET.child("name"))]


def bind(pod: Pod, binding: Part, ctx: Context) -> Object:
    """The pod on its node; Conflict if it cannot go there (any more)."""
    meta, spec = pod["metadata"], pod["spec"]
    name = meta["name"]
    problem = ""
    if meta.get("deletionTimestamp"):
        problem = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        problem = f"pod {name} is already assigned to node {field.quote(spec['nodeName'])}"
    elif spec.get("schedulingGates"):
        problem = f"pod {name} has non-empty .spec.schedulingGates"
    if problem:
        raise errors.conflict("pods/binding", "", name, problem)
    given = binding.get("metadata") or {}
    meta = meta.copy()
    if annotations := given.get("annotations"):
        meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
    if "PodTopologyLabelsAdmission" in ctx.gates and (labels := given.get("labels")):
        meta["labels"] = {**(meta.get("labels") or {}), **labels}
    status = (pod.get("status") or {}).copy()
    if "ClearingNominatedNodeNameAfterBinding" in ctx.gates:
        status.pop("nominatedNodeName", None)
    status["conditions"] = set_condition(
        status.get("conditions") or (), {"type": "PodScheduled", "status": "True"}, now=ctx.now
    )
    return {
        **pod,
        "metadata": meta,
        "spec": {**spec, "nodeName": binding["target"]["name"]},
        "status": status,
    }


def set_condition(
    conditions: Sequence[PodCondition], condition: PodCondition, *, now: str
) -> list[PodCondition]:
    """Conditions with one of them set; its transition time changes only with its status."""
    before = next((c for c in conditions if c["type"] == condition["type"]), None)
    changed = before is None or before["status"] != condition["status"]
    stamp = now if before is None or changed else before.get("lastTransitionTime")
    new: Any = {
        "type": condition["type"],
        "status": condition["status"],
        "lastProbeTime": None,
        "lastTransitionTime": stamp,
        **{key: value for key, value in condition.items() if key not in ("type", "status")},
    }
    if before is None:
        return [*conditions, new]
    return [new if c is before else c for c in conditions]
