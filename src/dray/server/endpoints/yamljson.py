"""YAML converted to JSON as upstream does, in upstream's words."""

from __future__ import annotations

from typing import Any, Final

from dray.api import patch as patches
from dray.api import schema, yamldocs
from dray.api.errors import BadRequest
from dray.api.quirks import APIQuirks
from dray.api.scheme.kinds import Object
from dray.server.endpoints import negotiation
from dray.server.endpoints.largedocuments import LargeDocuments
from dray.server.endpoints.requests import Request
from dray.server.storage.codec import encode

#: A longer document would hold the loop for more than a few milliseconds: YAML is slower than JSON.
_LARGE: Final = 8 << 10
_CONVERTING: Final = "error converting YAML to JSON: "


class UnreadableYAML(BadRequest):
    """The configuration of an apply is no YAML. ``problem``: in the parser's words."""

    def __init__(self, error: BadRequest) -> None:
        super().__init__(f"error decoding YAML: {error.message}")
        self.problem = error.message.removeprefix(_CONVERTING)

    def in_words_of(self, quirks: APIQuirks) -> BadRequest:
        return BadRequest(f"error encoding patch: {self.problem}") if quirks.checks_patches_first else self


def is_large(body: object) -> bool:
    """Whether a body is too much for the loop, if it is YAML."""
    return isinstance(body, bytes) and len(body) > _LARGE


async def convert_large(request: Request, large_documents: LargeDocuments) -> None:
    """Put JSON in the place of a large body of YAML. Smaller ones are converted where they are decoded."""
    body = request.body
    assert isinstance(body, bytes)
    media = request.headers.get("content-type").partition(";")[0].strip().lower()
    if media not in (negotiation.YAML, patches.APPLY):
        return
    assert request.user is not None
    try:
        request.body, request.yaml_problems = await large_documents.run(
            request.user.name, json_from_yaml, body
        )
    except BadRequest as e:
        raise UnreadableYAML(e) if media == patches.APPLY else e from None


def json_from_yaml(data: bytes) -> tuple[bytes, list[str]]:
    """YAML as the JSON upstream makes of it, and what a strict reader would object to."""
    document, problems = load_yaml(data)
    return encode(document), problems


def load_yaml_object(data: bytes) -> tuple[Object, list[str]]:
    """An apply's configuration: one YAML document (JSON is YAML too) that holds an object."""
    try:
        document, problems = load_yaml(data)
    except BadRequest as e:
        raise UnreadableYAML(e) from None
    if document is None:
        document = {}
    if not isinstance(document, dict):
        kind = json_name(document)
        words = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        raise BadRequest(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {words}")
    return document, problems


def load_yaml(data: bytes) -> tuple[Any, list[str]]:
    """One document; and the keys that occur twice, in upstream's words."""
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            found = schema.parse(data)
            return found.object, found.problems
        except BadRequest:
            pass  # perhaps YAML in flow style
    try:
        document = yamldocs.load_document(data)
    except yamldocs.InvalidYAML as e:
        words = str(e) if str(e).startswith("json: ") else f"yaml: {e}"
        raise BadRequest(f"{_CONVERTING}{words}") from None
    if document.problems:
        twice = "".join(f"\n  {words}" for words in document.problems)
        return document.value, ["yaml: unmarshal errors:" + twice]
    return document.value, []


def json_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
