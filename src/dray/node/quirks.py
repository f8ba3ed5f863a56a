"""In what the kubelet of one release differs from that of another. Nothing else in this package asks for a release."""

from __future__ import annotations

from dataclasses import dataclass

from dray.api.claims import has_fixed_names
from dray.api.release import V1_26, V1_27, V1_28, V1_30, V1_31, V1_34, V1_37, EffectiveVersion, Gates, Release
from dray.kubelet_api.services import (
    HEALTH_SERVICES,
    HEALTH_V1ALPHA1,
    NODE_V1ALPHA1,
    NODE_V1ALPHA2,
    NODE_V1ALPHA3,
    Service,
)

#: Where nothing is emulated, drivers of all ages are welcome: they are tried with the newest service first.
_EVERY_CLASSIC_SERVICE = (NODE_V1ALPHA3, NODE_V1ALPHA2, NODE_V1ALPHA1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Quirks:
    """One boolean for each difference. ``Quirks.of`` is the place that knows releases and feature gates."""

    # -- drivers
    #: Drivers announce a number, and only claims of the classic generation are prepared.
    knows_only_classic_drivers: bool
    #: The kubelet calls v1beta1 of a driver that announces it and v1alpha4 of any other, whatever else is announced.
    prefers_v1beta1: bool
    #: The kubelet also calls v1alpha4 of a driver that announces it or that announces nothing but a number.
    accepts_v1alpha4: bool
    #: What a driver that announces a number may serve for classic claims; the first that it has is called.
    classic_services: tuple[Service, ...]

    # -- slices
    #: The slices that the kubelet itself writes for classic drivers are withdrawn as soon as the driver is gone.
    withdraws_classic_slices_at_once: bool

    # -- pods
    #: Claims are prepared (gate DynamicResourceAllocation). Otherwise containers start without their devices.
    prepares_claims: bool
    #: Devices may do without calls of their driver (gate DRAOptionalNodeOperations).
    skips_node_operations: bool
    #: Claims from templates are named POD-ENTRY; later releases append a random suffix.
    names_claims_after_pod_and_entry: bool
    #: The status of containers shows the health of their devices.
    shows_device_health: bool
    #: What a driver may announce to report health, the newest first.
    health_services: tuple[Service, ...]
    #: The PodResources service shows claims.
    shows_claims_in_pod_resources: bool

    @property
    def declared_features(self) -> tuple[str, ...]:
        """What the node's status says it can do, beside what every node can."""
        return ("DRAOptionalNodeOperations",) if self.skips_node_operations else ()

    @classmethod
    def of(cls, version: EffectiveVersion, gates: Gates) -> Quirks:
        release, emulated = version.release, version.emulated
        only_classic = emulated and release < V1_31
        return cls(
            knows_only_classic_drivers=only_classic,
            prefers_v1beta1=emulated and release < V1_34,
            accepts_v1alpha4=not emulated,
            classic_services=_classic_services(version),
            withdraws_classic_slices_at_once=emulated,
            prepares_claims="DynamicResourceAllocation" in gates,
            skips_node_operations="DRAOptionalNodeOperations" in gates,
            names_claims_after_pod_and_entry=has_fixed_names(release),
            shows_device_health="ResourceHealthStatus" in gates,
            health_services=HEALTH_SERVICES if release >= V1_37 else (HEALTH_V1ALPHA1,),
            shows_claims_in_pod_resources="KubeletPodResourcesDynamicResources" in gates,
        )


def _classic_services(version: EffectiveVersion) -> tuple[Service, ...]:
    if not version.emulated:
        return _EVERY_CLASSIC_SERVICE
    if version.release >= V1_31:
        return ()
    if version.release >= V1_28:
        return (NODE_V1ALPHA3, NODE_V1ALPHA2)
    return (NODE_V1ALPHA2,) if version.release >= V1_27 else (NODE_V1ALPHA1,)


def version_of_server(minor: int) -> EffectiveVersion:
    """What a node without a release of its own follows: up to 1.30 the server's release, later none in particular."""
    if minor > V1_30.minor:
        return EffectiveVersion()
    return EffectiveVersion(max(V1_26, Release(1, minor)))
