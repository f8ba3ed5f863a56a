"""The structs of batch/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/batch_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.core import ObjectReference, PodTemplateSpec
    from dray.api.types.meta import LabelSelector, ObjectMeta
    from dray.api.types.scheduling_v1alpha3 import (
        WorkloadPodGroupDisruptionMode,
        WorkloadPodGroupResourceClaim,
        WorkloadPodGroupSchedulingConstraints,
        WorkloadPodGroupSchedulingPolicy,
    )


class Job(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: JobSpec
    status: JobStatus


class PodFailurePolicyOnExitCodesRequirement(TypedDict, total=False):
    containerName: str
    operator: str
    values: Sequence[int]


class PodFailurePolicyOnPodConditionsPattern(TypedDict, total=False):
    type: Required[str]
    status: str


class PodFailurePolicyRule(TypedDict, total=False):
    action: Required[str]
    onExitCodes: PodFailurePolicyOnExitCodesRequirement
    onPodConditions: Sequence[PodFailurePolicyOnPodConditionsPattern]


class PodFailurePolicy(TypedDict, total=False):
    rules: Sequence[PodFailurePolicyRule]


class SuccessPolicy(TypedDict, total=False):
    rules: Sequence[SuccessPolicyRule]


class SuccessPolicyRule(TypedDict, total=False):
    succeededIndexes: str
    succeededCount: int


class JobSpec(TypedDict, total=False):
    parallelism: int
    completions: int
    activeDeadlineSeconds: int
    podFailurePolicy: PodFailurePolicy
    successPolicy: SuccessPolicy
    backoffLimit: int
    backoffLimitPerIndex: int
    maxFailedIndexes: int
    selector: LabelSelector
    manualSelector: bool
    template: PodTemplateSpec
    ttlSecondsAfterFinished: int
    completionMode: str
    suspend: bool
    podReplacementPolicy: str
    managedBy: str
    scheduling: JobSchedulingConfiguration


class JobSchedulingConfiguration(TypedDict, total=False):
    schedulingPolicy: WorkloadPodGroupSchedulingPolicy
    schedulingConstraints: WorkloadPodGroupSchedulingConstraints
    disruptionMode: WorkloadPodGroupDisruptionMode
    resourceClaims: Sequence[WorkloadPodGroupResourceClaim]


class JobStatus(TypedDict, total=False):
    conditions: Sequence[JobCondition]
    startTime: str
    completionTime: str
    active: int
    succeeded: int
    failed: int
    terminating: int
    completedIndexes: str
    failedIndexes: str
    uncountedTerminatedPods: UncountedTerminatedPods
    ready: int


class UncountedTerminatedPods(TypedDict, total=False):
    succeeded: Sequence[str]
    failed: Sequence[str]


class JobCondition(TypedDict, total=False):
    type: Required[str]
    status: Required[str]
    lastProbeTime: str
    lastTransitionTime: str
    reason: str
    message: str


class JobTemplateSpec(TypedDict, total=False):
    metadata: ObjectMeta
    spec: JobSpec


class CronJob(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: CronJobSpec
    status: CronJobStatus


class CronJobSpec(TypedDict, total=False):
    schedule: str
    timeZone: str
    startingDeadlineSeconds: int
    concurrencyPolicy: str
    suspend: bool
    jobTemplate: JobTemplateSpec
    successfulJobsHistoryLimit: int
    failedJobsHistoryLimit: int


class CronJobStatus(TypedDict, total=False):
    active: Sequence[ObjectReference]
    lastScheduleTime: str
    lastSuccessfulTime: str
