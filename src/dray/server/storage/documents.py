"""Documents: stored objects, decoded when a field is read and encoded once per served version.

What a document hands out is shared and must not be changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Final

from dray.api.errors import Expired, qualified
from dray.api.scheme.kinds import Object
from dray.server.storage.codec import Codec, Codecs, Undecodable, encode

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta
    from dray.store.interface import Past

_NOTHING: Final[Mapping[str, str]] = {}
#: Documents that are decoded in one turn of the loop: some milliseconds.
AT_ONCE: Final = 128
#: References to what only its document holds: the document's own, a variable and an argument.
_UNSHARED: Final = 3


class Document:
    """One object at one revision."""

    __slots__ = (
        "__weakref__",
        "_codecs",
        "_encoded",
        "_fresh",
        "_hub",
        "_messages",
        "_past",
        "key",
        "revision",
        "value",
    )

    def __init__(
        self,
        codecs: Codecs,
        key: str,
        revision: int,
        *,
        value: bytes | None = None,
        hub: Object | None = None,
    ) -> None:
        self.key = key  # below the cache's prefix: "namespace/name" or "name"
        self.revision = revision
        self._codecs = codecs
        #: what the store holds; None for a document that was never stored, or is set aside
        self.value = value
        self._past: Past | None = None
        self._hub = hub
        self._fresh = (
            hub is not None and value is not None
        )  # what is read may be older than the defaults it gets
        self._encoded: dict[Codec, bytes] | None = None
        self._messages: dict[Codec, bytes] | None = None

    def __repr__(self) -> str:
        return f"Document({self._codecs.kind.kind} {self.key} @{self.revision})"

    @property
    def hub(self) -> Any:
        hub = self._hub
        if hub is None:
            value = self._stored_value()
            hub = self._hub = self._read(value)
            self._codecs.decoded(self, len(value))
        return hub

    def _stored_value(self) -> bytes:
        if self.value is not None:
            return self.value
        assert self._past is not None
        value = self._past.value(self.revision)
        if value is None:
            raise Expired(f"too old resource version: {self.revision}")
        return value

    @property
    def is_aside(self) -> bool:
        return self._past is not None

    def set_aside(self, past: Past) -> None:
        """Leave the stored value to the store, which keeps it: it is read again should anybody ask. There will be others
        of this key, and hardly anybody will."""
        self._past = past
        self.value = self._hub = self._encoded = self._messages = None

    def _read(self, value: bytes) -> Object:
        try:
            return self._codecs.read(value, self.revision)
        except Undecodable as e:
            raise self._undecodable(e.message) from None
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
            raise self._undecodable(f"it has not the shape of its kind: {e!r}") from e

    def _undecodable(self, problem: str) -> Undecodable:
        kind = self._codecs.kind
        where = f" in {self.namespace}" if kind.namespaced else ""
        return Undecodable(
            f'{qualified(kind.plural, kind.group)} "{self.name}"{where} cannot be read from storage: {problem}',
            details={"name": self.name, "group": kind.group, "kind": kind.plural},
        )

    @property
    def metadata(self) -> ObjectMeta:
        found: ObjectMeta = self.hub["metadata"]
        return found

    @property
    def labels(self) -> Mapping[str, str]:
        found: Mapping[str, str] | None = self.hub["metadata"].get("labels")
        return found or _NOTHING

    @property
    def namespace(self) -> str:
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def object(self, codec: Codec) -> Object:
        return codec.object(self.hub)

    def rest(self, codec: Codec) -> bytes:
        """The encoded object without its head, kept for the next reader where it took some work."""
        if (found := self._stored_rest(codec)) is not None:
            return found
        encoded = self._encoded
        if encoded is None:
            encoded = self._encoded = {}
        found = encoded.get(codec)
        if found is None:
            found = encoded[codec] = codec.rest(self.hub)
        return found

    def _stored_rest(self, codec: Codec) -> bytes | None:
        """The same out of the stored value, if it was just made from the object: it lacks but the revision."""
        start = codec.stored_start
        if not self._fresh or codec is not self._codecs.storage:
            return None
        value = self._stored_value()
        if not value.startswith(start):
            return None
        return b'"metadata":{"resourceVersion":"%d",%b' % (self.revision, value[len(start) :])

    def full(self, codec: Codec) -> bytes:
        return codec.head + self.rest(codec)

    def message(self, codec: Codec) -> bytes:
        """The object as a protobuf message, kept for the next reader."""
        messages = self._messages
        if messages is None:
            messages = self._messages = {}
        found = messages.get(codec)
        if found is None:
            found = messages[codec] = codec.message(self.hub)
        return found

    def enveloped(self, codec: Codec) -> bytes:
        return codec.enveloped(self.message(codec))

    def at(self, revision: int) -> Document:
        """The same content at another revision: how watchers are shown what has just been deleted."""
        hub = dict(self.hub)
        hub["metadata"] = {**hub["metadata"], "resourceVersion": str(revision)}
        return Document(self._codecs, self.key, revision, hub=hub)

    def redefine(self, codecs: Codecs) -> None:
        self._codecs = codecs
        self._fresh = False
        self.forget()

    def forget_unless_shared(self) -> None:
        """The same if that frees anything: informers of this process hold what they were shown, and others would have
        to decode it once more."""
        hub = self._hub
        if hub is None or getrefcount(hub) <= _UNSHARED:
            self.forget()

    def forget(self) -> None:
        """Drop what can be had again from the stored value."""
        if self.value is not None or self._past is not None:
            self._hub = None
            self._encoded = None
            self._messages = None


@dataclass(frozen=True, slots=True)
class Listing:
    """Documents of one kind in one version, as of a revision."""

    codec: Codec
    documents: Sequence[Document]
    revision: int
    next: str = ""  # the continue token
    remaining: int | None = None

    def metadata(self) -> Object:
        found: Object = {"resourceVersion": str(self.revision)}
        if self.next:
            found["continue"] = self.next
        if self.remaining is not None:
            found["remainingItemCount"] = self.remaining
        return found

    def encoded(self) -> bytes:
        codec = self.codec
        head = b'%b"metadata":%b,"items":[' % (codec.list_head, encode(self.metadata()))
        if not self.documents:
            return head + b"]}"
        items = codec.separator.join([d.rest(codec) for d in self.documents])
        return b"".join((head, codec.separator[1:], items, b"]}"))

    def enveloped(self) -> bytes:
        """The list in protobuf."""
        codec = self.codec
        return codec.enveloped_list(self.metadata(), [d.message(codec) for d in self.documents])

    def object(self, items: Sequence[Object] | None = None) -> Object:
        """The list as data. ``items``: the objects of the documents, where the caller has them."""
        if items is None:
            items = [d.object(self.codec) for d in self.documents]
        return {
            "kind": self.codec.list_kind,
            "apiVersion": self.codec.api_version,
            "metadata": self.metadata(),
            "items": items,
        }
