"""Projected volumes: several sources in one directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dray.api.groups.core.pod.files import check_downward_file, check_key_to_path, check_mode
from dray.api.groups.core.pod.options import Part
from dray.api.groups.core.pod.paths import check_not_reserved
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta

_KEY_TYPES: Final = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_DUPLICATE: Final = "conflicting duplicate paths"
_TEN_MINUTES: Final = 600
_HOUR: Final = 3600
_DAY: Final = 24 * _HOUR
_LONGEST_CERTIFICATE: Final = 91 * _DAY


def check_projected(source: Part, path: Path) -> list[FieldError]:
    found = check_mode(source, "defaultMode", path)
    taken: set[str] = set()
    for i, entry in enumerate(source.get("sources") or ()):
        found += _check_entry(entry, path, path.child("sources").index(i), taken)
    return found


def _check_entry(entry: Part, path: Path, at: Path, taken: set[str]) -> list[FieldError]:
    found: list[FieldError] = []
    given = 0
    for part, check in (
        ("secret", _check_keyed),
        ("configMap", _check_keyed),
        ("downwardAPI", _check_downward),
        ("serviceAccountToken", _check_token),
        ("clusterTrustBundle", _check_bundle),
        ("podCertificate", _check_certificate),
    ):
        if entry.get(part) is not None:
            given += 1
            found += check(entry[part], path, at.child(part), taken)
    if given > 1:
        found.append(field.forbidden(at, "may not specify more than 1 volume type per source"))
    return found


def _take(file: str, shown: str, path: Path, taken: set[str]) -> list[FieldError]:
    if file in taken:
        return [field.invalid(path, shown, _DUPLICATE)]
    if file:
        taken.add(file)
    return []


def _check_keyed(source: Part, path: Path, at: Path, taken: set[str]) -> list[FieldError]:
    name = source.get("name", "")
    found = [] if name else [field.required(at.child("name"))]
    for i, item in enumerate(source.get("items") or ()):
        found += check_key_to_path(item, at.child("items").index(i))
        found += _take(item.get("path", ""), name, path, taken)
    return found


def _check_downward(source: Part, path: Path, at: Path, taken: set[str]) -> list[FieldError]:
    found: list[FieldError] = []
    for item in source.get("items") or ():
        file = item.get("path", "")
        found += check_downward_file(item, at) + _take(file, file, path, taken)
    return found


def _check_token(source: Part, path: Path, at: Path, taken: set[str]) -> list[FieldError]:
    seconds, found = source.get("expirationSeconds", 0), []
    if seconds < _TEN_MINUTES:
        words = "may not specify a duration less than 10 minutes"
        found.append(field.invalid(at.child("expirationSeconds"), seconds, words))
    if seconds > 1 << 32:
        words = "may not specify a duration larger than 2^32 seconds"
        found.append(field.invalid(at.child("expirationSeconds"), seconds, words))
    file, where = source.get("path", ""), path.child("path")
    return found + (check_not_reserved(file, where) if file else [field.required(where)])


def _check_bundle(source: Part, path: Path, at: Path, taken: set[str]) -> list[FieldError]:
    name, signer = source.get("name"), source.get("signerName")
    found: list[FieldError] = []
    if name is not None and signer is not None:
        found.append(field.invalid(at, dict(source), "only one of name and signerName may be used"))
    elif name is not None:
        if not name:
            found.append(field.required(at.child("name"), "must be a valid object name"))
        messages = names.dns1123_subdomain(name.rpartition(":")[2])
        words = "not a valid clustertrustbundlename"
        found += [field.invalid(at.child("name"), name, f"{words}: {message}") for message in messages]
        if source.get("labelSelector") is not None:
            words = "labelSelector must be unset if name is specified"
            found.append(field.invalid(at.child("labelSelector"), source["labelSelector"], words))
    elif signer is not None:
        if not signer:
            found.append(field.required(at.child("signerName"), "must be a valid signer name"))
        found += check_signer(signer, at.child("signerName"))
        found += checks.label_selector(source.get("labelSelector"), at.child("labelSelector"))
    else:
        found.append(field.required(at, "either name or signerName must be specified"))
    file = source.get("path", "")
    found += [] if file else [field.required(at.child("path"))]
    return found + check_not_reserved(file, at.child("path")) + _take(file, file, path, taken)


def _check_certificate(source: Part, path: Path, at: Path, taken: set[str]) -> list[FieldError]:
    signer = source.get("signerName", "")
    found = check_signer(signer, at.child("signerName"))
    if (kind := source.get("keyType", "")) not in _KEY_TYPES:
        found.append(field.not_supported(at.child("keyType"), kind, _KEY_TYPES))
    if (longest := source.get("maxExpirationSeconds")) is not None:
        limit = _DAY if signer.startswith("kubernetes.io/") else _LONGEST_CERTIFICATE
        where = at.child("maxExpirationSeconds")
        if longest < _HOUR:
            found.append(field.invalid(where, longest, "if provided, maxExpirationSeconds must be >= 3600"))
        if longest > limit:
            found.append(
                field.invalid(where, longest, f"if provided, maxExpirationSeconds must be <= {limit}")
            )
    files = {
        part: source[part]
        for part in ("credentialBundlePath", "keyPath", "certificateChainPath")
        if source.get(part)
    }
    for part, file in files.items():
        found += check_not_reserved(file, at.child(part)) + _take(file, file, path, taken)
    if not files:
        words = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        found.append(field.required(at, words))
    return found


def check_signer(name: str, path: Path) -> list[FieldError]:
    """``domain/path``: the name of who signs certificates."""
    if not name:
        return [field.required(path)]
    domain, slash, rest = name.partition("/")
    if not slash or "/" in rest:
        words = 'must be a fully qualified domain and path of the form "example.com/signer-name"'
        return [field.invalid(path, name, words)]
    found: list[FieldError] = []
    for message in names.dns1123_subdomain(domain):
        words = f"validating label {field.quote(domain)}: {message}"
        found.append(field.invalid(path, name, words))
    if len(domain.split(".")) < 2:
        found.append(
            field.invalid(path, name, "should be a domain with at least two segments separated by dots")
        )
    for segment in rest.split("."):
        found += (
            field.invalid(path, name, f"validating label {field.quote(segment)}: {message}")
            for message in names.dns1123_label(segment)
        )
    return found


def check_annotations_and_labels(meta: ObjectMeta, path: Path) -> list[FieldError]:
    """Metadata of which only labels and annotations are used."""
    found: list[FieldError] = []
    for key in sorted(meta.get("annotations") or {}):
        found += checks.each(key, path.child("annotations"), names.qualified_name(key.lower()))
    found += checks.labels(meta.get("labels"), path.child("labels"))
    for part in meta:
        if part not in ("annotations", "labels"):
            found.append(field.forbidden(path.child(part), "cannot be set"))
    return found
