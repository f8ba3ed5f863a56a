"""Rules for writing the classic kinds.

Upstream of that age checks many things twice on an update; clients see such causes twice, and so they do here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dray.api.groups.resource.classic import validation
from dray.api.groups.resource.strategy.common import finalizers, metadata_update, template_metadata
from dray.api.groups.resource.validation import checks
from dray.api.scheme.strategy import (
    SPEC,
    STATUS,
    Context,
    StatusStrategy,
    SubdomainStrategy,
    T,
    UpdateStrategy,
    keep_fields,
)
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import (
        PodSchedulingContext,
        ResourceClaim,
        ResourceClaimParameters,
        ResourceClaimTemplate,
        ResourceClass,
        ResourceClassParameters,
        ResourceSlice,
    )


class _ClassicStrategy(SubdomainStrategy[T]):
    delete_returns_object = True
    #: The type of a spec that cannot change.
    fixed: ClassVar[str] = ""

    def validate_update(self, new: Any, old: Any, ctx: Context) -> Sequence[FieldError]:
        errs = checks.Errors([*self.validate(new, ctx), *metadata_update(new, old, ctx)])
        if self.fixed:
            checks.immutable(new.get("spec"), old.get("spec"), SPEC, errs, type_=self.fixed)
        return [*errs, *self.validate(new, ctx)]


class _ClassicWithStatusStrategy(_ClassicStrategy[T]):
    def prepare_create(self, obj: Any, ctx: Context) -> None:
        obj["status"] = {}

    def prepare_update(self, new: Any, old: Any, ctx: Context) -> None:
        keep_fields(new, old, "status")


class ResourceClassStrategy(_ClassicStrategy["ResourceClass"]):
    def validate(self, obj: ResourceClass, ctx: Context) -> Sequence[FieldError]:
        errs = checks.Errors(finalizers(obj))
        validation.resource_class(obj, errs)
        return errs


class ClassicClaimStrategy(_ClassicWithStatusStrategy["ResourceClaim"]):
    fixed = "resource/v1alpha2.ResourceClaimSpec"

    def validate(self, obj: ResourceClaim, ctx: Context) -> Sequence[FieldError]:
        errs = checks.Errors(finalizers(obj))
        validation.claim_spec(obj.get("spec") or {}, SPEC, errs)
        return errs


class ClassicClaimStatusStrategy(UpdateStrategy["ResourceClaim"]):
    def prepare_update(self, new: ResourceClaim, old: ResourceClaim, ctx: Context) -> None:
        keep_fields(new, old, "spec")
        new.setdefault("status", {})

    def validate_update(self, new: ResourceClaim, old: ResourceClaim, ctx: Context) -> Sequence[FieldError]:
        errs = checks.Errors(metadata_update(new, old, ctx))
        validation.claim_status(new, old, STATUS, errs)
        return errs


class ClassicClaimTemplateStrategy(_ClassicStrategy["ResourceClaimTemplate"]):
    fixed = "resource/v1alpha2.ResourceClaimTemplateSpec"

    def validate(self, obj: ResourceClaimTemplate, ctx: Context) -> Sequence[FieldError]:
        errs = checks.Errors(finalizers(obj))
        spec = obj.get("spec") or {}
        errs += template_metadata(spec.get("metadata") or {}, SPEC.child("metadata"))
        validation.claim_spec(spec.get("spec") or {}, SPEC.child("spec"), errs)
        return errs


class PodSchedulingContextStrategy(_ClassicWithStatusStrategy["PodSchedulingContext"]):
    def validate(self, obj: PodSchedulingContext, ctx: Context) -> Sequence[FieldError]:
        errs = checks.Errors(finalizers(obj))
        validation.pod_scheduling_spec(obj.get("spec") or {}, SPEC, errs)
        return errs


class PodSchedulingContextStatusStrategy(StatusStrategy["PodSchedulingContext"]):
    def prepare_update(self, new: PodSchedulingContext, old: PodSchedulingContext, ctx: Context) -> None:
        super().prepare_update(new, old, ctx)
        new.setdefault("status", {})

    def validate_update(
        self, new: PodSchedulingContext, old: PodSchedulingContext, ctx: Context
    ) -> Sequence[FieldError]:
        errs = checks.Errors(metadata_update(new, old, ctx))
        validation.pod_scheduling_status(new["status"], STATUS, errs)
        return errs


class ClassicSliceStrategy(_ClassicStrategy["ResourceSlice"]):
    def validate(self, obj: ResourceSlice, ctx: Context) -> Sequence[FieldError]:
        errs = checks.Errors(finalizers(obj))
        validation.resource_slice(obj, errs)
        return errs

    def validate_update(self, new: ResourceSlice, old: ResourceSlice, ctx: Context) -> Sequence[FieldError]:
        errs = checks.Errors([*metadata_update(new, old, ctx), *self.validate(new, ctx)])
        for name in ("nodeName", "driverName"):
            checks.immutable(new.get(name, ""), old.get(name, ""), Path(name), errs)
        return errs


class ResourceClaimParametersStrategy(_ClassicStrategy["ResourceClaimParameters"]):
    def validate(self, obj: ResourceClaimParameters, ctx: Context) -> Sequence[FieldError]:
        errs = checks.Errors(finalizers(obj))
        validation.claim_parameters(obj, ctx, errs, stored=False)
        return errs

    def validate_update(
        self, new: ResourceClaimParameters, old: ResourceClaimParameters, ctx: Context
    ) -> Sequence[FieldError]:
        errs = checks.Errors(metadata_update(new, old, ctx) + finalizers(new))
        stored = checks.equal(new.get("driverRequests"), old.get("driverRequests"))
        validation.claim_parameters(new, ctx, errs, stored=stored)
        return errs


class ResourceClassParametersStrategy(_ClassicStrategy["ResourceClassParameters"]):
    def validate(self, obj: ResourceClassParameters, ctx: Context) -> Sequence[FieldError]:
        errs = checks.Errors(finalizers(obj))
        validation.class_parameters(obj, ctx, errs, stored=False)
        return errs

    def validate_update(
        self, new: ResourceClassParameters, old: ResourceClassParameters, ctx: Context
    ) -> Sequence[FieldError]:
        errs = checks.Errors(metadata_update(new, old, ctx) + finalizers(new))
        stored = checks.equal(new.get("filters"), old.get("filters"))
        validation.class_parameters(new, ctx, errs, stored=stored)
        return errs
