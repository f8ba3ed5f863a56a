"""Registration: builds the admission plugins that are enabled and that this server has."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from dray.server.admission import DEFAULT_ON, AdmissionPlugin
from dray.server.admission.listers import Listers
from dray.server.admission.matcher import Matcher
from dray.server.admission.plugin.alwaysdeny import AlwaysDeny
from dray.server.admission.plugin.alwayspullimages import AlwaysPullImages
from dray.server.admission.plugin.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from dray.server.admission.plugin.defaulttolerationseconds import DefaultTolerationSeconds
from dray.server.admission.plugin.denyserviceexternalips import DenyServiceExternalIPs
from dray.server.admission.plugin.extendedresourcetoleration import ExtendedResourceToleration
from dray.server.admission.plugin.limitpodhardantiaffinity import LimitPodHardAntiAffinityTopology
from dray.server.admission.plugin.limitranger import LimitRanger
from dray.server.admission.plugin.namespace import NamespaceAutoProvision, NamespaceExists, NamespaceLifecycle
from dray.server.admission.plugin.noderestriction import NodeRestriction
from dray.server.admission.plugin.nodetaint import TaintNodesByCondition
from dray.server.admission.plugin.ownerreferences import OwnerReferencesPermissionEnforcement
from dray.server.admission.plugin.persistentvolumeclaims import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
)
from dray.server.admission.plugin.podgroupprotection import PodGroupProtection
from dray.server.admission.plugin.podnodeselector import PodNodeSelector
from dray.server.admission.plugin.podresize import PodResizeValidator
from dray.server.admission.plugin.podtopologylabels import PodTopologyLabels
from dray.server.admission.plugin.priority import Priority
from dray.server.admission.plugin.resourcequota import ResourceQuota
from dray.server.admission.plugin.runtimeclass import RuntimeClass
from dray.server.admission.plugin.serviceaccount import ServiceAccount
from dray.server.admission.podsecurity import PodSecurity
from dray.server.admission.policies.mutating import MutatingAdmissionPolicy
from dray.server.admission.policies.validating import ValidatingAdmissionPolicy
from dray.server.admission.webhooks.client import WebhookClient
from dray.server.admission.webhooks.mutating import MutatingAdmissionWebhook
from dray.server.admission.webhooks.validating import ValidatingAdmissionWebhook
from dray.server.apiserver import APIServer
from dray.server.auth import authorizer

log = logging.getLogger(__name__)


def build_plugins(api: APIServer, names: frozenset[str]) -> list[AdmissionPlugin]:
    """Those of the named plugins that have an effect here."""
    listers = Listers(api)
    matcher = Matcher(api.resources, listers)
    caller = WebhookClient()

    def authorize(asked: authorizer.Attributes) -> authorizer.Verdict:
        return api.authorizer.authorize(asked)

    known: Mapping[str, Callable[[], AdmissionPlugin]] = {
        "NamespaceAutoProvision": lambda: NamespaceAutoProvision(api, listers),
        "NamespaceLifecycle": lambda: NamespaceLifecycle(listers),
        "NamespaceExists": lambda: NamespaceExists(listers),
        "LimitPodHardAntiAffinityTopology": LimitPodHardAntiAffinityTopology,
        "LimitRanger": lambda: LimitRanger(listers),
        "ServiceAccount": lambda: ServiceAccount(listers),
        "NodeRestriction": lambda: NodeRestriction(
            listers, authorize, audiences=api.quirks.restricts_token_audiences_of_nodes
        ),
        "TaintNodesByCondition": TaintNodesByCondition,
        "AlwaysPullImages": AlwaysPullImages,
        "PodSecurity": lambda: PodSecurity(listers, newest=api.version.release.minor),
        "PodNodeSelector": lambda: PodNodeSelector(listers),
        "Priority": lambda: Priority(
            listers,
            group_policies="PodGroupPreemptionPolicy" in api.gates,
            defaults_policy=api.quirks.defaults_group_preemption_policy,
        ),
        "PodGroupProtection": PodGroupProtection,
        "DefaultTolerationSeconds": DefaultTolerationSeconds,
        "ExtendedResourceToleration": ExtendedResourceToleration,
        "DefaultStorageClass": lambda: DefaultStorageClass(listers),
        "OwnerReferencesPermissionEnforcement": lambda: OwnerReferencesPermissionEnforcement(
            api.resources, authorize
        ),
        "PersistentVolumeClaimResize": lambda: PersistentVolumeClaimResize(listers),
        "RuntimeClass": lambda: RuntimeClass(listers),
        "CertificateApproval": lambda: CertificateApproval(authorize),
        "CertificateSigning": lambda: CertificateSigning(authorize),
        "CertificateSubjectRestriction": CertificateSubjectRestriction,
        "DenyServiceExternalIPs": DenyServiceExternalIPs,
        "PodTopologyLabels": lambda: PodTopologyLabels(listers),
        "PodResizeValidator": lambda: PodResizeValidator(listers),
        "MutatingAdmissionPolicy": lambda: MutatingAdmissionPolicy(api, listers, matcher),
        "MutatingAdmissionWebhook": lambda: MutatingAdmissionWebhook(api, listers, matcher, caller),
        "ValidatingAdmissionPolicy": lambda: ValidatingAdmissionPolicy(api, listers, matcher),
        "ValidatingAdmissionWebhook": lambda: ValidatingAdmissionWebhook(api, listers, matcher, caller),
        "ResourceQuota": lambda: ResourceQuota(api, listers),
        "AlwaysDeny": AlwaysDeny,
    }
    for name in sorted(names - DEFAULT_ON - known.keys() - {"AlwaysAdmit"}):
        log.warning("admission plugin %s was asked for; it has no effect here", name)
    unwanted = {name for name, gate in _GATES.items() if gate not in api.gates}
    return [make() for name, make in known.items() if name in names and name not in unwanted]


#: Plugins that also need a feature gate.
_GATES: Mapping[str, str] = {
    "PodGroupProtection": "GenericWorkload",
    "PodTopologyLabels": "PodTopologyLabelsAdmission",
    "PodResizeValidator": "InPlacePodVerticalScaling",
    "MutatingAdmissionPolicy": "MutatingAdmissionPolicy",
}
