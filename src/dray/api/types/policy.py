"""The structs of policy/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/policy_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import Condition, DeleteOptions, LabelSelector, ObjectMeta


class PodDisruptionBudgetSpec(TypedDict, total=False):
    minAvailable: int | str
    selector: LabelSelector
    maxUnavailable: int | str
    unhealthyPodEvictionPolicy: str


class PodDisruptionBudgetStatus(TypedDict, total=False):
    observedGeneration: int
    disruptedPods: Mapping[str, str]
    disruptionsAllowed: int
    currentHealthy: int
    desiredHealthy: int
    expectedPods: int
    conditions: Sequence[Condition]


class PodDisruptionBudget(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: PodDisruptionBudgetSpec
    status: PodDisruptionBudgetStatus


class Eviction(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    deleteOptions: DeleteOptions
