"""A Job's ``spec.scheduling``: how its pods are grouped, and what is asked of that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dray.api.groups.scheduling import rules
from dray.api.release import Gates
from dray.api.scheme.strategy import SPEC
from dray.api.validation import declarative, field
from dray.api.validation.field import FieldError

if TYPE_CHECKING:
    from dray.api.types.batch import JobSpec


def check_scheduling(spec: JobSpec, old: JobSpec | None, gates: Gates) -> Iterator[FieldError]:
    """``old`` is None for a new Job. Whether a Job is scheduled as a group is decided when it is created."""
    scheduling, before, path = spec.get("scheduling"), (old or {}).get("scheduling"), SPEC.child("scheduling")
    if old is not None and (scheduling is None) != (before is None):
        words = "cleared once set" if scheduling is None else "set once created"
        yield field.invalid(path, None, f"field cannot be {words}")
        return
    if scheduling is None:
        return
    gang = (scheduling.get("schedulingPolicy") or {}).get("gang") or {}
    least, parallel = gang.get("minCount"), spec.get("parallelism", 1)
    if least is not None and least > parallel:
        at = path.child("schedulingPolicy", "gang", "minCount")
        yield field.invalid(at, least, f"must not be greater than parallelism ({parallel})")
    yield from declarative.check(rules.JOB, scheduling, before, path, gates)
