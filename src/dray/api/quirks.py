"""In what the API of one release differs from that of another, beside feature gates and the fields of its types."""

from __future__ import annotations

from dataclasses import dataclass

from dray.api.release import (
    V1_27,
    V1_29,
    V1_31,
    V1_32,
    V1_33,
    V1_34,
    V1_36,
    V1_37,
    EffectiveVersion,
    Release,
    Span,
)

#: The versions of resource.k8s.io with DeviceClass, most preferred first, and the release that brought each.
RESOURCE_VERSIONS = {"v1": V1_34, "v1beta2": V1_33, "v1beta1": V1_32, "v1alpha3": V1_31}


@dataclass(frozen=True, slots=True)
class APIQuirks:
    """One field for each difference. ``APIQuirks.of`` is the place that compares releases."""

    #: The release whose structs messages print, and against which deprecations are looked up.
    release: Release
    #: The claims of a pod have their names in an object ``source`` when they are written.
    nests_claim_sources: bool
    #: Pods have a subresource ``resize``.
    serves_pod_resize: bool
    #: Requests for Endpoints are answered with a warning.
    deprecates_endpoints: bool
    #: ``/version`` names the release that is emulated and the oldest that the server gets on with.
    tells_emulation: bool
    #: A job without podReplacementPolicy gets one.
    defaults_pod_replacement_policy: bool
    #: Claims and templates of the classic generation are stored beside those of the modern one, not in their place.
    stores_classic_kinds_apart: bool
    stores_classic_kinds_as_v1alpha1: bool
    #: PodScheduling (v1alpha1) and PodSchedulingContext (v1alpha2) are one kind under two names.
    stores_pod_schedulings_as_contexts: bool
    #: PodSchedulingContexts were kept for one release of today's claims.
    stores_pod_scheduling_contexts_as_v1alpha3: bool
    #: Resource slices can be selected by spec.pool.name.
    selects_slices_by_pool_name: bool
    stores_device_taint_rules_as_v1beta2: bool
    #: A slice without devices has ``devices: null``.
    writes_missing_devices_as_null: bool
    #: Admin access is for namespaces with the label resource.kubernetes.io/admin-access alone.
    admin_access_needs_namespace_label: bool
    #: The tolerations in an allocation are checked.
    checks_tolerations_of_results: bool
    #: Pods whose containers have claims can be resized in place.
    resizes_pods_with_claims: bool
    #: Some of the rules are declared in the types: what breaks them is reported after everything else, and in other words.
    declares_rules: bool
    #: A patch that is no JSON, or an apply that is no YAML, is refused in words of its own before anything is patched.
    checks_patches_first: bool
    #: The versions that objects are stored in.
    resource_storage_version: str
    mutating_policy_storage_version: str

    @classmethod
    def of(cls, version: EffectiveVersion) -> APIQuirks:
        release = version.release
        return cls(
            release=release,
            nests_claim_sources=release < V1_31,
            serves_pod_resize=release >= V1_32,
            deprecates_endpoints=release >= V1_33,
            tells_emulation=release >= V1_33,
            defaults_pod_replacement_policy=release >= V1_29,
            stores_classic_kinds_apart=not version.emulated or release >= V1_31,
            stores_classic_kinds_as_v1alpha1=release < V1_27,
            stores_pod_schedulings_as_contexts=not version.emulated,
            stores_pod_scheduling_contexts_as_v1alpha3=version.emulated and release == V1_31,
            selects_slices_by_pool_name=release >= V1_37,
            stores_device_taint_rules_as_v1beta2=release >= V1_37,
            writes_missing_devices_as_null=release < V1_36,
            admin_access_needs_namespace_label=release >= V1_33,
            checks_tolerations_of_results=release >= V1_37,
            resizes_pods_with_claims=release >= V1_37,
            declares_rules=release >= V1_37,
            checks_patches_first=release >= V1_37,
            resource_storage_version=next(
                (name for name, since in RESOURCE_VERSIONS.items() if Span(since).covers(release)), "v1"
            ),
            mutating_policy_storage_version=(
                "v1" if release >= V1_37 else "v1beta1" if release >= V1_34 else "v1alpha1"
            ),
        )


#: Those of a server that emulates nothing.
NEWEST_QUIRKS = APIQuirks.of(EffectiveVersion())
