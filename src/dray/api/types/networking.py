"""The structs of networking/v1 as types of documents.

Written by ``make types`` from ``api/schema/types/networking_v1.types``; not to be edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Required, TypedDict

if TYPE_CHECKING:
    from dray.api.types.core import TypedLocalObjectReference
    from dray.api.types.meta import Condition, LabelSelector, ObjectMeta


class NetworkPolicy(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: NetworkPolicySpec
    status: NetworkPolicyStatus


class NetworkPolicySpec(TypedDict, total=False):
    podSelector: LabelSelector
    ingress: Sequence[NetworkPolicyIngressRule]
    egress: Sequence[NetworkPolicyEgressRule]
    policyTypes: Sequence[str]


NetworkPolicyIngressRule = TypedDict(
    "NetworkPolicyIngressRule",
    {
        "ports": "Sequence[NetworkPolicyPort]",
        "from": "Sequence[NetworkPolicyPeer]",
    },
    total=False,
)


class NetworkPolicyEgressRule(TypedDict, total=False):
    ports: Sequence[NetworkPolicyPort]
    to: Sequence[NetworkPolicyPeer]


class NetworkPolicyPort(TypedDict, total=False):
    protocol: str
    port: int | str
    endPort: int


IPBlock = TypedDict(
    "IPBlock",
    {
        "cidr": "str",
        "except": "Sequence[str]",
    },
    total=False,
)


class NetworkPolicyPeer(TypedDict, total=False):
    podSelector: LabelSelector
    namespaceSelector: LabelSelector
    ipBlock: IPBlock


class Ingress(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: IngressSpec
    status: IngressStatus


class IngressSpec(TypedDict, total=False):
    ingressClassName: str
    defaultBackend: IngressBackend
    tls: Sequence[IngressTLS]
    rules: Sequence[IngressRule]


class IngressTLS(TypedDict, total=False):
    hosts: Sequence[str]
    secretName: str


class IngressStatus(TypedDict, total=False):
    loadBalancer: IngressLoadBalancerStatus


class IngressLoadBalancerStatus(TypedDict, total=False):
    ingress: Sequence[IngressLoadBalancerIngress]


class IngressLoadBalancerIngress(TypedDict, total=False):
    ip: str
    hostname: str
    ports: Sequence[IngressPortStatus]


class IngressPortStatus(TypedDict, total=False):
    port: Required[int]
    protocol: Required[str]
    error: str


class IngressRule(TypedDict, total=False):
    host: str
    http: HTTPIngressRuleValue


class IngressRuleValue(TypedDict, total=False):
    http: HTTPIngressRuleValue


class HTTPIngressRuleValue(TypedDict, total=False):
    paths: Sequence[HTTPIngressPath]


class HTTPIngressPath(TypedDict, total=False):
    path: str
    pathType: Required[str]
    backend: Required[IngressBackend]


class IngressBackend(TypedDict, total=False):
    service: IngressServiceBackend
    resource: TypedLocalObjectReference


class IngressServiceBackend(TypedDict, total=False):
    name: str
    port: ServiceBackendPort


class ServiceBackendPort(TypedDict, total=False):
    name: str
    number: int


class IngressClass(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: IngressClassSpec


class IngressClassSpec(TypedDict, total=False):
    controller: str
    parameters: IngressClassParametersReference


class IngressClassParametersReference(TypedDict, total=False):
    apiGroup: str
    kind: str
    name: str
    scope: str
    namespace: str


class IPAddress(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: IPAddressSpec


class IPAddressSpec(TypedDict, total=False):
    parentRef: ParentReference


class ParentReference(TypedDict, total=False):
    group: str
    resource: str
    namespace: str
    name: str


class ServiceCIDR(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: ObjectMeta
    spec: ServiceCIDRSpec
    status: ServiceCIDRStatus


class ServiceCIDRSpec(TypedDict, total=False):
    cidrs: Sequence[str]


class ServiceCIDRStatus(TypedDict, total=False):
    conditions: Sequence[Condition]


class NetworkPolicyStatus(TypedDict, total=False):
    conditions: Sequence[Condition]
