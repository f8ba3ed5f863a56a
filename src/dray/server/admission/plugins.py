"""The plugins that this server has, put together by name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from dray.server import auth
from dray.server.admission import DEFAULT_ON, AdmissionPlugin
from dray.server.admission.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from dray.server.admission.images import AlwaysPullImages
from dray.server.admission.lifecycle import NamespaceAutoProvision, NamespaceExists, NamespaceLifecycle
from dray.server.admission.limits import LimitRanger
from dray.server.admission.lookups import Lookups
from dray.server.admission.matching import Matcher
from dray.server.admission.noderestriction import NodeRestriction
from dray.server.admission.nodeselectors import PodNodeSelector
from dray.server.admission.nodetaint import TaintNodesByCondition
from dray.server.admission.owners import OwnerReferencesPermissionEnforcement
from dray.server.admission.podresize import PodResizeValidator
from dray.server.admission.podsecurity import PodSecurity
from dray.server.admission.policies.mutating import MutatingAdmissionPolicy
from dray.server.admission.policies.validating import ValidatingAdmissionPolicy
from dray.server.admission.priority import Priority
from dray.server.admission.quota import ResourceQuota
from dray.server.admission.runtimeclass import RuntimeClass
from dray.server.admission.serviceaccounts import ServiceAccount
from dray.server.admission.simple import (
    AlwaysDeny,
    DenyServiceExternalIPs,
    LimitPodHardAntiAffinityTopology,
)
from dray.server.admission.tolerations import DefaultTolerationSeconds, ExtendedResourceToleration
from dray.server.admission.topology import PodTopologyLabels
from dray.server.admission.volumes import DefaultStorageClass, PersistentVolumeClaimResize
from dray.server.admission.webhooks.calling import Caller
from dray.server.admission.webhooks.mutating import MutatingAdmissionWebhook
from dray.server.admission.webhooks.validating import ValidatingAdmissionWebhook
from dray.server.api import API

log = logging.getLogger(__name__)


def plugins(api: API, names: frozenset[str]) -> list[AdmissionPlugin]:
    """Those of the named plugins that have an effect here."""
    lookups = Lookups(api)
    matcher = Matcher(api.resources, lookups)
    caller = Caller()

    def ask(asked: auth.Attributes) -> auth.Verdict:
        return api.authorizer.authorize(asked)

    known: Mapping[str, Callable[[], AdmissionPlugin]] = {
        "NamespaceAutoProvision": lambda: NamespaceAutoProvision(api, lookups),
        "NamespaceLifecycle": lambda: NamespaceLifecycle(lookups),
        "NamespaceExists": lambda: NamespaceExists(lookups),
        "LimitPodHardAntiAffinityTopology": LimitPodHardAntiAffinityTopology,
        "LimitRanger": lambda: LimitRanger(lookups),
        "ServiceAccount": lambda: ServiceAccount(lookups),
        "NodeRestriction": lambda: NodeRestriction(
            lookups, ask, audiences="ServiceAccountNodeAudienceRestriction" in api.gates
        ),
        "TaintNodesByCondition": TaintNodesByCondition,
        "AlwaysPullImages": AlwaysPullImages,
        "PodSecurity": lambda: PodSecurity(lookups, newest=api.release.number[1]),
        "PodNodeSelector": lambda: PodNodeSelector(lookups),
        "Priority": lambda: Priority(lookups),
        "DefaultTolerationSeconds": DefaultTolerationSeconds,
        "ExtendedResourceToleration": ExtendedResourceToleration,
        "DefaultStorageClass": lambda: DefaultStorageClass(lookups),
        "OwnerReferencesPermissionEnforcement": lambda: OwnerReferencesPermissionEnforcement(
            api.resources, ask
        ),
        "PersistentVolumeClaimResize": lambda: PersistentVolumeClaimResize(lookups),
        "RuntimeClass": lambda: RuntimeClass(lookups),
        "CertificateApproval": lambda: CertificateApproval(ask),
        "CertificateSigning": lambda: CertificateSigning(ask),
        "CertificateSubjectRestriction": CertificateSubjectRestriction,
        "DenyServiceExternalIPs": DenyServiceExternalIPs,
        "PodTopologyLabels": lambda: PodTopologyLabels(lookups),
        "PodResizeValidator": lambda: PodResizeValidator(lookups),
        "MutatingAdmissionPolicy": lambda: MutatingAdmissionPolicy(api, lookups, matcher),
        "MutatingAdmissionWebhook": lambda: MutatingAdmissionWebhook(api, lookups, matcher, caller),
        "ValidatingAdmissionPolicy": lambda: ValidatingAdmissionPolicy(api, lookups, matcher),
        "ValidatingAdmissionWebhook": lambda: ValidatingAdmissionWebhook(api, lookups, matcher, caller),
        "ResourceQuota": lambda: ResourceQuota(api, lookups),
        "AlwaysDeny": AlwaysDeny,
    }
    for name in sorted(names - DEFAULT_ON - known.keys() - {"AlwaysAdmit"}):
        log.warning("admission plugin %s was asked for; it has no effect here", name)
    unwanted = {name for name, gate in _GATES.items() if gate not in api.gates}
    return [make() for name, make in known.items() if name in names and name not in unwanted]


#: Plugins that also need a feature gate.
_GATES: Mapping[str, str] = {
    "PodTopologyLabels": "PodTopologyLabelsAdmission",
    "PodResizeValidator": "InPlacePodVerticalScaling",
    "MutatingAdmissionPolicy": "MutatingAdmissionPolicy",
}
