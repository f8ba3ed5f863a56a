"""Pod templates: as objects of their own, and the rules for those inside workloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dray.api.groups.core.pod.annotations import check_annotations
from dray.api.groups.core.pod.conversion import at_template, spec_to_hub
from dray.api.groups.core.pod.defaults import default_template
from dray.api.groups.core.pod.disabledfields import drop_spec_fields
from dray.api.groups.core.pod.options import PodValidationOptions
from dray.api.groups.core.pod.resourceclaims import nested
from dray.api.groups.core.pod.spec import check_spec
from dray.api.groups.core.pod.warnings import warn_template
from dray.api.quirks import APIQuirks
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import Context, SubdomainStrategy, update_generation
from dray.api.validation import checks, field, objectmeta
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import PodTemplate, PodTemplateSpec

_TEMPLATE = Path("template")


def codecs(quirks: APIQuirks, *path: str) -> dict[str, Any]:
    """How a kind with a template at a path is read and, for old releases, written."""
    found = {"to_hub": at_template(path, spec_to_hub)}
    if quirks.nests_claim_sources:
        found["from_hub"] = at_template(path, nested)
    return found


def drop_disabled_fields(template: PodTemplateSpec, old: PodTemplateSpec | None, ctx: Context) -> None:
    drop_spec_fields(template.setdefault("spec", {}), (old or {}).get("spec"), ctx.gates)


def check_template(template: PodTemplateSpec, path: Path, ctx: Context) -> list[FieldError]:
    """Labels, annotations and the spec of pods to be made."""
    about, spec = template.get("metadata") or {}, template.get("spec") or {}
    found = checks.labels(about.get("labels"), path.child("labels"))
    found += objectmeta.validate_annotations(about.get("annotations") or {}, path.child("annotations"))
    found += check_annotations(about, spec, path)
    found += check_spec(spec, {}, path.child("spec"), PodValidationOptions(gates=ctx.gates))
    if spec.get("ephemeralContainers"):
        words = "ephemeral containers not allowed in pod template"
        found.append(field.forbidden(path.child("spec", "ephemeralContainers"), words))
    return found


class PodTemplateStrategy(SubdomainStrategy["PodTemplate"]):
    delete_returns_object = True

    def prepare_create(self, obj: PodTemplate, ctx: Context) -> None:
        obj["metadata"]["generation"] = 1
        drop_disabled_fields(obj["template"], None, ctx)

    def validate(self, obj: PodTemplate, ctx: Context) -> Sequence[FieldError]:
        return check_template(obj["template"], _TEMPLATE, ctx)

    def warn(self, obj: PodTemplate, ctx: Context) -> Sequence[str]:
        return warn_template(obj["template"], _TEMPLATE)

    def prepare_update(self, new: PodTemplate, old: PodTemplate, ctx: Context) -> None:
        drop_disabled_fields(new["template"], old["template"], ctx)
        update_generation(new, old, changed=new["template"] != old["template"])

    def validate_update(self, new: PodTemplate, old: PodTemplate, ctx: Context) -> Sequence[FieldError]:
        return self.validate(new, ctx)


def _default(obj: PodTemplate) -> None:
    default_template(obj.setdefault("template", {}))


def _cells(obj: PodTemplate, now: float) -> Sequence[object]:
    template = obj.get("template") or {}
    names, images = printers.containers(template.get("spec") or {})
    return printers.name(obj), names, images, printers.labels((template.get("metadata") or {}).get("labels"))


def kind(quirks: APIQuirks) -> Kind:
    version = Version(name="v1", type="core/v1.PodTemplate", default=_default, **codecs(quirks, "template"))
    return Kind(
        group="",
        kind="PodTemplate",
        plural="podtemplates",
        versions=(version,),
        storage="v1",
        strategy=PodTemplateStrategy(),
        printer=printers.printer(
            (
                printers.NAME,
                Column("Containers", description="The names of the containers."),
                Column("Images", description="The images of the containers."),
                Column("Pod Labels", description="The labels that pods get."),
            ),
            _cells,
        ),
    )
