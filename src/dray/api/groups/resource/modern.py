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
from dray.api.release import RESOURCE_GROUP, EffectiveVersion
from dray.api.scheme.kinds import Kind, Object, Version
from dray.api.scheme.printers import NAME_AND_AGE

#: The minor release of 1 in which a version came, most preferred first.
_INTRODUCED: Final = {"v1": 34, "v1beta2": 33, "v1beta1": 32, "v1alpha3": 31}


def kinds(release: EffectiveVersion) -> tuple[Kind, ...]:
    """Every kind as it is in a release; which of its versions are served is not decided here."""
    return (_device_class(release), _taint_rule(release), _claim(release), _template(release), _pool_status(release),
            _slice(release))  # fmt: skip


def _deprecated(kind: str, version: str, introduced: int, release: EffectiveVersion) -> str:
    """The warning for a version three releases after its introduction; it goes away after three more."""
    if release.release < (1, introduced + 3):
        return ""
    return (
        f"{RESOURCE_GROUP}/{version} {kind} is deprecated in v1.{introduced + 3}+, "
        f"unavailable in v1.{introduced + 6}+"
    )


class _Shape(NamedTuple):
    """How a version differs from the hub: its defaults, and the ways there and back."""

    default: Callable[[Object], None] | None = None
    to_hub: Callable[[Object], Object] | None = None
    from_hub: Callable[[Object], Object] | None = None


_HUB: Final = _Shape()


def _versions(
    release: EffectiveVersion, kind: str, *, v1: _Shape = _HUB, v1beta1: _Shape = _HUB, v1alpha3: _Shape
) -> tuple[Version, ...]:
    """The versions of a kind that has been there from the start; v1beta2 is shaped like v1."""
    shapes = {"v1": v1, "v1beta2": v1, "v1beta1": v1beta1, "v1alpha3": v1alpha3}
    return tuple(
        Version(
            name=name,
            type=f"resource/{name}.{kind}",
            deprecated=_deprecated(kind, name, _INTRODUCED[name], release) if "beta" in name else "",
            **shape._asdict(),
        )
        for name, shape in shapes.items()
    )


def _newest(release: EffectiveVersion) -> str:
    """The version to store in: the most preferred one that the release knows."""
    return next((name for name, minor in _INTRODUCED.items() if release.release >= (1, minor)), "v1")


def _device_class(release: EffectiveVersion) -> Kind:
    return Kind(
        group=RESOURCE_GROUP,
        kind="DeviceClass",
        plural="deviceclasses",
        versions=_versions(
            release,
            "DeviceClass",
            v1alpha3=_Shape(None, v1alpha3.class_to_hub, v1alpha3.class_from_hub),
        ),
        storage=_newest(release),
        hub="v1",
        namespaced=False,
        strategy=DeviceClassStrategy(),
        printer=NAME_AND_AGE,
    )


def _claim(release: EffectiveVersion) -> Kind:
    return Kind(
        group=RESOURCE_GROUP,
        kind="ResourceClaim",
        plural="resourceclaims",
        versions=_versions(
            release,
            "ResourceClaim",
            v1=_Shape(defaults.structured_claim),
            v1beta1=_Shape(defaults.flat_claim, v1beta1.claim_to_hub, v1beta1.claim_from_hub),
            v1alpha3=_Shape(defaults.flat_claim, v1alpha3.claim_to_hub, v1alpha3.claim_from_hub),
        ),
        storage=_newest(release),
        hub="v1",
        strategy=ResourceClaimStrategy(),
        subresources={"status": ResourceClaimStatusStrategy()},
        printer=printers.CLAIM,
    )


def _template(release: EffectiveVersion) -> Kind:
    return Kind(
        group=RESOURCE_GROUP,
        kind="ResourceClaimTemplate",
        plural="resourceclaimtemplates",
        versions=_versions(
            release,
            "ResourceClaimTemplate",
            v1=_Shape(defaults.structured_template),
            v1beta1=_Shape(defaults.flat_template, v1beta1.template_to_hub, v1beta1.template_from_hub),
            v1alpha3=_Shape(defaults.flat_template, v1alpha3.template_to_hub, v1alpha3.template_from_hub),
        ),
        storage=_newest(release),
        hub="v1",
        strategy=ResourceClaimTemplateStrategy(),
        printer=NAME_AND_AGE,
    )


def _slice(release: EffectiveVersion) -> Kind:
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
        versions=_versions(
            release,
            "ResourceSlice",
            v1=_Shape(defaults.flat_slice),
            v1beta1=_Shape(defaults.basic_slice, v1beta1.slice_to_hub, v1beta1.slice_from_hub),
            v1alpha3=_Shape(None, v1alpha3.slice_to_hub, v1alpha3.slice_from_hub),
        ),
        storage=_newest(release),
        hub="v1",
        namespaced=False,
        strategy=ResourceSliceStrategy(),
        printer=printers.SLICE,
        fields=fields,
    )


def _taint_rule(release: EffectiveVersion) -> Kind:
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
        strategy=DeviceTaintRuleStrategy(),
        subresources={"status": DeviceTaintRuleStatusStrategy()},
        printer=printers.TAINT_RULE,
    )


def _pool_status(release: EffectiveVersion) -> Kind:
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
