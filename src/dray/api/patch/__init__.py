"""The four ways to change a part of an object: JSON patch, merge patch, strategic merge patch and apply.

A patch works on an object in the version of the request. ``apply_patch`` reads a patch, applies it and decodes the
outcome, with the errors a client of upstream would see; server-side apply lives in ``apply`` and ``managed``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from dray.api.errors import BadRequest, StatusError, invalid
from dray.api.golang.fmt import show
from dray.api.patch import jsonpatch, mergepatch, strategic
from dray.api.schema import Decoded, Struct, parse
from dray.api.schema.gojson import TOO_DEEP
from dray.api.schema.scalars import json_kind
from dray.api.validation import field

JSON: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"

Decode = Callable[[dict[str, Any]], Decoded]


def apply_patch(
    media_type: str,
    document: dict[str, Any],
    data: bytes,
    *,
    decode: Decode,
    type_: Struct | None = None,
    validation: str = "Warn",
) -> Decoded:
    """Apply a patch that is not an apply to an object, which stays as it is.

    ``decode`` shapes the outcome as if it had come in by itself; ``type_`` is needed for strategic merges.
    ``validation`` is the request's fieldValidation; the problems of the result are warnings to send.
    """
    try:
        patched, shown, problems = _patched(media_type, document, data, type_)
        return _decoded(patched, shown, problems, decode, validation)
    except RecursionError:
        raise BadRequest(TOO_DEEP) from None


def _patched(
    media_type: str, document: dict[str, Any], data: bytes, type_: Struct | None
) -> tuple[Any, Any, list[str]]:
    """The patched document, what an error shows in its place, and the problems of the patch itself."""
    match media_type:
        case "application/json-patch+json":
            operations, problems = jsonpatch.parse(data)
            return jsonpatch.apply(document, operations), None, problems
        case "application/merge-patch+json":
            try:
                patch, problems = _object(data)
            except BadRequest as e:
                raise BadRequest(f"error decoding patch: {e.message}") from None
            if patch is None:
                raise BadRequest("Invalid JSON Patch")
            return mergepatch.apply(document, patch), None, problems
        case "application/strategic-merge-patch+json":
            if type_ is None:
                raise BadRequest("strategic merge patch format is not supported")
            patch, problems = _object(data)
            return strategic.apply(type_, document, patch or {}), patch, problems
    raise StatusError(f"unknown Content-Type header for patch: {media_type}", code=500, reason="")


def _object(data: bytes) -> tuple[dict[str, Any] | None, list[str]]:
    document, problems = parse(data)
    if document is not None and not isinstance(document, dict):
        kind = json_kind(document)
        raise BadRequest(f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
    return document, problems


def _decoded(patched: Any, shown: Any, problems: list[str], decode: Decode, validation: str) -> Decoded:
    def refuse(words: str) -> StatusError:
        text = show(shown) if shown is not None else msgspec.json.encode(patched).decode()
        return invalid("", "", "", [field.invalid(field.Path("patch"), text, words)])

    if not isinstance(patched, dict):
        kind = json_kind(patched)
        raise refuse(f"couldn't get version/kind; json parse error: json: cannot unmarshal {kind}")
    try:
        result = decode(patched)
    except BadRequest as e:
        raise refuse(e.message) from None
    if validation == "Ignore":
        return Decoded(result.object, [])
    problems = [*problems, *result.problems]
    if problems and validation == "Strict":
        raise refuse(f"strict decoding error: {', '.join(problems)}")
    return Decoded(result.object, problems)
