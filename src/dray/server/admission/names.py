"""The names of upstream's admission plugins, the order in which they run, and those that are enabled by default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

#: Every plugin name upstream knows, in the order in which it runs them. All are accepted by the plugin flags.
ORDER: Final[tuple[str, ...]] = (
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "PodGroupWorkloadExists",
    "NodeDeclaredFeatureValidator",
    "JobValidation",
    "PodResizeValidator",
    # gone upstream, but named in old command lines
    "PersistentVolumeLabel",
    "PodPreset",
    "PodSecurityPolicy",
    "SecurityContextDeny",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
)
#: Plugins that run unless they are disabled.
DEFAULT_ON: Final[frozenset[str]] = frozenset(
    {
        "NamespaceLifecycle", "LimitRanger", "ServiceAccount", "TaintNodesByCondition", "PodSecurity", "Priority",
        "DefaultTolerationSeconds", "DefaultStorageClass", "StorageObjectInUseProtection",
        "PodGroupProtection", "PodGroupWorkloadExists", "NodeDeclaredFeatureValidator", "JobValidation",
        "PodResizeValidator", "PersistentVolumeClaimResize", "RuntimeClass", "CertificateApproval", "CertificateSigning",
        "ClusterTrustBundleAttest", "CertificateSubjectRestriction", "DefaultIngressClass", "PodTopologyLabels",
        "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook", "ResourceQuota",
    }
)  # fmt: skip
_RANK: Final = {name: at for at, name in enumerate(ORDER)}


class UnknownPlugin(ValueError):
    """A plugin flag names something upstream has never had, or contradicts the other one."""


def rank(name: str) -> int:
    """The position of a plugin in the chain; plugins that upstream does not have come last."""
    return _RANK.get(name, len(ORDER))


def enabled(enable: Sequence[str] = (), disable: Sequence[str] = ()) -> frozenset[str]:
    """The names of the plugins that run under ``--enable-admission-plugins`` and ``--disable-admission-plugins``."""
    if both := [name for name in enable if name in disable]:
        listed = " ".join(sorted(set(both)))
        raise UnknownPlugin(
            f"[{listed}] in enable-admission-plugins and disable-admission-plugins overlapped"
        )
    for flag, names in (("enable", enable), ("disable", disable)):
        for name in names:
            if name not in _RANK:
                raise UnknownPlugin(f'{flag}-admission-plugins plugin "{name}" is unknown')
    return (DEFAULT_ON | set(enable)) - set(disable)
