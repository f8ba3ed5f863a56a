"""Parts of a definition beside its schema: printer columns, scale, selectable fields, and conversion by webhook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dray.api.groups.admissionregistration.webhooks import check_service, check_url
from dray.api.groups.apiextensions.fieldpaths import find_field
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

Part = Mapping[str, Any]

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_REVIEWS: Final = ("v1", "v1beta1")
_MOST_SELECTABLE: Final = 8


def check_column(column: Part, path: Path) -> Iterator[FieldError]:
    if not column.get("name"):
        yield field.required(path.child("name"))
    kind, listed = column.get("type", ""), f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        yield field.required(path.child("type"), listed)
    elif kind not in _COLUMN_TYPES:
        yield field.invalid(path.child("type"), kind, listed)
    if column.get("format") and column["format"] not in _COLUMN_FORMATS:
        words = f"must be one of {','.join(_COLUMN_FORMATS)}"
        yield field.invalid(path.child("format"), column["format"], words)
    if not column.get("jsonPath"):
        yield field.required(path.child("JSONPath"))
    else:
        yield from _check_path(column["jsonPath"], path.child("JSONPath"))


def _check_path(text: str, path: Path, *roots: str) -> Iterator[FieldError]:
    if not text.startswith("."):
        yield field.invalid(path, text, "must be a simple json path starting with .")
    elif roots and not text.startswith(tuple(f"{root}." for root in roots)):
        where = f"either {' or '.join(roots)}" if len(roots) > 1 else roots[0]
        yield field.invalid(path, text, f"should be a json path under {where}")


def check_scale(scale: Part, path: Path) -> Iterator[FieldError]:
    for part, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        at = path.child(f"scale.{part}")
        if not scale.get(part):
            yield field.required(at)
        else:
            yield from _check_path(scale[part], at, root)
    if scale.get("labelSelectorPath"):
        at = path.child("scale.labelSelectorPath")
        yield from _check_path(scale["labelSelectorPath"], at, ".spec", ".status")


def check_selectable(listed: Sequence[Part], schema: Part, path: Path) -> Iterator[FieldError]:
    seen: set[tuple[str, ...]] = set()
    for i, entry in enumerate(listed):
        text, at = entry.get("jsonPath", ""), path.index(i).child("jsonPath")
        if not text:
            yield field.required(at)
            continue
        target = find_field(text, schema, brackets=False)
        if isinstance(target, str):
            yield field.invalid(at, text, f"is an invalid path: {target}")
            continue
        if target.names[:1] == ("metadata",):
            yield field.invalid(at, text, "must not point to fields in metadata")
        if target.schema.get("type") not in ("string", "boolean", "integer"):
            words = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            yield field.invalid(at, text, words)
        if target.names in seen:
            yield field.duplicate(at, text)
        seen.add(target.names)
    if len(seen) > _MOST_SELECTABLE:
        yield field.too_many(path, len(seen), _MOST_SELECTABLE)


def check_conversion(conversion: Part, path: Path) -> Iterator[FieldError]:
    strategy = conversion.get("strategy", "")
    yield from checks.one_of(strategy, path.child("strategy"), ("None", "Webhook"))
    webhook: Part = conversion.get("webhook") or {}
    client, at = webhook.get("clientConfig"), path.child("webhookClientConfig")
    reviews: Sequence[str] = webhook.get("conversionReviewVersions") or ()
    listed = path.child("conversionReviewVersions")
    if strategy != "Webhook":
        words = "should not be set when strategy is not set to Webhook"
        if client is not None:
            yield field.forbidden(at, words)
        if reviews:
            yield field.forbidden(listed, words)
        return
    if client is None:
        yield field.required(at, "required when strategy is set to Webhook")
    elif (client.get("url") is None) == (client.get("service") is None):
        yield field.required(at, "exactly one of url or service is required")
    elif client.get("url") is not None:
        yield from check_url(client["url"], at.child("url"))
    else:
        yield from check_service(client["service"], at.child("service"))
    if not reviews:
        yield field.required(listed)
        return
    for i, version in enumerate(reviews):
        if version in reviews[:i]:
            yield field.invalid(listed.index(i), version, "duplicate version")
        else:
            yield from checks.each(version, listed.index(i), names.dns1035_label(version))
    if not set(reviews) & set(_REVIEWS):
        yield field.invalid(listed, list(reviews), f"must include at least one of {', '.join(_REVIEWS)}")
