"""Environment variables: given as text, or taken from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.groups.core.pod.options import Part, PodValidationOptions
from dray.api.groups.core.pod.paths import check_no_backsteps
from dray.api.quantity import Quantity
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import EnvFromSource, EnvVar

_ENV_FIELDS: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
VOLUME_FIELDS: Final = (
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
)  # fmt: skip
#: Paths that have a meaning anywhere, whether they can be used here or not.
_KNOWN_FIELDS: Final = frozenset({*_ENV_FIELDS, *VOLUME_FIELDS})
_RESOURCES: Final = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_SUBSCRIPT: Final = re.compile(r"(.+)\['(.*)'\]")
_SIZES: Final = frozenset(
    {"1", *(f"1{prefix}{binary}" for prefix in "MGTPE" for binary in ("", "i")), "1k", "1Ki"}
)
_SIZES_SHOWN: Final = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"


def _check_name(name: str, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    relaxed = opts.on("RelaxedEnvironmentVariableValidation")
    return checks.each(name, path, names.relaxed_env_var_name(name) if relaxed else names.env_var_name(name))


def check_env(variables: Sequence[EnvVar], path: Path, opts: PodValidationOptions) -> list[FieldError]:
    found: list[FieldError] = []
    for i, variable in enumerate(variables):
        at, name = path.index(i), variable.get("name", "")
        found += _check_name(name, at.child("name"), opts) if name else [field.required(at.child("name"))]
        if (source := variable.get("valueFrom")) is not None:
            found += _check_source(source, variable.get("value", ""), at.child("valueFrom"), opts)
    return found


def _check_source(source: Part, value: str, path: Path, opts: PodValidationOptions) -> list[FieldError]:
    found: list[FieldError] = []
    given = 0
    for part, check in (
        ("fieldRef", lambda s, p: check_field_ref(s, p, allowed=_ENV_FIELDS)),
        ("resourceFieldRef", lambda s, p: check_resource_ref(s, p, in_volume=False)),
        ("configMapKeyRef", _check_key_ref),
        ("secretKeyRef", _check_key_ref),
        ("fileKeyRef", _check_file_ref),
    ):
        if source.get(part) is not None:
            given += 1
            found += check(source[part], path.child(part))
    if not given:
        kinds = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`"
        more = ", `secretKeyRef` or `fileKeyRef`" if opts.on("EnvFiles") else " or `secretKeyRef`"
        found.append(field.invalid(path, "", f"must specify one of: {kinds}{more}"))
    elif value:
        found.append(field.invalid(path, "", "may not be specified when `value` is not empty"))
    elif given > 1:
        found.append(field.invalid(path, "", "may not have more than one field specified at a time"))
    return found


def check_field_ref(ref: Part, path: Path, *, allowed: Sequence[str]) -> list[FieldError]:
    version, written = ref.get("apiVersion", ""), ref.get("fieldPath", "")
    if not version:
        return [field.required(path.child("apiVersion"))]
    if not written:
        return [field.required(path.child("fieldPath"))]
    at = path.child("fieldPath")
    if version != "v1":
        problem = f"unsupported pod version: {version}"
        return [field.invalid(at, written, f"error converting fieldPath: {problem}")]
    if subscripted := _SUBSCRIPT.fullmatch(written):
        holder, key = subscripted.groups()
        if holder == "metadata.annotations":
            return checks.qualified_name(key.lower(), path)
        if holder == "metadata.labels":
            return checks.qualified_name(key, path)
        problem = f"field label does not support subscript: {written}"
        return [field.invalid(at, written, f"error converting fieldPath: {problem}")]
    if written not in _KNOWN_FIELDS and written != "spec.host":
        problem = f"field label not supported: {written}"
        return [field.invalid(at, written, f"error converting fieldPath: {problem}")]
    shown = "spec.nodeName" if written == "spec.host" else written
    return [] if shown in allowed else [field.not_supported(at, shown, allowed)]


def check_resource_ref(ref: Part, path: Path, *, in_volume: bool) -> list[FieldError]:
    resource = ref.get("resource", "")
    found: list[FieldError] = []
    if in_volume and not ref.get("containerName"):
        found.append(field.required(path.child("containerName")))
    elif not resource:
        found.append(field.required(path.child("resource")))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        found.append(field.not_supported(path.child("resource"), resource, _RESOURCES))
    return found + _check_divisor(resource, ref.get("divisor", "0"), path.child("divisor"))


def _check_divisor(resource: str, divisor: str, path: Path) -> list[FieldError]:
    unit = str(Quantity.parse(divisor))
    if unit == "0":
        return []
    measured = resource.partition(".")[2]
    if measured == "cpu":
        if unit in ("1", "1m"):
            return []
        words = "only divisor's values 1m and 1 are supported with the cpu resource"
        return [field.invalid(path, resource, words)]
    names_shown = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}
    shown = "hugepages" if resource.startswith(_HUGE_PAGES) else names_shown.get(measured)
    if shown is None or unit in _SIZES:
        return []
    words = f"only divisor's values {_SIZES_SHOWN} are supported with the {shown} resource"
    return [field.invalid(path, resource, words)]


def _check_key_ref(ref: Part, path: Path) -> list[FieldError]:
    name, key = ref.get("name", ""), ref.get("key", "")
    found = checks.dns_subdomain(name, path.child("name"))
    return found + (
        checks.config_map_key(key, path.child("key")) if key else [field.required(path.child("key"))]
    )


def _check_file_ref(ref: Part, path: Path) -> list[FieldError]:
    key, volume, file = ref.get("key", ""), ref.get("volumeName", ""), ref.get("path", "")
    at = path.child("key")
    found = checks.each(key, at, names.relaxed_env_var_name(key)) if key else [field.required(at)]
    at = path.child("volumeName")
    found += checks.dns_label(volume, at) if volume else [field.required(at)]
    at = path.child("path")
    return found + (check_no_backsteps(file, at) if file else [field.required(at)])


def check_env_from(
    sources: Sequence[EnvFromSource], path: Path, opts: PodValidationOptions
) -> list[FieldError]:
    found: list[FieldError] = []
    for i, source in enumerate(sources):
        at = path.index(i)
        if source.get("prefix"):
            found += _check_name(source["prefix"], at.child("prefix"), opts)
        references = (("configMapRef", source.get("configMapRef")), ("secretRef", source.get("secretRef")))
        given = [(part, reference) for part, reference in references if reference is not None]
        for part, reference in given:
            name, where = reference.get("name", ""), at.child(part, "name")
            found += checks.dns_subdomain(_unmasked(name), where) if name else [field.required(where)]
        if not given:
            found.append(field.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            found.append(field.invalid(path, "", "may not have more than one field specified at a time"))
    return found


def _unmasked(name: str) -> str:
    """A trailing dash is allowed here, as in a prefix."""
    return name[:-2] + "a" if len(name) > 1 and name.endswith("-") else name
