"""AdmissionReview: the request that a webhook gets, and the checks of its response."""

from __future__ import annotations

import uuid
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dray.api.errors import StatusError
from dray.api.scheme.kinds import Object
from dray.api.validation.field import quote
from dray.server.admission import Attributes
from dray.server.admission.activation import admission_request
from dray.server.admission.matcher import Matched
from dray.server.admission.webhooks.client import Answer, CallError

if TYPE_CHECKING:
    from dray.api.types.meta import Status

GROUP: Final = "admission.k8s.io"
_KNOWN: Final = ("v1", "v1beta1")
#: What client-go says of a code, whatever the server itself says.
_WORDS: Final[Mapping[int, str]] = {
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    415: "the body of the request was in an unknown format - accepted media types include: ",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


@dataclass(frozen=True, slots=True)
class Review:
    version: str
    uid: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    allowed: bool
    result: Status | None = None
    patch: bytes = b""
    patch_type: str = ""
    annotations: Mapping[str, str] | None = None
    warnings: Sequence[str] = ()


def review(attributes: Attributes, matched: Matched, versions: Sequence[str]) -> Review:
    """The review of a request, in the first version that both sides know."""
    version = next((v for v in versions if v in _KNOWN), None)
    if version is None:
        raise CallError(
            "could not create admission objects: webhook does not accept known AdmissionReview versions "
            "(v1, v1beta1)"
        )
    uid = str(uuid.uuid4())
    new, old = (
        None if obj is None else matched.codec.object(obj) for obj in (attributes.object, attributes.old)
    )
    request = {"uid": uid, **admission_request(attributes, matched), "object": new, "oldObject": old}
    document = {"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": request}
    return Review(version, uid, msgspec.json.encode(document))


def response(sent: Review, answer: Answer, *, mutating: bool) -> Response:
    """What a webhook says; CallError if it makes no sense."""
    document = _document(answer)
    found = document.get("response")
    if not isinstance(found, dict):
        raise _invalid("webhook response was absent")
    if sent.version == "v1":
        _check(sent, document, found, mutating=mutating)
    patch = _bytes(found.get("patch")) if mutating else b""
    kind = found.get("patchType") or ""
    if sent.version != "v1":
        kind = "JSONPatch" if patch else ""
    return Response(
        bool(found.get("allowed")),
        found.get("status") if isinstance(found.get("status"), dict) else None,
        patch,
        kind,
        {k: str(v) for k, v in (found.get("auditAnnotations") or {}).items()},
        [str(w) for w in found.get("warnings") or ()],
    )


def _document(answer: Answer) -> Object:
    text = answer.body.decode("utf-8", "replace")
    try:
        document = msgspec.json.decode(answer.body) if answer.body else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        document = e
    if not 200 <= answer.code <= 206:
        if isinstance(document, dict) and document.get("kind") == "Status" and document.get("message"):
            raise CallError(f"failed to call webhook: {document['message']}")
        raise CallError(f"failed to call webhook: {_refusal(answer.code, text)}")
    if not answer.body:
        raise CallError(
            f"failed to call webhook: 0-length response with status code: {answer.code} and content type: "
        )
    if not isinstance(document, dict):
        raise CallError(f"failed to call webhook: couldn't get version/kind; json parse error: {document}")
    return document


def _refusal(code: int, text: str) -> str:
    if code in _WORDS:
        return _WORDS[code]
    if code == 403:
        return text or "forbidden"
    if code >= 500:
        return (
            f"an error on the server ({quote(text or 'unknown')}) has prevented the request from succeeding"
        )
    return f"the server responded with the status code {code} but did not return more information"


def _check(sent: Review, document: Object, found: Object, *, mutating: bool) -> None:
    """The rules of v1; v1beta1 had none."""
    if found.get("uid", "") != sent.uid:
        raise _invalid(f"expected response.uid={quote(sent.uid)}, got {quote(str(found.get('uid', '')))}")
    group, _, version = str(document.get("apiVersion", "")).rpartition("/")
    got = f"{group}/{version}, Kind={document.get('kind', '')}"
    if got != f"{GROUP}/v1, Kind=AdmissionReview":
        raise _invalid(f"expected webhook response of {GROUP}/v1, Kind=AdmissionReview, got {got}")
    patch, kind = found.get("patch"), found.get("patchType")
    if not mutating:
        for name, value in (("patch", patch or None), ("patchType", kind)):
            if value is not None:
                raise _invalid(f"validating webhook may not return response.{name}")
        return
    if patch and kind is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    if not patch and kind is not None:
        raise _invalid("webhook returned response.patchType but not response.patch")
    if kind == "":
        raise _invalid('webhook returned invalid response.patchType of ""')


def _invalid(problem: str) -> CallError:
    return CallError(f"received invalid webhook response: {problem}")


def _bytes(value: Any) -> bytes:
    if not value:
        return b""
    try:
        return b64decode(value, validate=True)
    except (TypeError, ValueError) as e:
        raise CallError(f"failed to call webhook: illegal base64 data: {e}") from None


def rejection(webhook: str, result: Status | None) -> StatusError:
    """The refusal that a webhook has asked for."""
    status: Status = result or {}
    by = f"admission webhook {quote(webhook)} denied the request"
    if status.get("message"):
        message = f"{by}: {status['message']}"
    elif status.get("reason"):
        message = f"{by}: {status['reason']}"
    else:
        message = f"{by} without explanation"
    code = status.get("code")
    if not isinstance(code, int) or code < 400:
        code = 400
    return StatusError(message, details=status.get("details"), code=code, reason=status.get("reason") or "")
