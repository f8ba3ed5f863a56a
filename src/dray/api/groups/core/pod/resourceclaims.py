"""A pod's resource claims, in today's flat form and in the nested one that releases before 1.31 wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dray.api import pods
from dray.api.groups.core.pod.options import PodValidationOptions
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import PodResourceClaim, PodSpec
    from dray.api.types.meta import ObjectMeta

_NAMES: Final = ("resourceClaimName", "resourceClaimTemplateName")


def flattened(spec: PodSpec) -> PodSpec:
    """A spec with the names of claims taken out of their nested source; the same spec if there is none."""
    entries = spec.get("resourceClaims") or ()
    if not any("source" in entry for entry in entries):
        return spec
    flat: list[Any] = []
    for entry in entries:
        source = entry.get("source") or {}
        given = {part: source[part] for part in _NAMES if source.get(part) is not None}
        flat.append({**given, **{key: value for key, value in entry.items() if key != "source"}})
    return {**spec, "resourceClaims": flat}


def nested(spec: PodSpec) -> PodSpec:
    """A spec as an old release wrote it: each claim's source is an object of its own."""
    entries = spec.get("resourceClaims")
    if not entries:
        return spec
    old: list[Any] = []
    for entry in entries:
        source = {part: entry[part] for part in _NAMES if part in entry}
        old.append({**{k: v for k, v in entry.items() if k not in _NAMES}, "source": source})
    return {**spec, "resourceClaims": old}


def check_claims(spec: PodSpec, meta: ObjectMeta, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    static = pods.MIRROR_ANNOTATION in (meta.get("annotations") or {})
    for i, entry in enumerate(spec.get("resourceClaims") or ()):
        if static:
            found.append(field.forbidden(Path("[]"), "static pods do not support resource claims"))
            continue
        at, name = path.index(i), entry.get("name", "")
        if not name:
            found.append(field.required(at.child("name")))
        elif name in seen:
            found.append(field.duplicate(at.child("name"), name))
        else:
            found += checks.dns_label(name, at.child("name"))
            seen.add(name)
        found += _check_source(entry, at.child("source") if opts.nested_claims else at, opts)
    return found


def _check_source(entry: PodResourceClaim, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    claim, template = entry.get(_NAMES[0]), entry.get(_NAMES[1])
    found: list[FieldError] = []
    if claim is not None and template is not None:
        words = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        found.append(field.invalid(path, _shown(entry, opts), words))
    if claim is None and template is None:
        words = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        found.append(field.invalid(path, _shown(entry, opts), words))
    for part in _NAMES:
        if (name := entry.get(part)) is not None:
            found += checks.each(name, path.child(part), names.dns1123_subdomain(name))
    return found


def _shown(entry: PodResourceClaim, opts: PodValidationOptions) -> Any:
    """An entry as upstream prints it: by the names of its internal struct."""
    shown = {"ResourceClaimName": entry.get(_NAMES[0]), "ResourceClaimTemplateName": entry.get(_NAMES[1])}
    return shown if opts.nested_claims else {"Name": entry.get("name", ""), **shown}
