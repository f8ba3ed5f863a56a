"""Pod templates: as objects of their own, and the rules for those inside workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dray.api.groups.core.pod.annotations import check_annotations
from dray.api.groups.core.pod.conversion import at_template, spec_to_hub
from dray.api.groups.core.pod.defaults import default_template
from dray.api.groups.core.pod.disabledfields import drop_spec_fields
from dray.api.groups.core.pod.options import PodValidationOptions
from dray.api.groups.core.pod.resourceclaims import nested
from dray.api.groups.core.pod.spec import check_spec
from dray.api.groups.core.pod.warnings import warn_template
from dray.api.release import EffectiveVersion
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Context, Kind, Object, Version
from dray.api.scheme.strategy import SubdomainStrategy, update_generation
from dray.api.validation import checks, field, objectmeta
from dray.api.validation.field import FieldError, Path

_TEMPLATE = Path("template")


def codecs(release: EffectiveVersion, *path: str) -> dict[str, Any]:
    """How a kind with a template at a path is read and, for old releases, written."""
    found = {"to_hub": at_template(path, spec_to_hub)}
    if not release.at_least("1.31"):
        found["from_hub"] = at_template(path, nested)
    return found


def drop_disabled_fields(template: Object, old: Mapping[str, Any] | None, ctx: Context) -> None:
    drop_spec_fields(template.setdefault("spec", {}), (old or {}).get("spec"), ctx.gates)


def check_template(template: Mapping[str, Any], path: Path, ctx: Context) -> list[FieldError]:
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


class PodTemplateStrategy(SubdomainStrategy):
    delete_returns_object = True

    def prepare_create(self, obj: Object, ctx: Context) -> None:
        obj["metadata"]["generation"] = 1
        drop_disabled_fields(obj["template"], None, ctx)

    def validate(self, obj: Object, ctx: Context) -> Sequence[FieldError]:
        return check_template(obj["template"], _TEMPLATE, ctx)

    def warn(self, obj: Object, ctx: Context) -> Sequence[str]:
        return warn_template(obj["template"], _TEMPLATE)

    def prepare_update(self, new: Object, old: Object, ctx: Context) -> None:
        drop_disabled_fields(new["template"], old["template"], ctx)
        update_generation(new, old, changed=new["template"] != old["template"])

    def validate_update(self, new: Object, old: Object, ctx: Context) -> Sequence[FieldError]:
        return self.validate(new, ctx)


def _default(obj: Object) -> None:
    default_template(obj.setdefault("template", {}))


def _cells(obj: Object, now: float) -> Sequence[object]:
    template = obj.get("template") or {}
    names, images = printers.containers(template.get("spec") or {})
    return printers.name(obj), names, images, printers.labels((template.get("metadata") or {}).get("labels"))


def kind(release: EffectiveVersion) -> Kind:
    version = Version(name="v1", type="core/v1.PodTemplate", default=_default, **codecs(release, "template"))
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
