"""Files that volumes make out of keys, fields and resources."""

from __future__ import annotations

from typing import Final

from dray.api.groups.core.pod.env import VOLUME_FIELDS, check_field_ref, check_resource_ref
from dray.api.groups.core.pod.options import Part
from dray.api.groups.core.pod.paths import check_not_reserved
from dray.api.validation import field
from dray.api.validation.field import FieldError, Path

_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"


def check_mode(holder: Part, part: str, path: Path) -> list[FieldError]:
    mode = holder.get(part)
    if mode is None or 0 <= mode <= 0o777:
        return []
    return [field.invalid(path.child(part), mode, _MODE)]


def check_key_to_path(item: Part, path: Path) -> list[FieldError]:
    found = [field.required(path.child(part)) for part in ("key", "path") if not item.get(part)]
    found += check_not_reserved(item.get("path", ""), path.child("path"))
    return found + check_mode(item, "mode", path)


def check_downward_file(item: Part, path: Path) -> list[FieldError]:
    found = [] if item.get("path") else [field.required(path.child("path"))]
    found += check_not_reserved(item.get("path", ""), path.child("path"))
    of_field, of_resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if of_field is not None:
        found += check_field_ref(of_field, path.child("fieldRef"), allowed=VOLUME_FIELDS)
        if of_resource is not None:
            words = "fieldRef and resourceFieldRef can not be specified simultaneously"
            found.append(field.invalid(path, "resource", words))
    elif of_resource is not None:
        found += check_resource_ref(of_resource, path.child("resourceFieldRef"), in_volume=True)
    else:
        found.append(field.required(path, "one of fieldRef and resourceFieldRef is required"))
    return found + check_mode(item, "mode", path)
