"""Options of a call, from its query and, for deletions, its body; checked and refused as upstream does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from dray.api import schema
from dray.api.errors import BadRequest, StatusError, invalid
from dray.api.scheme.kinds import Object
from dray.api.validation import field, objectmeta
from dray.api.validation.field import FieldError, Path
from dray.server.endpoints import negotiation
from dray.server.endpoints.decoder import WARN
from dray.server.endpoints.negotiation import negotiate_input
from dray.server.endpoints.requests import Request, integer
from dray.server.endpoints.yamljson import json_name, load_yaml
from dray.wire.messages import Query

META_GROUP: Final = "meta.k8s.io"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of create, update and patch."""

    dry_run: bool = False
    manager: str = ""
    directive: str = WARN
    force: bool | None = None
    stated: str = ""  # the directive as the caller gave it

    def object(self, kind: str) -> Object:
        """The options as admission and webhooks see them."""
        found: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            found["dryRun"] = ["All"]
        if self.force is not None and kind == "PatchOptions":
            found["force"] = self.force
        if self.manager:
            found["fieldManager"] = self.manager
        if self.stated:
            found["fieldValidation"] = self.stated
        return found


_DEFAULT_WRITE: Final = WriteOptions()


def write_options(query: Query, kind: str, *, apply: bool = False) -> WriteOptions:
    """``kind`` is CreateOptions, UpdateOptions or PatchOptions and names the options in a refusal."""
    if not query and not apply:
        return _DEFAULT_WRITE
    force = query.boolean("force") if kind == "PatchOptions" and "force" in query else None
    options = {
        "fieldManager": query.get("fieldManager"),
        "fieldValidation": query.get("fieldValidation"),
        "dryRun": query.all("dryRun"),
        "force": force,
    }
    if kind == "PatchOptions":
        problems = objectmeta.validate_patch_options(options, apply=apply)
    else:
        problems = objectmeta.validate_write_options(options)
    if problems:
        raise invalid(kind, META_GROUP, "", problems)
    stated = query.get("fieldValidation")
    return WriteOptions(bool(options["dryRun"]), query.get("fieldManager"), stated or WARN, force, stated)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    dry_run: bool = False
    grace: int | None = None
    uid: str | None = None
    revision: str | None = None
    policy: str = ""
    orphan: bool | None = None

    def object(self) -> Object:
        found: Object = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        if self.grace is not None:
            found["gracePeriodSeconds"] = self.grace
        preconditions = {}
        if self.uid is not None:
            preconditions["uid"] = self.uid
        if self.revision is not None:
            preconditions["resourceVersion"] = self.revision
        if preconditions:
            found["preconditions"] = preconditions
        if self.orphan is not None:
            found["orphanDependents"] = self.orphan
        if self.policy:
            found["propagationPolicy"] = self.policy
        if self.dry_run:
            found["dryRun"] = ["All"]
        return found


def delete_options(request: Request) -> DeleteOptions:
    if not request.body:
        query = request.query
        if not query:
            return DeleteOptions()
        return _checked(
            query.all("dryRun"),
            integer(query, "gracePeriodSeconds"),
            {},
            query.get("propagationPolicy"),
            query.boolean("orphanDependents") if "orphanDependents" in query else None,
        )
    body = _options_body(request)
    return delete_options_from(body)


def delete_options_from(body: Object) -> DeleteOptions:
    """Delete options that came as an object: the body of a DELETE, or inside an Eviction."""
    return _checked(
        _typed(body, "dryRun", list, "[]string") or [],
        _typed(body, "gracePeriodSeconds", int, "int64"),
        _typed(body, "preconditions", dict, "v1.Preconditions") or {},
        _typed(body, "propagationPolicy", str, "v1.DeletionPropagation") or "",
        _typed(body, "orphanDependents", bool, "bool"),
    )


def json_object(request: Request, type_name: str) -> Object:
    """A body that holds an object of a type, unshaped."""
    body: Any = request.body
    if isinstance(body, bytes):
        match negotiate_input(request):
            case negotiation.YAML:
                body, _ = load_yaml(body)
            case negotiation.PROTOBUF:
                body = _from_protobuf(body, type_name)
            case _:
                body = schema.parse(body).object
    if body is None:
        return {}
    if not isinstance(body, dict):
        problem = f"json: cannot unmarshal {json_name(body)} into Go value of type map[string]interface {{}}"
        raise BadRequest(f"couldn't get version/kind; json parse error: {problem}")
    return body


def _from_protobuf(body: bytes, type_name: str) -> Object:
    from dray.api import protobuf

    try:
        found = protobuf.unwrap(body)
        obj = protobuf.decode(schema.type_of(type_name), found.message)
    except protobuf.Malformed as e:
        raise BadRequest(str(e)) from None
    named = {"kind": found.kind, "apiVersion": found.api_version}
    return {key: value for key, value in named.items() if value} | obj


def _options_body(request: Request) -> Object:
    body = json_object(request, "meta/v1.DeleteOptions")
    kind, version = body.get("kind") or "DeleteOptions", body.get("apiVersion") or "v1"
    if kind != "DeleteOptions":
        raise BadRequest(
            f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/api/legacyscheme/scheme.go:30"'
        )
    return body


def _typed(body: Object, key: str, kind: type, name: str) -> Any:
    value = body.get(key)
    if value is None:
        return None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadRequest(
            f"json: cannot unmarshal {json_name(value)} into Go struct field DeleteOptions.{key} of type {name}"
        )
    return value


def _checked(
    dry_run: Sequence[str], grace: int | None, preconditions: Object, policy: str | None, orphan: bool | None
) -> DeleteOptions:
    stated = {"dryRun": dry_run, "propagationPolicy": policy or None, "orphanDependents": orphan}
    if problems := objectmeta.validate_delete_options(stated):
        raise invalid("DeleteOptions", META_GROUP, "", problems)
    uid, revision = preconditions.get("uid"), preconditions.get("resourceVersion")
    for value in (uid, revision):
        if value is not None and not isinstance(value, str):
            raise BadRequest("json: cannot unmarshal into Go struct field Preconditions of type string")
    return DeleteOptions(bool(dry_run), grace, uid, revision, policy or "", orphan)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of list, watch and deletecollection; selectors still as text."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    token: str = ""  # continue
    revision: str = ""
    match: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout: int | None = None


_DEFAULT_LIST: Final = ListOptions()


def list_options(query: Query, *, watch: bool = False) -> ListOptions:
    if not query:
        return ListOptions(watch=True) if watch else _DEFAULT_LIST
    options = ListOptions(
        query.get("labelSelector"),
        query.get("fieldSelector"),
        integer(query, "limit") or 0,
        query.get("continue"),
        query.get("resourceVersion"),
        query.get("resourceVersionMatch"),
        watch or query.boolean("watch"),
        query.boolean("allowWatchBookmarks"),
        query.boolean("sendInitialEvents") if "sendInitialEvents" in query else None,
        integer(query, "timeoutSeconds"),
    )
    problems = _watch_problems(options) if options.watch else _list_problems(options)
    if problems:
        raise invalid("ListOptions", META_GROUP, "", problems)
    return options


_EXACT, _NOT_OLDER = "Exact", "NotOlderThan"


def _list_problems(options: ListOptions) -> list[FieldError]:
    problems = []
    path = Path("resourceVersionMatch")
    if options.match:
        if not options.revision:
            problems.append(
                field.forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        if options.token:
            problems.append(
                field.forbidden(path, "resourceVersionMatch is forbidden when continue is provided")
            )
        if options.match not in (_EXACT, _NOT_OLDER):
            problems.append(field.not_supported(path, options.match, (_EXACT, _NOT_OLDER, "")))
        if options.match == _EXACT and options.revision == "0":
            words = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            problems.append(field.forbidden(path, words))
    if options.initial_events is not None:
        problems.append(field.forbidden(Path("sendInitialEvents"), "sendInitialEvents is forbidden for list"))
    return problems


def _watch_problems(options: ListOptions) -> list[FieldError]:
    problems = []
    path = Path("resourceVersionMatch")
    if options.initial_events is not None and options.match != _NOT_OLDER:
        words = f"sendInitialEvents requires setting resourceVersionMatch to {_NOT_OLDER}"
        problems.append(field.forbidden(path, words))
    if options.match:
        if options.initial_events is None:
            words = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            problems.append(field.forbidden(path, words))
        if options.match != _NOT_OLDER:
            problems.append(field.not_supported(path, options.match, (_NOT_OLDER,)))
        if options.token:
            problems.append(
                field.forbidden(path, "resourceVersionMatch is forbidden when continue is provided")
            )
    return problems


def parse_revision(text: str) -> int:
    """A resourceVersion as a number; "" is 0. The caller decides what a bad one is."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise RevisionError(text, "invalid syntax")
    value = int(text) if len(text) < 25 else 1 << 64
    if value >= 1 << 64:
        raise RevisionError(text, "value out of range")
    return value


class RevisionError(ValueError):
    def __init__(self, text: str, problem: str) -> None:
        self.cause = f'strconv.ParseUint: parsing "{text}": {problem}'
        super().__init__(f'resourceVersion: Invalid value: "{text}": {self.cause}')

    def internal(self) -> StatusError:
        """How upstream reports it where it forgot to map the error: code 500 and no reason."""
        return StatusError(str(self))


__all__ = [
    "DeleteOptions", "ListOptions", "RevisionError", "WriteOptions", "delete_options", "delete_options_from",
    "list_options", "parse_revision", "write_options",
]  # fmt: skip
