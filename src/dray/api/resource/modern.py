"""The kinds of structured parameters, from v1alpha3 (1.31) to v1: today's Dynamic Resource Allocation."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.kinds import Kind, Version
from dray.api.printing import NAME_AND_AGE
from dray.api.release import RESOURCE_GROUP, Release
from dray.api.resource import printers
from dray.api.resource.rules.claims import ClaimRules, ClaimStatusRules, TemplateRules
from dray.api.resource.rules.inventory import (
    ClassRules,
    PoolStatusAnswerRules,
    PoolStatusRules,
    SliceRules,
    TaintRuleRules,
    TaintRuleStatusRules,
)
from dray.api.resource.versions import defaults, v1alpha3, v1beta1


def kinds(release: Release) -> tuple[Kind, ...]:
    """Every kind as it is in a release; which of its versions are served is not decided here."""
    return (_device_class(release), _taint_rule(release), _claim(release), _template(release), _pool_status(release),
            _slice(release))  # fmt: skip


def _deprecated(kind: str, version: str, introduced: int, release: Release) -> str:
    """The warning for a version three releases after its introduction; it goes away after three more."""
    if release.number < (1, introduced + 3):
        return ""
    return (
        f"{RESOURCE_GROUP}/{version} {kind} is deprecated in v1.{introduced + 3}+, "
        f"unavailable in v1.{introduced + 6}+"
    )


def _newest(versions: Iterable[Version], release: Release) -> str:
    """The version to store in: the most preferred one that the release knows."""
    introduced = {"v1": (1, 34), "v1beta2": (1, 33), "v1beta1": (1, 32), "v1alpha3": (1, 31)}
    for version in versions:
        if release.number >= introduced[version.name]:
            return version.name
    return "v1"


def _device_class(release: Release) -> Kind:
    versions = (
        Version(name="v1", type="resource/v1.DeviceClass"),
        Version(
            name="v1beta2",
            type="resource/v1beta2.DeviceClass",
            deprecated=_deprecated("DeviceClass", "v1beta2", 33, release),
        ),
        Version(
            name="v1beta1",
            type="resource/v1beta1.DeviceClass",
            deprecated=_deprecated("DeviceClass", "v1beta1", 32, release),
        ),
        Version(
            name="v1alpha3",
            type="resource/v1alpha3.DeviceClass",
            to_hub=v1alpha3.class_to_hub,
            from_hub=v1alpha3.class_from_hub,
        ),
    )
    return Kind(
        group=RESOURCE_GROUP,
        kind="DeviceClass",
        plural="deviceclasses",
        versions=versions,
        storage=_newest(versions, release),
        hub="v1",
        namespaced=False,
        rules=ClassRules(),
        printer=NAME_AND_AGE,
    )


def _claim(release: Release) -> Kind:
    versions = (
        Version(name="v1", type="resource/v1.ResourceClaim", default=defaults.structured_claim),
        Version(
            name="v1beta2",
            type="resource/v1beta2.ResourceClaim",
            default=defaults.structured_claim,
            deprecated=_deprecated("ResourceClaim", "v1beta2", 33, release),
        ),
        Version(
            name="v1beta1",
            type="resource/v1beta1.ResourceClaim",
            default=defaults.flat_claim,
            to_hub=v1beta1.claim_to_hub,
            from_hub=v1beta1.claim_from_hub,
            deprecated=_deprecated("ResourceClaim", "v1beta1", 32, release),
        ),
        Version(
            name="v1alpha3",
            type="resource/v1alpha3.ResourceClaim",
            default=defaults.flat_claim,
            to_hub=v1alpha3.claim_to_hub,
            from_hub=v1alpha3.claim_from_hub,
        ),
    )
    return Kind(
        group=RESOURCE_GROUP,
        kind="ResourceClaim",
        plural="resourceclaims",
        versions=versions,
        storage=_newest(versions, release),
        hub="v1",
        rules=ClaimRules(),
        views={"status": ClaimStatusRules()},
        printer=printers.CLAIM,
    )


def _template(release: Release) -> Kind:
    versions = (
        Version(name="v1", type="resource/v1.ResourceClaimTemplate", default=defaults.structured_template),
        Version(
            name="v1beta2",
            type="resource/v1beta2.ResourceClaimTemplate",
            default=defaults.structured_template,
            deprecated=_deprecated("ResourceClaimTemplate", "v1beta2", 33, release),
        ),
        Version(
            name="v1beta1",
            type="resource/v1beta1.ResourceClaimTemplate",
            default=defaults.flat_template,
            to_hub=v1beta1.template_to_hub,
            from_hub=v1beta1.template_from_hub,
            deprecated=_deprecated("ResourceClaimTemplate", "v1beta1", 32, release),
        ),
        Version(
            name="v1alpha3",
            type="resource/v1alpha3.ResourceClaimTemplate",
            default=defaults.flat_template,
            to_hub=v1alpha3.template_to_hub,
            from_hub=v1alpha3.template_from_hub,
        ),
    )
    return Kind(
        group=RESOURCE_GROUP,
        kind="ResourceClaimTemplate",
        plural="resourceclaimtemplates",
        versions=versions,
        storage=_newest(versions, release),
        hub="v1",
        rules=TemplateRules(),
        printer=NAME_AND_AGE,
    )


def _slice(release: Release) -> Kind:
    versions = (
        Version(name="v1", type="resource/v1.ResourceSlice", default=defaults.flat_slice),
        Version(
            name="v1beta2",
            type="resource/v1beta2.ResourceSlice",
            default=defaults.flat_slice,
            deprecated=_deprecated("ResourceSlice", "v1beta2", 33, release),
        ),
        Version(
            name="v1beta1",
            type="resource/v1beta1.ResourceSlice",
            default=defaults.basic_slice,
            to_hub=v1beta1.slice_to_hub,
            from_hub=v1beta1.slice_from_hub,
            deprecated=_deprecated("ResourceSlice", "v1beta1", 32, release),
        ),
        Version(
            name="v1alpha3",
            type="resource/v1alpha3.ResourceSlice",
            to_hub=v1alpha3.slice_to_hub,
            from_hub=v1alpha3.slice_from_hub,
        ),
    )
    fields = {
        "spec.nodeName": lambda obj: (obj.get("spec") or {}).get("nodeName") or "",
        "spec.driver": lambda obj: (obj.get("spec") or {}).get("driver", ""),
    }
    if release.at_least("1.37"):
        fields["spec.pool.name"] = lambda obj: ((obj.get("spec") or {}).get("pool") or {}).get("name", "")
    return Kind(
        group=RESOURCE_GROUP,
        kind="ResourceSlice",
        plural="resourceslices",
        versions=versions,
        storage=_newest(versions, release),
        hub="v1",
        namespaced=False,
        rules=SliceRules(),
        printer=printers.SLICE,
        fields=fields,
    )


def _taint_rule(release: Release) -> Kind:
    versions = (
        Version(name="v1", type="resource/v1.DeviceTaintRule"),
        Version(name="v1beta2", type="resource/v1beta2.DeviceTaintRule"),
        Version(
            name="v1alpha3",
            type="resource/v1alpha3.DeviceTaintRule",
            deprecated=_deprecated("DeviceTaintRule", "v1alpha3", 33, release),
        ),
    )
    storage = "v1beta2" if release.at_least("1.37") else "v1alpha3"
    return Kind(
        group=RESOURCE_GROUP,
        kind="DeviceTaintRule",
        plural="devicetaintrules",
        versions=versions,
        storage=storage,
        hub="v1",
        namespaced=False,
        rules=TaintRuleRules(),
        views={"status": TaintRuleStatusRules()},
        printer=printers.TAINT_RULE,
    )


def _pool_status(release: Release) -> Kind:
    return Kind(
        group=RESOURCE_GROUP,
        kind="ResourcePoolStatusRequest",
        plural="resourcepoolstatusrequests",
        versions=(
            Version(
                name="v1alpha3",
                type="resource/v1alpha3.ResourcePoolStatusRequest",
                default=defaults.pool_status_request,
            ),
        ),
        storage="v1alpha3",
        namespaced=False,
        rules=PoolStatusRules(),
        views={"status": PoolStatusAnswerRules()},
        printer=printers.POOL_STATUS,
    )
