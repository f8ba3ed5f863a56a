"""Admission: plugins that may change a write, then plugins that may refuse it; interfaces and the chain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from dray.api.kinds import Object, UserInfo
from dray.server.documents import Codec

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
CONNECT: Final = "CONNECT"


@dataclass(slots=True, eq=False)
class Attributes:
    """One write on its way. ``object`` and ``old`` are hub objects; a mutating plugin changes ``object`` in place."""

    operation: str
    user: UserInfo
    group: str
    version: str
    resource: str
    subresource: str
    kind: str
    namespace: str
    name: str
    codec: Codec  # of the version the request was made in
    object: Object | None = None
    old: Object | None = None
    options: Object = field(default_factory=dict)
    dry_run: bool = False
    warn: Callable[[str], None] = lambda text: None
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit log

    @property
    def versioned(self) -> Object | None:
        """The new object as the request's version has it."""
        return None if self.object is None else self.codec.object(self.object)

    @property
    def versioned_old(self) -> Object | None:
        return None if self.old is None else self.codec.object(self.old)

    def replace(self, obj: Object) -> None:
        """Put another hub object in the place of ``object``, keeping its identity for those who hold it."""
        assert self.object is not None
        self.object.clear()
        self.object.update(obj)


class AdmissionPlugin(Protocol):
    """A named plugin. ``handles`` is asked first and must be cheap: most writes concern few plugins."""

    @property
    def name(self) -> str: ...
    def handles(self, attributes: Attributes) -> bool: ...


@runtime_checkable
class MutatingPlugin(AdmissionPlugin, Protocol):
    async def admit(self, attributes: Attributes) -> None: ...


@runtime_checkable
class ValidatingPlugin(AdmissionPlugin, Protocol):
    async def validate(self, attributes: Attributes) -> None: ...


class AdmissionChain:
    """Plugins in upstream's order. A plugin refuses by raising a ``StatusError``."""

    def __init__(self, plugins: Iterable[AdmissionPlugin] = ()) -> None:
        ordered = sorted(plugins, key=lambda p: ORDER.index(p.name) if p.name in ORDER else len(ORDER))
        self.plugins: Sequence[AdmissionPlugin] = tuple(ordered)
        self._mutating = tuple(p for p in ordered if isinstance(p, MutatingPlugin))
        self._validating = tuple(p for p in ordered if isinstance(p, ValidatingPlugin))

    async def admit(self, attributes: Attributes) -> None:
        for plugin in self._mutating:
            if plugin.handles(attributes):
                await plugin.admit(attributes)

    async def validate(self, attributes: Attributes) -> None:
        for plugin in self._validating:
            if plugin.handles(attributes):
                await plugin.validate(attributes)


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


class UnknownPlugin(ValueError):
    """A plugin flag names something upstream has never had."""


def enabled(enable: Sequence[str] = (), disable: Sequence[str] = ()) -> frozenset[str]:
    """The names of the plugins that run under ``--enable-admission-plugins`` and ``--disable-admission-plugins``."""
    for name in (*enable, *disable):
        if name not in ORDER:
            raise UnknownPlugin(f"admission-control plugin {name!r} is unknown")
    return (DEFAULT_ON | set(enable)) - (set(disable) - set(enable))
