"""ResourceClaims and their templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.claims import POD_CLAIM_ANNOTATION
from dray.api.groups.resource.strategy.authorization import admin_access, admin_access_granted, status_parts
from dray.api.groups.resource.strategy.common import finalizers, metadata_update, template_metadata
from dray.api.groups.resource.strategy.disabledfields import drop_spec_fields, drop_status_fields
from dray.api.groups.resource.validation import checks
from dray.api.groups.resource.validation.checks import Errors
from dray.api.groups.resource.validation.claimstatus import allocated_devices, claim_status
from dray.api.groups.resource.validation.resourceclaim import claim_spec
from dray.api.identity import shared_device_id
from dray.api.scheme.strategy import SPEC, STATUS, Context, SubdomainStrategy, UpdateStrategy, keep_fields
from dray.api.validation.cache import Interner
from dray.api.validation.field import FieldError

if TYPE_CHECKING:
    from dray.api.types.resource import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate


_specs: Final = Interner(256)
_annotations: Final = Interner(256)
#: The annotations of a claim that the claim controller has made: for which of a pod's claims.
_FROM_TEMPLATE: Final = {POD_CLAIM_ANNOTATION}


class ResourceClaimStrategy(SubdomainStrategy["ResourceClaim"]):
    """A claim's spec never changes; its status is written through the status subresource."""

    has_declared_rules = True
    delete_returns_object = True

    def prepare_create(self, obj: ResourceClaim, ctx: Context) -> None:
        obj["status"] = {}
        if spec := obj.get("spec"):
            drop_spec_fields(spec, None, ctx.gates)
            obj["spec"] = _specs.one(spec)  # claims of one template share it
        metadata = obj["metadata"]
        if (annotations := metadata.get("annotations")) and annotations.keys() == _FROM_TEMPLATE:
            metadata["annotations"] = _annotations.one(annotations)

    def validate(self, obj: ResourceClaim, ctx: Context) -> Sequence[FieldError]:
        spec = obj.get("spec") or {}
        requests = (spec.get("devices") or {}).get("requests") or ()
        errs = admin_access(requests, obj["metadata"].get("namespace", ""), ctx) + finalizers(obj)
        errs += ctx.once("claim", lambda: _checked_spec(spec, ctx), spec)
        return errs

    def prepare_update(self, new: ResourceClaim, old: ResourceClaim, ctx: Context) -> None:
        keep_fields(new, old, "status")
        drop_spec_fields(new.get("spec") or {}, old.get("spec"), ctx.gates)

    def validate_update(self, new: ResourceClaim, old: ResourceClaim, ctx: Context) -> Sequence[FieldError]:
        errs = Errors(finalizers(new) + metadata_update(new, old, ctx), declared=ctx.quirks.declares_rules)
        type_, release = "resource/v1.ResourceClaimSpec", ctx.quirks.release
        checks.fixed(new.get("spec"), old.get("spec"), SPEC, errs, type_=type_, release=release)
        return errs


def _checked_spec(spec: ResourceClaimSpec, ctx: Context) -> list[FieldError]:
    errs = Errors(declared=ctx.quirks.declares_rules)
    claim_spec(spec, SPEC, ctx, errs)
    return errs.all()


class ResourceClaimStatusStrategy(UpdateStrategy["ResourceClaim"]):
    """Allocation, reservation and device status of a claim. The metadata is written through the main resource."""

    has_declared_rules = True
    reset = (("metadata",), ("spec",))

    def prepare_update(self, new: ResourceClaim, old: ResourceClaim, ctx: Context) -> None:
        keep_fields(new, old, "spec")
        keep_fields(new["metadata"], old["metadata"], *_FOR_THE_MAIN_DOOR)
        new.setdefault("status", {})
        drop_status_fields(new, old, ctx.gates)
        _forget_deallocated(new, old)
        _hold_selector_once(new, old)

    def validate_update(self, new: ResourceClaim, old: ResourceClaim, ctx: Context) -> Sequence[FieldError]:
        found = (
            admin_access_granted(new, old, ctx) + status_parts(new, old, ctx) + metadata_update(new, old, ctx)
        )
        errs = Errors(found, declared=ctx.quirks.declares_rules)
        claim_status(new, old, STATUS, errs, ctx.quirks)
        return errs.all()


_FOR_THE_MAIN_DOOR = (
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "deletionTimestamp",
    "generation",
)


_selectors: Final = Interner()


def _hold_selector_once(new: ResourceClaim, old: ResourceClaim) -> None:
    """Claims that are allocated on one node share what says so."""
    allocation = new["status"].get("allocation") or {}
    selector = allocation.get("nodeSelector")
    if selector and allocation is not (old.get("status") or {}).get("allocation"):
        allocation["nodeSelector"] = _selectors.one(selector)


def _forget_deallocated(new: ResourceClaim, old: ResourceClaim) -> None:
    """Drop what drivers reported about devices that the claim has just given back."""
    status = new["status"]
    devices = status.get("devices")
    if not devices:
        return
    gone = allocated_devices(old.get("status") or {}) - allocated_devices(status)
    if gone:
        kept = [device for device in devices if shared_device_id(device) not in gone]
        if kept:
            status["devices"] = kept
        else:
            del status["devices"]


class ResourceClaimTemplateStrategy(SubdomainStrategy["ResourceClaimTemplate"]):
    """A template's spec never changes either, and is validated again on every write."""

    has_declared_rules = True
    delete_returns_object = True

    def prepare_create(self, obj: ResourceClaimTemplate, ctx: Context) -> None:
        drop_spec_fields(_claim_spec(obj), None, ctx.gates)

    def validate(self, obj: ResourceClaimTemplate, ctx: Context) -> Sequence[FieldError]:
        spec = _claim_spec(obj)
        requests = (spec.get("devices") or {}).get("requests") or ()
        found = admin_access(requests, obj["metadata"].get("namespace", ""), ctx) + finalizers(obj)
        errs = Errors(found, declared=ctx.quirks.declares_rules)
        _template_spec(obj, ctx, errs)
        return errs.all()

    def prepare_update(self, new: ResourceClaimTemplate, old: ResourceClaimTemplate, ctx: Context) -> None:
        drop_spec_fields(_claim_spec(new), _claim_spec(old), ctx.gates)

    def validate_update(
        self, new: ResourceClaimTemplate, old: ResourceClaimTemplate, ctx: Context
    ) -> Sequence[FieldError]:
        errs = Errors(finalizers(new), declared=ctx.quirks.declares_rules)
        if not errs.declared or checks.equal(new.get("spec"), old.get("spec")):
            _template_spec(new, ctx, errs)
        errs += metadata_update(new, old, ctx)
        type_, release = "resource/v1.ResourceClaimTemplateSpec", ctx.quirks.release
        checks.fixed(new.get("spec"), old.get("spec"), SPEC, errs, type_=type_, release=release)
        return errs.all()


def _template_spec(template: ResourceClaimTemplate, ctx: Context, errs: Errors) -> None:
    """What claims made from the template will be."""
    errs += template_metadata((template.get("spec") or {}).get("metadata") or {}, SPEC.child("metadata"))
    claim_spec(_claim_spec(template), SPEC.child("spec"), ctx, errs)


def _claim_spec(template: ResourceClaimTemplate) -> ResourceClaimSpec:
    spec: ResourceClaimSpec = (template.get("spec") or {}).get("spec") or {}
    return spec
