"""Controller revisions: snapshots of a template that a set can go back to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import Context, SubdomainStrategy, immutable
from dray.api.validation import checks, field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.apps import ControllerRevision

_DATA = Path("data")


class ControllerRevisionStrategy(SubdomainStrategy["ControllerRevision"]):
    def validate(self, obj: ControllerRevision, ctx: Context) -> Sequence[FieldError]:
        found = checks.not_negative(obj.get("revision"), Path("revision"))
        data = obj.get("data")
        if data is None:
            found.append(field.required(_DATA, "data is mandatory"))
        elif not isinstance(data, dict):
            found.append(field.required(_DATA, "data must be a valid JSON object"))
        return found

    def validate_update(
        self, new: ControllerRevision, old: ControllerRevision, ctx: Context
    ) -> Sequence[FieldError]:
        found = checks.not_negative(new.get("revision"), Path("revision"))
        return [*found, *immutable(new.get("data"), old.get("data"), _DATA)]


def _controller(obj: ControllerRevision) -> str:
    owner = next((o for o in obj["metadata"].get("ownerReferences") or () if o.get("controller")), None)
    if owner is None:
        return "<none>"
    group = owner["apiVersion"].rpartition("/")[0]
    shown = f"{owner['kind']}.{group}" if group else owner["kind"]
    return f"{shown.lower()}/{owner['name']}"


KIND = Kind(
    group="apps",
    kind="ControllerRevision",
    plural="controllerrevisions",
    versions=(Version(name="v1", type="apps/v1.ControllerRevision"),),
    storage="v1",
    strategy=ControllerRevisionStrategy(),
    printer=printers.printer(
        (
            printers.NAME,
            Column("Controller", description="What the revision belongs to."),
            Column("Revision", description="Its number."),
            printers.AGE,
        ),
        lambda obj, now: (
            printers.name(obj),
            _controller(obj),
            obj.get("revision", 0),
            printers.age(obj, now),
        ),
    ),
)
