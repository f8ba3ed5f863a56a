"""What the rules of all kinds of the group share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dray.api.validation import field, objectmeta
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.scheme.strategy import Context
    from dray.api.types import Object
    from dray.api.types.meta import ObjectMeta


def metadata_update(new: Object, old: Object, ctx: Context) -> list[FieldError]:
    """Changed metadata, checked a second time.

    Upstream checks it for all kinds and then once more in the rules of each, and clients see the cause twice; where
    rules are declared, once.
    """
    declared = ctx.quirks.declares_rules
    return objectmeta.validate_object_meta_update(new["metadata"], old["metadata"], declared=declared)


def template_metadata(metadata: ObjectMeta, path: Path) -> list[FieldError]:
    """Of the metadata of claims made from a template only labels and annotations may be given."""
    errs = objectmeta.validate_annotations(metadata.get("annotations") or {}, path.child("annotations"))
    errs += objectmeta.validate_labels(metadata.get("labels") or {}, path.child("labels"))
    for name, value in metadata.items():
        if value and name not in ("annotations", "labels"):
            errs.append(field.forbidden(path.child(name), "cannot be set"))
    return errs


_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


def finalizers(obj: Object) -> list[FieldError]:
    """Built-in kinds want finalizers to be qualified, beyond what the metadata of any kind must satisfy."""
    return [
        field.invalid(Path("metadata").child("finalizers").index(i), finalizer, _UNQUALIFIED)
        for i, finalizer in enumerate(obj["metadata"].get("finalizers") or ())
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


_UNQUALIFIED: Final = "name is neither a standard finalizer name nor is it fully qualified"
