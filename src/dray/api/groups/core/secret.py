"""Secrets: entries by key, and what each well-known type must hold."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dray.api.errors import BadRequest
from dray.api.groups.core.configmap import IMMUTABLE, MAX_SIZE, size
from dray.api.schema import gojson
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import METADATA, Context, SubdomainStrategy, immutable
from dray.api.validation import field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import Secret

_DATA: Final = Path("data")
_JSON_KINDS: Final = {list: "array", str: "string", bool: "bool"}
_SERVICE_ACCOUNT: Final = "kubernetes.io/service-account.name"


def _default(obj: Secret) -> None:
    obj.setdefault("type", "Opaque")


def _merge_strings(obj: Secret) -> Secret:
    """``stringData`` is for writing only: its entries become data, and replace what is there."""
    strings = obj.get("stringData")
    if strings is None:
        return obj
    merged = obj.copy()
    merged.pop("stringData", None)
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in strings.items()}
    if data := {**(obj.get("data") or {}), **encoded}:
        merged["data"] = data
    return merged


def _json_object(encoded: str) -> str | None:
    """What is wrong with an entry that should hold a JSON object."""
    try:
        found = gojson.parse(base64.b64decode(encoded))
    except BadRequest as problem:
        return problem.message
    if found is None or isinstance(found, gojson.Members):
        return None
    kind = _JSON_KINDS.get(type(found), "number")
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"


def _missing(data: Mapping[str, str], *keys: str) -> list[FieldError]:
    return [field.required(_DATA.key(key)) for key in keys if key not in data]


def _by_type(obj: Secret, data: Mapping[str, str]) -> list[FieldError]:
    match obj.get("type", ""):
        case "kubernetes.io/service-account-token":
            if not (obj["metadata"].get("annotations") or {}).get(_SERVICE_ACCOUNT):
                return [field.required(METADATA.child("annotations").key(_SERVICE_ACCOUNT))]
        case "kubernetes.io/dockercfg":
            return _json_entry(data, ".dockercfg")
        case "kubernetes.io/dockerconfigjson":
            return _json_entry(data, ".dockerconfigjson")
        case "kubernetes.io/basic-auth":
            if "username" not in data and "password" not in data:
                return _missing(data, "username", "password")
        case "kubernetes.io/ssh-auth":
            if not data.get("ssh-privatekey"):
                return [field.required(_DATA.key("ssh-privatekey"))]
        case "kubernetes.io/tls":
            return _missing(data, "tls.crt", "tls.key")
    return []


def _json_entry(data: Mapping[str, str], key: str) -> list[FieldError]:
    if key not in data:
        return [field.required(_DATA.key(key))]
    if (problem := _json_object(data[key])) is not None:
        return [field.invalid(_DATA.key(key), "<secret contents redacted>", problem)]
    return []


def _pair_problem(data: Mapping[str, str]) -> str:
    """Why a certificate and a key are none, or are not each other's."""
    certificate, key = (base64.b64decode(data.get(name, "")) for name in ("tls.crt", "tls.key"))
    for what, text in (("certificate", certificate), ("key", key)):
        if b"-----BEGIN " not in text or b"-----END " not in text:
            return f"failed to find any PEM data in {what} input"
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.x509 import load_pem_x509_certificate

    try:
        public = load_pem_x509_certificate(certificate).public_key()
    except ValueError:
        return "failed to parse certificate"
    try:
        private = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "failed to parse private key"
    shown = [
        k.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        for k in (public, private.public_key())
    ]
    return "" if shown[0] == shown[1] else "private key does not match public key"


class SecretStrategy(SubdomainStrategy["Secret"]):
    rechecks_metadata = True

    def validate(self, obj: Secret, ctx: Context) -> Sequence[FieldError]:
        data = obj.get("data") or {}
        found = [
            field.invalid(_DATA.key(key), key, message)
            for key in sorted(data)
            for message in names.config_map_key(key)
        ]
        if sum(size(value) for value in data.values()) > MAX_SIZE:
            found.append(field.too_long(_DATA, MAX_SIZE))
        return found + _by_type(obj, data)

    def warn(self, obj: Secret, ctx: Context) -> Sequence[str]:
        if obj.get("type") != "kubernetes.io/tls":
            return ()
        problem = _pair_problem(obj.get("data") or {})
        return (f"tls: {problem}",) if problem else ()

    def warn_update(self, new: Secret, old: Secret, ctx: Context) -> Sequence[str]:
        return self.warn(new, ctx)

    def prepare_update(self, new: Secret, old: Secret, ctx: Context) -> None:
        if not new.get("type") and old.get("type"):
            new["type"] = old["type"]

    def validate_update(self, new: Secret, old: Secret, ctx: Context) -> Sequence[FieldError]:
        found = [*immutable(new.get("type", ""), old.get("type", ""), Path("type"))]
        if old.get("immutable"):
            if not new.get("immutable"):
                found.append(field.forbidden(Path("immutable"), IMMUTABLE))
            if new.get("data") != old.get("data"):
                found.append(field.forbidden(_DATA, IMMUTABLE))
        return [*found, *self.validate(new, ctx)]


def _cells(obj: Secret, now: float) -> Sequence[object]:
    return printers.name(obj), obj.get("type", ""), len(obj.get("data") or ()), printers.age(obj, now)


KIND = Kind(
    group="",
    kind="Secret",
    plural="secrets",
    versions=(Version(name="v1", type="core/v1.Secret", default=_default, to_hub=_merge_strings),),
    storage="v1",
    strategy=SecretStrategy(),
    printer=printers.printer(
        (
            printers.NAME,
            Column("Type", description="What the entries are for."),
            Column("Data", description="How many entries there are."),
            printers.AGE,
        ),
        _cells,
    ),
    fields={"type": lambda obj: str(obj.get("type", ""))},
)
