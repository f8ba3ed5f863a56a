"""One error tree: a class per Kubernetes Status reason. Foreign errors are mapped to it where they enter.

StatusError
├── BadRequest 400          ├── Conflict 409            ├── UnsupportedMediaType 415
├── Unauthorized 401        ├── AlreadyExists 409       ├── Invalid 422
├── Forbidden 403           ├── Gone 410                ├── TooManyRequests 429
├── NotFound 404            ├── Expired 410             ├── InternalError 500
├── MethodNotAllowed 405    ├── RequestEntityTooLarge 413  ├── ServiceUnavailable 503
└── NotAcceptable 406                                   └── Timeout 504
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from dray.api.validation.field import FieldError


class StatusError(Exception):
    """A failure with the Status body that tells a client about it."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        code: int | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = dict(details) if details is not None else None
        self.http_code = self.code if code is None else code
        self.status_reason = self.reason if reason is None else reason

    def status(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.status_reason:
            body["reason"] = self.status_reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.http_code
        return body

    @classmethod
    def from_status(cls, body: Mapping[str, Any], code: int) -> StatusError:
        """The typed error behind a Status body that another server sent."""
        reason = body.get("reason", "")
        kind = _BY_REASON.get(reason) or _BY_CODE.get(code, StatusError)
        return kind(
            body.get("message", ""), details=body.get("details"), code=body.get("code", code), reason=reason
        )


class BadRequest(StatusError):
    code, reason = 400, "BadRequest"


class Unauthorized(StatusError):
    code, reason = 401, "Unauthorized"


class Forbidden(StatusError):
    code, reason = 403, "Forbidden"


class NotFound(StatusError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(StatusError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(StatusError):
    code, reason = 406, "NotAcceptable"


class Conflict(StatusError):
    code, reason = 409, "Conflict"


class AlreadyExists(StatusError):
    code, reason = 409, "AlreadyExists"


class Gone(StatusError):
    code, reason = 410, "Gone"


class Expired(StatusError):
    code, reason = 410, "Expired"


class RequestEntityTooLarge(StatusError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(StatusError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(StatusError):
    code, reason = 422, "Invalid"


class TooManyRequests(StatusError):
    code, reason = 429, "TooManyRequests"


class InternalError(StatusError):
    code, reason = 500, "InternalError"


class ServiceUnavailable(StatusError):
    code, reason = 503, "ServiceUnavailable"


class Timeout(StatusError):
    code, reason = 504, "Timeout"


_ALL = (
    BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, NotAcceptable, Conflict, AlreadyExists, Gone,
    Expired, RequestEntityTooLarge, UnsupportedMediaType, Invalid, TooManyRequests, InternalError,
    ServiceUnavailable, Timeout,
)  # fmt: skip
_BY_REASON: dict[str, type[StatusError]] = {c.reason: c for c in _ALL}
_BY_CODE: dict[int, type[StatusError]] = {c.code: c for c in reversed(_ALL)}


def qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def not_found(resource: str, group: str, name: str) -> NotFound:
    return NotFound(f'{qualified(resource, group)} "{name}" not found', details=_who(resource, group, name))


def already_exists(resource: str, group: str, name: str) -> AlreadyExists:
    return AlreadyExists(
        f'{qualified(resource, group)} "{name}" already exists', details=_who(resource, group, name)
    )


def conflict(resource: str, group: str, name: str, problem: str) -> Conflict:
    message = f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {problem}'
    return Conflict(message, details=_who(resource, group, name))


def forbidden(resource: str, group: str, name: str, problem: str) -> Forbidden:
    message = (
        f'{qualified(resource, group)} "{name}" is forbidden: {problem}'
        if name
        else f"{qualified(resource, group)} is forbidden: {problem}"
    )
    return Forbidden(message, details=_who(resource, group, name))


def invalid(kind: str, group: str, name: str, problems: Iterable[FieldError]) -> Invalid:
    """The 422 that carries every field error as a cause; its message says the same thing only once."""
    listed = list(problems)
    texts = list(dict.fromkeys(str(p) for p in listed))
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _who(kind, group, name)
    details["causes"] = [{"reason": p.reason, "message": p.body, "field": p.field} for p in listed]
    return Invalid(f'{qualified(kind, group)} "{name}" is invalid: {summary}', details=details)


def _who(kind: str, group: str, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return details
