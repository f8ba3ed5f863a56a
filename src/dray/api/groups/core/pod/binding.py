"""Binding: how a scheduler gives a pod its node."""

from __future__ import annotations

from typing import Any

from dray.api import errors
from dray.api.groups.core.pod.options import Part
from dray.api.scheme.kinds import Context, Object
from dray.api.validation import checks, field
from dray.api.validation.field import FieldError, Path

_TARGET = Path("target")


def check_binding(binding: Part) -> list[FieldError]:
    target = binding.get("target") or {}
    kind, name = target.get("kind", ""), target.get("name", "")
    found = checks.one_of(kind, _TARGET.child("kind"), ("Node", "<empty>"), needed=False)
    return found if name else [*found, field.required(_TARGET.child("name"))]


def bind(pod: Object, binding: Part, ctx: Context) -> Object:
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
    merged = {"annotations": given.get("annotations") or {}}
    if "PodTopologyLabelsAdmission" in ctx.gates:
        merged["labels"] = given.get("labels") or {}
    meta = {**meta, **{part: {**(meta.get(part) or {}), **more} for part, more in merged.items() if more}}
    status = dict(pod.get("status") or {})
    if "ClearingNominatedNodeNameAfterBinding" in ctx.gates:
        status.pop("nominatedNodeName", None)
    status["conditions"] = set_condition(
        status.get("conditions") or [], {"type": "PodScheduled", "status": "True"}, now=ctx.now
    )
    return {
        **pod,
        "metadata": meta,
        "spec": {**spec, "nodeName": binding["target"]["name"]},
        "status": status,
    }


def set_condition(conditions: list[Any], condition: Part, *, now: str) -> list[Any]:
    """Conditions with one of them set; its transition time changes only with its status."""
    before = next((c for c in conditions if c["type"] == condition["type"]), None)
    changed = before is None or before["status"] != condition["status"]
    stamp = now if before is None or changed else before.get("lastTransitionTime")
    new = {
        "type": condition["type"],
        "status": condition["status"],
        "lastProbeTime": None,
        "lastTransitionTime": stamp,
        **{key: value for key, value in condition.items() if key not in ("type", "status")},
    }
    if before is None:
        return [*conditions, new]
    return [new if c is before else c for c in conditions]
