"""certificates.k8s.io: requests to sign a certificate, their approval and what came of them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.core.pod.projected import check_signer
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import SPEC, STATUS, Context, Strategy, UpdateStrategy, keep_fields
from dray.api.validation import field
from dray.api.validation.field import FieldError

if TYPE_CHECKING:
    from dray.api.types.certificates import CertificateSigningRequest

_USAGES: Final = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
_LASTING: Final = ("Approved", "Denied", "Failed")
_DECISIONS: Final = ("Approved", "Denied")
_CONDITIONS: Final = STATUS.child("conditions")


def _any_name(name: str, is_prefix: bool) -> Sequence[str]:
    return ()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""


def _request_problem(encoded: str) -> str:
    """What is wrong with the PEM text of a request; empty if it is well-formed and signed by its own key."""
    text = _decoded(encoded)
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in text:
        return "PEM block type must be CERTIFICATE REQUEST"
    from cryptography import x509

    try:
        request = x509.load_pem_x509_csr(text)
    except ValueError as problem:
        return str(problem)
    return "" if request.is_signature_valid else "x509: signature verification failed"


def _certificate_problem(encoded: str) -> str:
    text = _decoded(encoded)
    if not text:
        return ""
    if b"-----BEGIN CERTIFICATE-----" not in text:
        return "must contain at least one CERTIFICATE PEM block"
    from cryptography import x509

    try:
        x509.load_pem_x509_certificates(text)
    except ValueError as problem:
        return str(problem)
    return ""


def _of(obj: CertificateSigningRequest, kind: str) -> list[Any]:
    return [c for c in obj.get("status", {}).get("conditions") or () if c.get("type") == kind]


def _check_conditions(obj: CertificateSigningRequest) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for i, condition in enumerate(obj.get("status", {}).get("conditions") or ()):
        at, kind, status = _CONDITIONS.index(i), condition.get("type", ""), condition.get("status", "")
        if not kind:
            found.append(field.required(at.child("type")))
        allowed = ("True",) if kind in _LASTING else ("False", "True", "Unknown")
        if not status:
            found.append(field.required(at.child("status")))
        elif status not in allowed:
            found.append(field.not_supported(at.child("status"), status, allowed))
        if kind in _DECISIONS and seen & (set(_DECISIONS) - {kind}):
            words = "Approved and Denied conditions are mutually exclusive"
            found.append(field.invalid(_CONDITIONS, kind, words))
        if kind in seen:
            found.append(field.duplicate(at.child("type"), kind))
        seen.add(kind)
    return found


def _check(obj: CertificateSigningRequest) -> list[FieldError]:
    spec = obj.get("spec", {})
    found: list[FieldError] = []
    if problem := _request_problem(spec.get("request") or ""):
        found.append(field.invalid(SPEC.child("request"), spec.get("request") or "", problem))
    usages = spec.get("usages") or ()
    if not usages:
        found.append(field.required(SPEC.child("usages")))
    for i, usage in enumerate(usages):
        if usage not in _USAGES:
            found.append(field.not_supported(SPEC.child("usages").index(i), usage, _USAGES))
    for i, usage in enumerate(usages):
        if usage in usages[:i]:
            found.append(field.duplicate(SPEC.child("usages").index(i), usage))
    signer, path = spec.get("signerName", ""), SPEC.child("signerName")
    if signer == "kubernetes.io/legacy-unknown":
        words = "the legacy signerName is not allowed via this API version"
        found.append(field.invalid(path, signer, words))
    else:
        found += check_signer(signer, path)
    if (seconds := spec.get("expirationSeconds")) is not None and seconds < 600:
        words = "may not specify a duration less than 600 seconds (10 minutes)"
        found.append(field.invalid(SPEC.child("expirationSeconds"), seconds, words))
    found += _check_conditions(obj)
    if problem := _certificate_problem(obj.get("status", {}).get("certificate") or ""):
        found.append(field.invalid(STATUS.child("certificate"), "<certificate data>", problem))
    return found


def _check_change(
    new: CertificateSigningRequest, old: CertificateSigningRequest, *, may_decide: bool, may_issue: bool
) -> list[FieldError]:
    found = _check(new)
    for kind in _LASTING:
        if len(_of(new, kind)) < len(_of(old, kind)):
            words = f"updates may not remove a condition of type {field.quote(kind)}"
            found.append(field.forbidden(_CONDITIONS, words))
    for kind in () if may_decide else _DECISIONS:
        after, before = _of(new, kind), _of(old, kind)
        if len(after) > len(before):
            words = f"updates may not add a condition of type {field.quote(kind)}"
            found.append(field.forbidden(_CONDITIONS, words))
        elif len(after) == len(before) and after != before:
            words = f"updates may not modify a condition of type {field.quote(kind)}\n"
            found.append(field.forbidden(_CONDITIONS, words))
    issued, before_issued = (x.get("status", {}).get("certificate") or "" for x in (new, old))
    if issued != before_issued:
        path = STATUS.child("certificate")
        if not may_issue:
            found.append(field.forbidden(path, "updates may not set certificate content"))
        elif before_issued:
            found.append(field.forbidden(path, "updates may not modify existing certificate content"))
    return found


def _stamp(new: CertificateSigningRequest, old: CertificateSigningRequest, now: str) -> None:
    """Conditions without times get them; a condition that was there before keeps its transition time."""
    known = {
        (c.get("type"), c.get("status")): c.get("lastTransitionTime")
        for c in reversed(old.get("status", {}).get("conditions") or ())
    }
    for condition in new.get("status", {}).get("conditions") or ():
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if not condition.get("lastTransitionTime"):
            identity = condition.get("type"), condition.get("status")
            condition["lastTransitionTime"] = known.get(identity) or now


class CertificateSigningRequestStrategy(Strategy["CertificateSigningRequest"]):
    check_name = staticmethod(_any_name)

    def prepare_create(self, obj: CertificateSigningRequest, ctx: Context) -> None:
        spec: Any = {
            k: v for k, v in obj.get("spec", {}).items() if k not in ("username", "uid", "groups", "extra")
        }
        obj["spec"] = spec | ctx.user.document()
        obj["status"] = {}

    def validate(self, obj: CertificateSigningRequest, ctx: Context) -> Sequence[FieldError]:
        return _check(obj)

    def prepare_update(
        self, new: CertificateSigningRequest, old: CertificateSigningRequest, ctx: Context
    ) -> None:
        keep_fields(new, old, "spec", "status")

    def validate_update(
        self, new: CertificateSigningRequest, old: CertificateSigningRequest, ctx: Context
    ) -> Sequence[FieldError]:
        return _check_change(new, old, may_decide=False, may_issue=False)


class CertificateSigningRequestStatusStrategy(UpdateStrategy["CertificateSigningRequest"]):
    """Where the signer puts the certificate."""

    def prepare_update(
        self, new: CertificateSigningRequest, old: CertificateSigningRequest, ctx: Context
    ) -> None:
        keep_fields(new, old, "spec")
        status = new.setdefault("status", {})
        for kind in _DECISIONS:
            before = _of(old, kind)
            if len(before) == len(_of(new, kind)):
                kept = iter(before)
                status["conditions"] = [
                    next(kept) if c.get("type") == kind else c for c in status.get("conditions") or ()
                ]
        if not status.get("conditions"):
            status.pop("conditions", None)
        _stamp(new, old, ctx.now)

    def validate_update(
        self, new: CertificateSigningRequest, old: CertificateSigningRequest, ctx: Context
    ) -> Sequence[FieldError]:
        return _check_change(new, old, may_decide=False, may_issue=True)


class CertificateSigningRequestApprovalStrategy(UpdateStrategy["CertificateSigningRequest"]):
    """Where a request is approved or denied."""

    def prepare_update(
        self, new: CertificateSigningRequest, old: CertificateSigningRequest, ctx: Context
    ) -> None:
        _stamp(new, old, ctx.now)
        conditions = new.get("status", {}).get("conditions")
        keep_fields(new, old, "spec", "status")
        new["status"] = (new.get("status") or {}).copy()
        new["status"].pop("conditions", None)
        if conditions:
            new["status"]["conditions"] = conditions

    def validate_update(
        self, new: CertificateSigningRequest, old: CertificateSigningRequest, ctx: Context
    ) -> Sequence[FieldError]:
        return _check_change(new, old, may_decide=True, may_issue=False)


def _state(obj: CertificateSigningRequest) -> str:
    decision = "Denied" if _of(obj, "Denied") else "Approved" if _of(obj, "Approved") else "Pending"
    failed = ",Failed" if _of(obj, "Failed") else ""
    return decision + failed + (",Issued" if obj.get("status", {}).get("certificate") else "")


def _cells(obj: CertificateSigningRequest, now: float) -> Sequence[object]:
    spec = obj.get("spec", {})
    seconds = spec.get("expirationSeconds")
    return (
        printers.name(obj),
        printers.age(obj, now),
        spec.get("signerName") or "<none>",
        spec.get("username", ""),
        "<none>" if seconds is None else printers.human_duration(seconds),
        _state(obj),
    )


CERTIFICATE_SIGNING_REQUEST = Kind(
    group="certificates.k8s.io",
    kind="CertificateSigningRequest",
    plural="certificatesigningrequests",
    namespaced=False,
    short_names=("csr",),
    versions=(Version(name="v1", type="certificates/v1.CertificateSigningRequest"),),
    storage="v1",
    strategy=CertificateSigningRequestStrategy(),
    subresources={
        "approval": CertificateSigningRequestApprovalStrategy(),
        "status": CertificateSigningRequestStatusStrategy(),
    },
    printer=printers.printer(
        (
            printers.NAME,
            printers.AGE,
            Column("SignerName", description="Who is asked to sign."),
            Column("Requestor", description="Who asks."),
            Column("RequestedDuration", description="For how long the certificate should be valid."),
            Column("Condition", description="What has become of the request."),
        ),
        _cells,
    ),
    fields={"spec.signerName": lambda obj: str(obj.get("spec", {}).get("signerName", ""))},
)
KINDS = (CERTIFICATE_SIGNING_REQUEST,)
