"""The structs of admissionregistration/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/admissionregistration_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import Condition, LabelSelector, ObjectMeta


class Rule(TypedDict, total=False):
    apiGroups: Sequence[str]
    apiVersions: Sequence[str]
    resources: Sequence[str]
    scope: str


class ValidatingAdmissionPolicy(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: ValidatingAdmissionPolicySpec
    status: ValidatingAdmissionPolicyStatus


class ValidatingAdmissionPolicyStatus(TypedDict, total=False):
    observedGeneration: int
    typeChecking: TypeChecking
    conditions: Sequence[Condition]


class TypeChecking(TypedDict, total=False):
    expressionWarnings: Sequence[ExpressionWarning]


class ExpressionWarning(TypedDict, total=False):
    fieldRef: Required[str]
    warning: Required[str]


class ValidatingAdmissionPolicySpec(TypedDict, total=False):
    paramKind: ParamKind
    matchConstraints: MatchResources
    validations: Sequence[Validation]
    failurePolicy: str
    auditAnnotations: Sequence[AuditAnnotation]
    matchConditions: Sequence[MatchCondition]
    variables: Sequence[Variable]


class ParamKind(TypedDict, total=False):
    apiVersion: str
    kind: str


class Validation(TypedDict, total=False):
    expression: Required[str]
    message: str
    reason: str
    messageExpression: str


class Variable(TypedDict, total=False):
    name: Required[str]
    expression: Required[str]


class AuditAnnotation(TypedDict, total=False):
    key: Required[str]
    valueExpression: Required[str]


class ValidatingAdmissionPolicyBinding(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: ValidatingAdmissionPolicyBindingSpec


class ValidatingAdmissionPolicyBindingSpec(TypedDict, total=False):
    policyName: str
    paramRef: ParamRef
    matchResources: MatchResources
    validationActions: Sequence[str]


class ParamRef(TypedDict, total=False):
    name: str
    namespace: str
    selector: LabelSelector
    parameterNotFoundAction: str


class MatchResources(TypedDict, total=False):
    namespaceSelector: LabelSelector
    objectSelector: LabelSelector
    resourceRules: Sequence[NamedRuleWithOperations]
    excludeResourceRules: Sequence[NamedRuleWithOperations]
    matchPolicy: str


class NamedRuleWithOperations(TypedDict, total=False):
    resourceNames: Sequence[str]
    operations: Sequence[str]
    apiGroups: Sequence[str]
    apiVersions: Sequence[str]
    resources: Sequence[str]
    scope: str


class ValidatingWebhookConfiguration(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    webhooks: Sequence[ValidatingWebhook]


class MutatingWebhookConfiguration(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    webhooks: Sequence[MutatingWebhook]


class ValidatingWebhook(TypedDict, total=False):
    name: Required[str]
    clientConfig: Required[WebhookClientConfig]
    rules: Sequence[RuleWithOperations]
    failurePolicy: str
    matchPolicy: str
    namespaceSelector: LabelSelector
    objectSelector: LabelSelector
    sideEffects: Required[str]
    timeoutSeconds: int
    admissionReviewVersions: Required[Sequence[str]]
    matchConditions: Sequence[MatchCondition]


class MutatingWebhook(TypedDict, total=False):
    name: Required[str]
    clientConfig: Required[WebhookClientConfig]
    rules: Sequence[RuleWithOperations]
    failurePolicy: str
    matchPolicy: str
    namespaceSelector: LabelSelector
    objectSelector: LabelSelector
    sideEffects: Required[str]
    timeoutSeconds: int
    admissionReviewVersions: Required[Sequence[str]]
    reinvocationPolicy: str
    matchConditions: Sequence[MatchCondition]


class MutatingAdmissionPolicy(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: MutatingAdmissionPolicySpec


class MutatingAdmissionPolicySpec(TypedDict, total=False):
    paramKind: ParamKind
    matchConstraints: MatchResources
    variables: Sequence[Variable]
    mutations: Sequence[Mutation]
    failurePolicy: str
    matchConditions: Sequence[MatchCondition]
    reinvocationPolicy: str


class Mutation(TypedDict, total=False):
    patchType: Required[str]
    applyConfiguration: ApplyConfiguration
    jsonPatch: JSONPatch


class ApplyConfiguration(TypedDict, total=False):
    expression: str


class JSONPatch(TypedDict, total=False):
    expression: str


class MutatingAdmissionPolicyBinding(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: MutatingAdmissionPolicyBindingSpec


class MutatingAdmissionPolicyBindingSpec(TypedDict, total=False):
    policyName: str
    paramRef: ParamRef
    matchResources: MatchResources


class RuleWithOperations(TypedDict, total=False):
    operations: Sequence[str]
    apiGroups: Sequence[str]
    apiVersions: Sequence[str]
    resources: Sequence[str]
    scope: str


class WebhookClientConfig(TypedDict, total=False):
    url: str
    service: ServiceReference
    caBundle: str


class ServiceReference(TypedDict, total=False):
    namespace: str
    name: str
    path: str
    port: int


class MatchCondition(TypedDict, total=False):
    name: Required[str]
    expression: Required[str]
