"""Asks conversion webhooks: objects of a custom resource in one version are sent, and come back in another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec

from dray.api.errors import InternalError
from dray.api.groups.apiextensions.conversion import ConversionNeeded
from dray.server.admission.listers import Listers
from dray.server.admission.webhooks.client import CallError, WebhookClient
from dray.server.admission.webhooks.serviceresolver import endpoint_of
from dray.server.storage.codec import encode

if TYPE_CHECKING:
    from dray.api.types.apiextensions import WebhookConversion

_SECONDS: Final = 30.0
_GROUP: Final = "apiextensions.k8s.io"
_VERSIONS: Final = ("v1", "v1beta1")


class _Result(msgspec.Struct):
    status: str | None = None
    message: str | None = None


class _Response(msgspec.Struct):
    uid: str | None = None
    result: _Result | None = None
    convertedObjects: list[dict[str, Any]] | None = None


class _Answer(msgspec.Struct):
    """What a webhook answers, as far as it is looked at."""

    response: _Response


class ConversionWebhooks:
    """What all conversions of a server share: connections, and the way to services."""

    def __init__(self, listers: Listers) -> None:
        self._listers = listers
        self._client = WebhookClient()

    async def convert(self, needed: ConversionNeeded, *, also: Iterable[Mapping[str, Any]] = ()) -> None:
        """Have an object converted, and others that will be needed in the same version."""
        conversion, target = needed.conversion, needed.target
        wanted = conversion.missing([needed.object], target)
        wanted += [obj for obj in conversion.missing(also, target) if obj is not needed.object]
        group, _, version = str(needed.object.get("apiVersion", "")).rpartition("/")
        subject = f"{group}/{version}, Kind={needed.object.get('kind', '')}"
        try:
            converted = await self._ask(conversion.webhook, wanted, target)
        except CallError as e:
            raise InternalError(f"conversion webhook for {subject} failed: {e}") from None
        conversion.learn(wanted, converted, target)

    async def _ask(
        self, webhook: WebhookConversion, objects: list[Mapping[str, Any]], target: str
    ) -> list[dict[str, Any]]:
        spoken = webhook.get("conversionReviewVersions") or ()
        version = next((name for name in _VERSIONS if name in spoken), "")
        if not version:
            raise CallError(f"no supported conversion review versions were found in {list(spoken)}")
        uid = str(uuid4())
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"{_GROUP}/{version}",
            "request": {"uid": uid, "desiredAPIVersion": target, "objects": objects},
        }
        endpoint = endpoint_of(webhook.get("clientConfig") or {}, self._listers)
        answer = await self._client.post(endpoint, encode(review), seconds=_SECONDS)
        if answer.code != 200:
            raise CallError(f"the server answered {answer.code}")
        try:
            response = msgspec.json.decode(answer.body, type=_Answer).response
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise CallError("the answer is no ConversionReview") from None
        if response.uid != uid:
            raise CallError("the answer is for another request")
        result = response.result or _Result()
        if result.status != "Success":
            raise CallError(result.message or "the webhook gave no reason")
        converted = response.convertedObjects or []
        _check(objects, converted, target)
        return converted


def _check(objects: list[Mapping[str, Any]], converted: list[dict[str, Any]], target: str) -> None:
    """A webhook changes the version of objects, not which objects they are."""
    if len(converted) != len(objects):
        raise CallError(f"{len(objects)} objects were to be converted, and the answer has another number")
    for i, (before, after) in enumerate(zip(objects, converted, strict=True)):
        metadata = after.get("metadata")
        if not isinstance(metadata, dict):
            raise CallError(f"the object at index {i} has no metadata")
        if after.get("apiVersion") != target:
            raise CallError(f"the object at index {i} is of version {after.get('apiVersion')}, not {target}")
        if after.get("kind") != before.get("kind"):
            raise CallError(f"the object at index {i} is of another kind")
        for part in ("labels", "annotations"):
            if not _are_texts(metadata.get(part) or {}):
                raise CallError(f"the object at index {i} has {part} that are no texts")
        for part in ("name", "namespace", "uid"):
            if metadata.get(part, "") != before["metadata"].get(part, ""):
                raise CallError(f"the object at index {i} has another {part}")


def _are_texts(found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(value, str) for value in found.values())
