"""The classic kinds, each with its versions, rules, columns and place in the store."""

from __future__ import annotations

from dray.api.groups.resource.classic import printers, v1alpha1
from dray.api.groups.resource.classic.strategy import (
    ClassicClaimStatusStrategy,
    ClassicClaimStrategy,
    ClassicClaimTemplateStrategy,
    ClassicSliceStrategy,
    PodSchedulingContextStatusStrategy,
    PodSchedulingContextStrategy,
    ResourceClaimParametersStrategy,
    ResourceClassParametersStrategy,
    ResourceClassStrategy,
)
from dray.api.quirks import APIQuirks
from dray.api.release import RESOURCE_GROUP
from dray.api.scheme.kinds import Kind, Object, Version


def kinds(quirks: APIQuirks) -> tuple[Kind, ...]:
    contexts = _pod_scheduling_context(quirks)
    return (
        contexts,
        _pod_scheduling(quirks, contexts),
        _claim_parameters(),
        _claim(quirks),
        _template(quirks),
        _class(quirks),
        _class_parameters(),
        _slice(quirks),
    )


def _prefix(plural: str, quirks: APIQuirks) -> str:
    """Names that modern kinds use as well need a place of their own where both generations are served."""
    return f"classic/{plural}" if quirks.stores_classic_kinds_apart else plural


def _storage(quirks: APIQuirks) -> str:
    return "v1alpha1" if quirks.stores_classic_kinds_as_v1alpha1 else "v1alpha2"


def default_claim(obj: Object) -> None:
    _default_mode(obj.get("spec"))


def default_template(obj: Object) -> None:
    _default_mode((obj.get("spec") or {}).get("spec"))


def _default_mode(spec: Object | None) -> None:
    if spec is not None and not spec.get("allocationMode"):
        spec["allocationMode"] = "WaitForFirstConsumer"


def _claim(quirks: APIQuirks) -> Kind:
    return Kind(
        group=RESOURCE_GROUP,
        kind="ResourceClaim",
        plural="resourceclaims",
        versions=(
            Version(name="v1alpha2", type="resource/v1alpha2.ResourceClaim", default=default_claim),
            Version(
                name="v1alpha1",
                type="resource/v1alpha1.ResourceClaim",
                default=default_claim,
                to_hub=v1alpha1.claim_to_hub,
                from_hub=v1alpha1.claim_from_hub,
            ),
        ),
        storage=_storage(quirks),
        hub="v1alpha2",
        prefix=_prefix("resourceclaims", quirks),
        strategy=ClassicClaimStrategy(),
        subresources={"status": ClassicClaimStatusStrategy()},
        printer=printers.CLAIM,
    )


def _template(quirks: APIQuirks) -> Kind:
    return Kind(
        group=RESOURCE_GROUP,
        kind="ResourceClaimTemplate",
        plural="resourceclaimtemplates",
        versions=(
            Version(
                name="v1alpha2", type="resource/v1alpha2.ResourceClaimTemplate", default=default_template
            ),
            Version(
                name="v1alpha1", type="resource/v1alpha1.ResourceClaimTemplate", default=default_template
            ),
        ),
        storage=_storage(quirks),
        hub="v1alpha2",
        prefix=_prefix("resourceclaimtemplates", quirks),
        strategy=ClassicClaimTemplateStrategy(),
        printer=printers.TEMPLATE,
    )


def _class(quirks: APIQuirks) -> Kind:
    return Kind(
        group=RESOURCE_GROUP,
        kind="ResourceClass",
        plural="resourceclasses",
        versions=(
            Version(name="v1alpha2", type="resource/v1alpha2.ResourceClass"),
            Version(
                name="v1alpha1",
                type="resource/v1alpha1.ResourceClass",
                to_hub=v1alpha1.class_to_hub,
                from_hub=v1alpha1.class_from_hub,
            ),
        ),
        storage=_storage(quirks),
        hub="v1alpha2",
        namespaced=False,
        strategy=ResourceClassStrategy(),
        printer=printers.CLASS,
    )


def _pod_scheduling_context(quirks: APIQuirks) -> Kind:
    return Kind(
        group=RESOURCE_GROUP,
        kind="PodSchedulingContext",
        plural="podschedulingcontexts",
        versions=(
            Version(name="v1alpha3", type="resource/v1alpha3.PodSchedulingContext"),
            Version(name="v1alpha2", type="resource/v1alpha2.PodSchedulingContext"),
        ),
        storage="v1alpha3" if quirks.stores_pod_scheduling_contexts_as_v1alpha3 else "v1alpha2",
        hub="v1alpha2",
        strategy=PodSchedulingContextStrategy(),
        subresources={"status": PodSchedulingContextStatusStrategy()},
        printer=printers.POD_SCHEDULING,
    )


def _pod_scheduling(quirks: APIQuirks, contexts: Kind) -> Kind:
    """1.26's name of a PodSchedulingContext; where both are served they are the same objects."""
    return Kind(
        group=RESOURCE_GROUP,
        kind="PodScheduling",
        plural="podschedulings",
        versions=(Version(name="v1alpha1", type="resource/v1alpha1.PodScheduling"),),
        storage="v1alpha1",
        hub="v1alpha1",
        strategy=PodSchedulingContextStrategy(),
        subresources={"status": PodSchedulingContextStatusStrategy()},
        printer=printers.POD_SCHEDULING,
        stored_as=contexts if quirks.stores_pod_schedulings_as_contexts else None,
    )


def _slice(quirks: APIQuirks) -> Kind:
    return Kind(
        group=RESOURCE_GROUP,
        kind="ResourceSlice",
        plural="resourceslices",
        versions=(Version(name="v1alpha2", type="resource/v1alpha2.ResourceSlice"),),
        storage="v1alpha2",
        namespaced=False,
        prefix=_prefix("resourceslices", quirks),
        strategy=ClassicSliceStrategy(),
        printer=printers.SLICE,
        fields={
            "nodeName": lambda obj: obj.get("nodeName", ""),
            "driverName": lambda obj: obj.get("driverName", ""),
        },
    )


def _claim_parameters() -> Kind:
    return Kind(
        group=RESOURCE_GROUP,
        kind="ResourceClaimParameters",
        plural="resourceclaimparameters",
        versions=(Version(name="v1alpha2", type="resource/v1alpha2.ResourceClaimParameters"),),
        storage="v1alpha2",
        strategy=ResourceClaimParametersStrategy(),
        printer=printers.CLAIM_PARAMETERS,
    )


def _class_parameters() -> Kind:
    return Kind(
        group=RESOURCE_GROUP,
        kind="ResourceClassParameters",
        plural="resourceclassparameters",
        versions=(Version(name="v1alpha2", type="resource/v1alpha2.ResourceClassParameters"),),
        storage="v1alpha2",
        strategy=ResourceClassParametersStrategy(),
        printer=printers.CLASS_PARAMETERS,
    )
