"""ConfigMaps and the size limit they share with Secrets."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import Context, SubdomainStrategy
from dray.api.validation import field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import ConfigMap

MAX_SIZE: Final = 1024 * 1024
IMMUTABLE: Final = "field is immutable when `immutable` is set"


def size(encoded: str) -> int:
    """How many bytes a base64 text stands for."""
    return len(base64.b64decode(encoded))


class ConfigMapStrategy(SubdomainStrategy["ConfigMap"]):
    rechecks_metadata = True

    def validate(self, obj: ConfigMap, ctx: Context) -> Sequence[FieldError]:
        found: list[FieldError] = []
        text, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        for key in sorted(text):
            path = Path("data").key(key)
            found += (field.invalid(path, key, message) for message in names.config_map_key(key))
            if key in binary:
                found.append(field.invalid(path, key, "duplicate of key present in binaryData"))
        for key in sorted(binary):
            path = Path("binaryData").key(key)
            found += (field.invalid(path, key, message) for message in names.config_map_key(key))
        total = sum(len(v.encode()) for v in text.values()) + sum(size(v) for v in binary.values())
        if total > MAX_SIZE:
            found.append(field.too_long(Path("[]"), MAX_SIZE))
        return found

    def validate_update(self, new: ConfigMap, old: ConfigMap, ctx: Context) -> Sequence[FieldError]:
        found: list[FieldError] = []
        if old.get("immutable"):
            if not new.get("immutable"):
                found.append(field.forbidden(Path("immutable"), IMMUTABLE))
            changed = [part for part in ("data", "binaryData") if new.get(part) != old.get(part)]
            found += [field.forbidden(Path(part), IMMUTABLE) for part in changed]
        return [*found, *self.validate(new, ctx)]


def _cells(obj: ConfigMap, now: float) -> Sequence[object]:
    entries = len(obj.get("data") or ()) + len(obj.get("binaryData") or ())
    return printers.name(obj), entries, printers.age(obj, now)


KIND = Kind(
    group="",
    kind="ConfigMap",
    plural="configmaps",
    short_names=("cm",),
    versions=(Version(name="v1", type="core/v1.ConfigMap"),),
    storage="v1",
    strategy=ConfigMapStrategy(),
    printer=printers.printer(
        (printers.NAME, Column("Data", description="How many entries there are."), printers.AGE), _cells
    ),
)
