"""Audit: events of audit.k8s.io/v1 that record who requested what, and the response."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from dray.api.errors import StatusError
from dray.api.scheme.kinds import Object
from dray.api.times import format_micro_time
from dray.api.user import UserInfo
from dray.server.admission import AuditAnnotation
from dray.server.audit.policy import (
    COMPLETE,
    PANIC,
    RECEIVED,
    REQUEST,
    RESPONSE,
    STARTED,
    Policy,
    RequestAuditConfig,
)
from dray.server.audit.policy import NONE as NOT_LOGGED
from dray.server.auth.authorizer import Attributes, Verdict
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responses import ObjectBody, Response, StreamBody, UpgradeBody
from dray.server.endpoints.watch import Watch
from dray.server.storage.documents import Listing

_LONGEST_AGENT: Final = 1024
_DECISION: Final = "authorization.k8s.io/decision"
_REASON: Final = "authorization.k8s.io/reason"
_NOTHING: Final = RequestAuditConfig(NOT_LOGGED)

Handle = Callable[[Request], Awaitable[Response]]


class Sink(Protocol):
    def write(self, event: Object) -> None: ...


class AuditContext:
    """What is known of one request so far. The pipeline tells who it is and whether they may."""

    def __init__(self, audit: Audit, request: Request) -> None:
        self._audit = audit
        self._request = request
        self._received = audit.clock()
        self._user: UserInfo | None = None
        self._acting_as: UserInfo | None = None
        self._asked: Attributes | None = None
        self._audit_config = _NOTHING
        self._body: Any = None  # as it was sent, in JSON's terms
        self.id = request.headers.get("audit-id") or str(uuid.uuid4())
        self.notes: dict[str, AuditAnnotation] = {}  # shared with admission

    def identified(self, asked: Attributes, *, caller: UserInfo) -> None:
        """The caller, and the user in whose name the request is judged."""
        self._asked = asked
        self._user = caller
        self._acting_as = asked.user if asked.user != caller else None
        self._audit_config = self._audit.policy.audit_config(asked)
        self._log(RECEIVED)

    def sent(self, obj: Object) -> None:
        """The object that came with the request, whichever way it was encoded."""
        self._body = obj

    def decided(self, verdict: Verdict) -> None:
        self.notes[_DECISION] = AuditAnnotation("allow" if verdict.allowed else "forbid")
        self.notes[_REASON] = AuditAnnotation(verdict.reason)

    def failed(self, error: StatusError) -> None:
        if self._asked is None:
            # Authentication refused the request; only rules without a user are about it.
            info = self._request.info
            verb = info.verb if info is not None else self._request.method.lower()
            self._audit_config = self._audit.policy.audit_config(
                Attributes(UserInfo(""), verb, path=self._request.path)
            )
        self._log(COMPLETE, status=error.status())

    def crashed(self) -> None:
        status = {"metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500}
        self._log(PANIC, status=status)

    def answered(self, response: Response) -> None:
        body = response.body
        status: Object = {"metadata": {}, "code": response.code}
        if isinstance(body, Watch):
            self._log(STARTED, status=status)
            body.ended = lambda: self._log(COMPLETE, status=status)
            return
        if isinstance(body, StreamBody | UpgradeBody):
            self._log(STARTED, status=status)
            return
        self._log(COMPLETE, status=status, response=response)

    # -- events

    def _log(self, stage: str, *, status: Object | None = None, response: Response | None = None) -> None:
        if not self._audit_config.logs(stage):
            return
        request, level = self._request, self._audit_config.level
        event: Object = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": level,
            "auditID": self.id,
            "stage": stage,
            "requestURI": f"{request.path}?{request.query.raw}" if request.query.raw else request.path,
            "verb": self._asked.verb if self._asked is not None else request.method.lower(),
            "user": {} if self._user is None else self._user.document(),
        }
        if self._acting_as is not None:
            event["impersonatedUser"] = self._acting_as.document()
        if request.peer.address:
            event["sourceIPs"] = [request.peer.address]
        if agent := request.headers.get("user-agent"):
            cut = len(agent) > _LONGEST_AGENT
            event["userAgent"] = f"{agent[:_LONGEST_AGENT]}...TRUNCATED" if cut else agent
        if self._asked is not None and self._asked.is_resource:
            event["objectRef"] = self._object_ref(self._asked)
        if status is not None:
            event["responseStatus"] = _status(status)
        if stage != RECEIVED:
            self._add_bodies(event, response)
        event["requestReceivedTimestamp"] = _micro(self._received)
        event["stageTimestamp"] = _micro(self._audit.clock())
        if notes := self._annotations():
            event["annotations"] = notes
        self._audit.sink.write(event)

    def _object_ref(self, asked: Attributes) -> Object:
        meta = _metadata(self._body)
        found = {
            "resource": asked.resource,
            "namespace": asked.namespace or meta.get("namespace", ""),
            "name": asked.name or meta.get("name", ""),
            "uid": meta.get("uid", ""),
            "apiGroup": asked.group,
            "apiVersion": asked.version,
            "resourceVersion": meta.get("resourceVersion", ""),
            "subresource": asked.subresource,
        }
        return {key: value for key, value in found.items() if value}

    def _add_bodies(self, event: Object, response: Response | None) -> None:
        audit_config = self._audit_config
        if self._asked is None or not self._asked.is_resource:
            return
        if audit_config.at_least(REQUEST) and (sent := self._sent()) is not None:
            event["requestObject"] = sent if audit_config.managed_fields else _without_managers(sent)
        if audit_config.at_least(RESPONSE) and response is not None:
            found = _content(response)
            if found is not None:
                event["responseObject"] = found if audit_config.managed_fields else _without_managers(found)

    def _sent(self) -> Any:
        """The object that was sent, or what came in its place, such as a patch, if it is JSON."""
        body = self._request.body
        if self._body is None and body:
            if isinstance(body, bytes):
                with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    self._body = msgspec.json.decode(body)
            else:
                self._body = body
        return self._body

    def _annotations(self) -> dict[str, str]:
        contents = self._audit_config.at_least(REQUEST)
        return {key: note.value for key, note in self.notes.items() if contents or not note.contents}


class Audit:
    """Follows every request with a policy in hand."""

    def __init__(self, policy: Policy, sink: Sink, *, clock: Callable[[], float] = time.time) -> None:
        self.policy = policy
        self.sink = sink
        self.clock = clock

    async def follow(self, request: Request, handle: Handle) -> Response:
        """Handle a request and log what becomes of it."""
        audit_context = request.audit_context = AuditContext(self, request)
        try:
            response = await handle(request)
        except StatusError as e:
            audit_context.failed(e)
            raise
        except Exception:
            audit_context.crashed()
            raise
        audit_context.answered(response)
        response.headers.append(("Audit-Id", audit_context.id))
        return response


def _status(status: Object) -> Object:
    return {key: value for key, value in status.items() if key not in ("kind", "apiVersion")}


def _micro(seconds: float) -> str:
    return format_micro_time(datetime.fromtimestamp(seconds, UTC))


def _metadata(obj: Any) -> Object:
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    return meta if isinstance(meta, dict) else {}


def _content(response: Response) -> Object | None:
    match response.body:
        case ObjectBody(document=document, codec=codec):
            return document.object(codec)
        case Listing() as listing:
            return listing.object()
        case dict() as obj:
            return obj
    return None


def _without_managers(obj: Any) -> Any:
    if not isinstance(obj, dict):
        return obj
    if isinstance(obj.get("items"), list):
        obj = {**obj, "items": [_without_managers(item) for item in obj["items"]]}
    meta = _metadata(obj)
    if "managedFields" in meta:
        obj = {**obj, "metadata": {k: v for k, v in meta.items() if k != "managedFields"}}
    return obj
