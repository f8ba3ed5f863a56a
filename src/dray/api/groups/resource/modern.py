"""The kinds of structured parameters, from v1alpha3 (1.31) to v1: today's Dynamic Resource Allocation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from dray.api.groups.resource import printers
from dray.api.groups.resource.strategy.resourceclaim import (
    ResourceClaimStatusStrategy,
    ResourceClaimStrategy,
    ResourceClaimTemplateStrategy,
)
from dray.api.groups.resource.strategy.resourceslice import (
    DeviceClassStrategy,
    DeviceTaintRuleStatusStrategy,
    DeviceTaintRuleStrategy,
    ResourcePoolStatusRequestStatusStrategy,
    ResourcePoolStatusRequestStrategy,
    ResourceSliceStrategy,
)
from dray.api.groups.resource.versions import defaults, v1alpha3, v1beta1
from dray.api.quirks import RESOURCE_VERSIONS, APIQuirks
from dray.api.release import RESOURCE_GROUP, V1_33, Release, Span
from dray.api.scheme.kinds import Kind, Object, Version
from dray.api.scheme.printers import NAME_AND_AGE


def kinds(quirks: APIQuirks) -> tuple[Kind, ...]:
    """Every kind as it is in a release; which of its versions are served is not decided here."""
    return (_device_class(quirks), _taint_rule(quirks), _claim(quirks), _template(quirks), _pool_status(quirks),
            _slice(quirks))  # fmt: skip


def _deprecated(kind: str, version: str, introduced: Release, quirks: APIQuirks) -> str:
    """The warning for a version three releases after its introduction; it goes away after three more."""
    deprecated, removed = (Release(1, introduced.minor + releases) for releases in (3, 6))
    if not Span(deprecated).covers(quirks.release):
        return ""
    return f"{RESOURCE_GROUP}/{version} {kind} is deprecated in v{deprecated}+, unavailable in v{removed}+"


class _Shape(NamedTuple):
    """How a version differs from the hub: its defaults, and the ways there and back."""

    default: Callable[[Object], None] | None = None
    to_hub: Callable[[Object], Object] | None = None
    from_hub: Callable[[Object], Object] | None = None


_HUB: Final = _Shape()


def _versions(
    quirks: APIQuirks, kind: str, *, v1: _Shape = _HUB, v1beta1: _Shape = _HUB, v1alpha3: _Shape
) -> tuple[Version, ...]:
    """The versions of a kind that has been there from the start; v1beta2 is shaped like v1."""
    shapes = {"v1": v1, "v1beta2": v1, "v1beta1": v1beta1, "v1alpha3": v1alpha3}
    return tuple(
        Version(
            name=name,
            type=f"resource/{name}.{kind}",
            deprecated=_deprecated(kind, name, RESOURCE_VERSIONS[name], quirks) if "beta" in name else "",
            **shape._asdict(),
        )
        for name, shape in shapes.items()
    )


def _device_class(quirks: APIQuirks) -> Kind:
    return Kind(
        group=RESOURCE_GROUP,
        kind="DeviceClass",
        plural="deviceclasses",
        versions=_versions(
            quirks,
            "DeviceClass",
            v1alpha3=_Shape(None, v1alpha3.class_to_hub, v1alpha3.class_from_hub),
        ),
        storage=quirks.resource_storage_version,
        hub="v1",
        namespaced=False,
        strategy=DeviceClassStrategy(),
        printer=NAME_AND_AGE,
    )


def _claim(quirks: APIQuirks) -> Kind:
    return Kind(
        group=RESOURCE_GROUP,
        kind="ResourceClaim",
        plural="resourceclaims",
        versions=_versions(
            quirks,
            "ResourceClaim",
            v1=_Shape(defaults.structured_claim),
            v1beta1=_Shape(defaults.flat_claim, v1beta1.claim_to_hub, v1beta1.claim_from_hub),
            v1alpha3=_Shape(defaults.flat_claim, v1alpha3.claim_to_hub, v1alpha3.claim_from_hub),
        ),
        storage=quirks.resource_storage_version,
        hub="v1",
        must_list_all=True,
        strategy=ResourceClaimStrategy(),
        subresources={"status": ResourceClaimStatusStrategy()},
        printer=printers.CLAIM,
    )


def _template(quirks: APIQuirks) -> Kind:
    return Kind(
        group=RESOURCE_GROUP,
        kind="ResourceClaimTemplate",
        plural="resourceclaimtemplates",
        versions=_versions(
            quirks,
            "ResourceClaimTemplate",
            v1=_Shape(defaults.structured_template),
            v1beta1=_Shape(defaults.flat_template, v1beta1.template_to_hub, v1beta1.template_from_hub),
            v1alpha3=_Shape(defaults.flat_template, v1alpha3.template_to_hub, v1alpha3.template_from_hub),
        ),
        storage=quirks.resource_storage_version,
        hub="v1",
        strategy=ResourceClaimTemplateStrategy(),
        printer=NAME_AND_AGE,
    )


def _slice(quirks: APIQuirks) -> Kind:
    fields = {
        "spec.nodeName": lambda obj: (obj.get("spec") or {}).get("nodeName") or "",
        "spec.driver": lambda obj: (obj.get("spec") or {}).get("driver", ""),
    }
    if quirks.selects_slices_by_pool_name:
        fields["spec.pool.name"] = lambda obj: ((obj.get("spec") or {}).get("pool") or {}).get("name", "")
    return Kind(
        group=RESOURCE_GROUP,
        kind="ResourceSlice",
        plural="resourceslices",
        versions=_versions(
            quirks,
            "ResourceSlice",
            v1=_Shape(defaults.flat_slice),
            v1beta1=_Shape(defaults.basic_slice, v1beta1.slice_to_hub, v1beta1.slice_from_hub),
            v1alpha3=_Shape(None, v1alpha3.slice_to_hub, v1alpha3.slice_from_hub),
        ),
        storage=quirks.resource_storage_version,
        hub="v1",
        namespaced=False,
        strategy=ResourceSliceStrategy(),
        printer=printers.SLICE,
        fields=fields,
    )


def _taint_rule(quirks: APIQuirks) -> Kind:
    versions = (
        Version(name="v1", type="resource/v1.DeviceTaintRule", strict=True),
        Version(name="v1beta2", type="resource/v1beta2.DeviceTaintRule"),
        Version(
            name="v1alpha3",
            type="resource/v1alpha3.DeviceTaintRule",
            deprecated=_deprecated("DeviceTaintRule", "v1alpha3", V1_33, quirks),
        ),
    )
    storage = "v1beta2" if quirks.stores_device_taint_rules_as_v1beta2 else "v1alpha3"
    return Kind(
        group=RESOURCE_GROUP,
        kind="DeviceTaintRule",
        plural="devicetaintrules",
        versions=versions,
        storage=storage,
        hub="v1",
        namespaced=False,
        strategy=DeviceTaintRuleStrategy(),
        subresources={"status": DeviceTaintRuleStatusStrategy()},
        printer=printers.TAINT_RULE,
    )


def _pool_status(quirks: APIQuirks) -> Kind:
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
        strategy=ResourcePoolStatusRequestStrategy(),
        subresources={"status": ResourcePoolStatusRequestStatusStrategy()},
        printer=printers.POOL_STATUS,
    )
