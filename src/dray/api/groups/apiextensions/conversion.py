"""Conversion of custom resources by a webhook, seen from code that cannot wait for one.

Whoever needs an object in another version asks a ``Conversion``. It knows the answers that the webhook has given; where
it has none it raises ``ConversionNeeded``. The server catches that, asks the webhook, and does the same thing again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dray.api.objects import clone

if TYPE_CHECKING:
    from dray.api.types.apiextensions import WebhookConversion

#: Answers that are kept, and their bytes. All that is needed at once must fit in.
_MOST_REMEMBERED: Final = 10_000
_MOST_BYTES: Final = 64 << 20
_encode: Final = msgspec.json.Encoder(order="deterministic").encode
#: The only metadata that a webhook may change.
_CONVERTED_METADATA: Final = ("labels", "annotations")


class ConversionNeeded(Exception):
    """An object has to be converted before the work can go on."""

    def __init__(self, conversion: Conversion, obj: Mapping[str, Any], target: str) -> None:
        super().__init__(f"{obj.get('apiVersion')} {obj.get('kind')} is needed as {target}")
        self.conversion = conversion
        self.object = obj
        self.target = target


class Conversion:
    """The webhook of one definition (its ``spec.conversion.webhook``) and what it has answered."""

    def __init__(self, webhook: WebhookConversion) -> None:
        self.webhook = webhook
        self._known: dict[tuple[str, bytes], bytes] = {}
        self._held = 0

    def convert(self, obj: Mapping[str, Any], target: str) -> dict[str, Any]:
        """A copy of the object in the version ``target``, such as ``example.com/v1``."""
        if obj.get("apiVersion") == target:
            copied: dict[str, Any] = clone(obj)
            return copied
        found = self._known.get((target, _digest(obj)))
        if found is None:
            raise ConversionNeeded(self, obj, target)
        answer: dict[str, Any] = msgspec.json.decode(found)
        if "resourceVersion" in obj["metadata"]:
            answer["metadata"]["resourceVersion"] = obj["metadata"]["resourceVersion"]
        return answer

    def missing(self, objects: Iterable[Mapping[str, Any]], target: str) -> list[Mapping[str, Any]]:
        """Those whose conversion is not known."""
        return [
            obj
            for obj in objects
            if obj.get("apiVersion") != target and (target, _digest(obj)) not in self._known
        ]

    def learn(self, objects: Iterable[Mapping[str, Any]], converted: Iterable[Any], target: str) -> None:
        """What the webhook answered. Its metadata is the original's, but for labels and annotations."""
        if len(self._known) > _MOST_REMEMBERED or self._held > _MOST_BYTES:
            self._known.clear()
            self._held = 0
        for obj, answer in zip(objects, converted, strict=True):
            metadata = dict(_without_revision(obj)["metadata"])
            for part in _CONVERTED_METADATA:
                given = answer["metadata"].get(part)
                metadata.pop(part, None)
                if given:
                    metadata[part] = given
            kept = _encode({**answer, "metadata": metadata})
            self._known[target, _digest(obj)] = kept
            self._held += len(kept)


def _digest(obj: Mapping[str, Any]) -> bytes:
    """Stands for an object, however large it is."""
    return hashlib.blake2b(_encode(_without_revision(obj)), digest_size=32).digest()


def _without_revision(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
    return {**obj, "metadata": metadata}
