"""The structs of flowcontrol/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/flowcontrol_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta


class FlowSchema(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: FlowSchemaSpec
    status: FlowSchemaStatus


class FlowSchemaSpec(TypedDict, total=False):
    priorityLevelConfiguration: PriorityLevelConfigurationReference
    matchingPrecedence: int
    distinguisherMethod: FlowDistinguisherMethod
    rules: Sequence[PolicyRulesWithSubjects]


class FlowDistinguisherMethod(TypedDict, total=False):
    type: str


class PriorityLevelConfigurationReference(TypedDict, total=False):
    name: str


class PolicyRulesWithSubjects(TypedDict, total=False):
    subjects: Required[Sequence[Subject]]
    resourceRules: Sequence[ResourcePolicyRule]
    nonResourceRules: Sequence[NonResourcePolicyRule]


class Subject(TypedDict, total=False):
    kind: Required[str]
    user: UserSubject
    group: GroupSubject
    serviceAccount: ServiceAccountSubject


class UserSubject(TypedDict, total=False):
    name: str


class GroupSubject(TypedDict, total=False):
    name: str


class ServiceAccountSubject(TypedDict, total=False):
    namespace: str
    name: str


class ResourcePolicyRule(TypedDict, total=False):
    verbs: Required[Sequence[str]]
    apiGroups: Required[Sequence[str]]
    resources: Required[Sequence[str]]
    clusterScope: bool
    namespaces: Sequence[str]


class NonResourcePolicyRule(TypedDict, total=False):
    verbs: Required[Sequence[str]]
    nonResourceURLs: Required[Sequence[str]]


class FlowSchemaStatus(TypedDict, total=False):
    conditions: Sequence[FlowSchemaCondition]


class FlowSchemaCondition(TypedDict, total=False):
    type: str
    status: str
    lastTransitionTime: str
    reason: str
    message: str


class PriorityLevelConfiguration(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: PriorityLevelConfigurationSpec
    status: PriorityLevelConfigurationStatus


class PriorityLevelConfigurationSpec(TypedDict, total=False):
    type: str
    limited: LimitedPriorityLevelConfiguration
    exempt: ExemptPriorityLevelConfiguration


class LimitedPriorityLevelConfiguration(TypedDict, total=False):
    nominalConcurrencyShares: int
    limitResponse: LimitResponse
    lendablePercent: int
    borrowingLimitPercent: int


class ExemptPriorityLevelConfiguration(TypedDict, total=False):
    nominalConcurrencyShares: int
    lendablePercent: int


class LimitResponse(TypedDict, total=False):
    type: str
    queuing: QueuingConfiguration


class QueuingConfiguration(TypedDict, total=False):
    queues: int
    handSize: int
    queueLengthLimit: int


class PriorityLevelConfigurationStatus(TypedDict, total=False):
    conditions: Sequence[PriorityLevelConfigurationCondition]


class PriorityLevelConfigurationCondition(TypedDict, total=False):
    type: str
    status: str
    lastTransitionTime: str
    reason: str
    message: str
