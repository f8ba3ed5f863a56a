"""Rules for writing the classic kinds.

Upstream of that age checks many things twice on an update; clients see such causes twice, and so they do here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dray.api.field import FieldError, Path
from dray.api.kinds import Context, Object, UpdateRules
from dray.api.resource.classic import validation
from dray.api.resource.rules.common import finalizers, metadata_update, template_metadata
from dray.api.resource.validation import checks
from dray.api.strategies import SPEC, STATUS, StatusView, Subdomain, keep


class _Classic(Subdomain):
    delete_returns_object = True
    #: The type of a spec that cannot change.
    fixed: ClassVar[str] = ""

    def validate_update(self, new: Object, old: Object, ctx: Context) -> Sequence[FieldError]:
        errs = [*self.validate(new, ctx), *metadata_update(new, old)]
        if self.fixed:
            checks.immutable(new.get("spec"), old.get("spec"), SPEC, errs, type_=self.fixed)
        return [*errs, *self.validate(new, ctx)]


class _WithStatus(_Classic):
    def prepare_create(self, obj: Object, ctx: Context) -> None:
        obj["status"] = {}

    def prepare_update(self, new: Object, old: Object, ctx: Context) -> None:
        keep(new, old, "status")


class ResourceClassRules(_Classic):
    def validate(self, obj: Object, ctx: Context) -> Sequence[FieldError]:
        errs = finalizers(obj)
        validation.resource_class(obj, errs)
        return errs


class ClassicClaimRules(_WithStatus):
    fixed = "resource/v1alpha2.ResourceClaimSpec"

    def validate(self, obj: Object, ctx: Context) -> Sequence[FieldError]:
        errs = finalizers(obj)
        validation.claim_spec(obj.get("spec") or {}, SPEC, errs)
        return errs


class ClassicClaimStatusRules(UpdateRules):
    def prepare_update(self, new: Object, old: Object, ctx: Context) -> None:
        keep(new, old, "spec")
        new.setdefault("status", {})

    def validate_update(self, new: Object, old: Object, ctx: Context) -> Sequence[FieldError]:
        errs = metadata_update(new, old)
        validation.claim_status(new, old, STATUS, errs)
        return errs


class ClassicTemplateRules(_Classic):
    fixed = "resource/v1alpha2.ResourceClaimTemplateSpec"

    def validate(self, obj: Object, ctx: Context) -> Sequence[FieldError]:
        errs = finalizers(obj)
        spec = obj.get("spec") or {}
        errs += template_metadata(spec.get("metadata") or {}, SPEC.child("metadata"))
        validation.claim_spec(spec.get("spec") or {}, SPEC.child("spec"), errs)
        return errs


class PodSchedulingRules(_WithStatus):
    def validate(self, obj: Object, ctx: Context) -> Sequence[FieldError]:
        errs = finalizers(obj)
        validation.pod_scheduling_spec(obj.get("spec") or {}, SPEC, errs)
        return errs


class PodSchedulingStatusRules(StatusView):
    def prepare_update(self, new: Object, old: Object, ctx: Context) -> None:
        super().prepare_update(new, old, ctx)
        new.setdefault("status", {})

    def validate_update(self, new: Object, old: Object, ctx: Context) -> Sequence[FieldError]:
        errs = metadata_update(new, old)
        validation.pod_scheduling_status(new["status"], STATUS, errs)
        return errs


class ClassicSliceRules(_Classic):
    def validate(self, obj: Object, ctx: Context) -> Sequence[FieldError]:
        errs = finalizers(obj)
        validation.resource_slice(obj, errs)
        return errs

    def validate_update(self, new: Object, old: Object, ctx: Context) -> Sequence[FieldError]:
        errs = [*metadata_update(new, old), *self.validate(new, ctx)]
        for name in ("nodeName", "driverName"):
            checks.immutable(new.get(name, ""), old.get(name, ""), Path(name), errs)
        return errs


class ClaimParametersRules(_Classic):
    def validate(self, obj: Object, ctx: Context) -> Sequence[FieldError]:
        errs = finalizers(obj)
        validation.claim_parameters(obj, ctx, errs, stored=False)
        return errs

    def validate_update(self, new: Object, old: Object, ctx: Context) -> Sequence[FieldError]:
        errs = metadata_update(new, old) + finalizers(new)
        stored = checks.equal(new.get("driverRequests"), old.get("driverRequests"))
        validation.claim_parameters(new, ctx, errs, stored=stored)
        return errs


class ClassParametersRules(_Classic):
    def validate(self, obj: Object, ctx: Context) -> Sequence[FieldError]:
        errs = finalizers(obj)
        validation.class_parameters(obj, ctx, errs, stored=False)
        return errs

    def validate_update(self, new: Object, old: Object, ctx: Context) -> Sequence[FieldError]:
        errs = metadata_update(new, old) + finalizers(new)
        stored = checks.equal(new.get("filters"), old.get("filters"))
        validation.class_parameters(new, ctx, errs, stored=stored)
        return errs
