"""Documents: an object of the store, decoded when somebody looks inside, encoded once per served version.

The encoded form leaves out the leading ``kind`` and ``apiVersion``, because lists of built-in kinds leave them out
too; ``Codec.head`` puts them back in front. What a document hands out is shared and must not be changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import ref

import msgspec

from dray.api import protobuf, schema
from dray.api.scheme.kinds import Kind, Object, Version

encode = msgspec.json.Encoder().encode
parse = msgspec.json.Decoder().decode

_NOTHING: Final[Mapping[str, str]] = {}
#: Objects of a kind that are held decoded; what is decoded takes several times the room of what is stored.
_MAX_DECODED: Final = 50_000
#: The same for a kind whose objects go by themselves after a time: they are written, and hardly ever read.
_MAX_PASSING: Final = 256


class Codec:
    """One served version of a kind: from the hub to the wire and, for stored objects, back."""

    __slots__ = (
        "_envelope",
        "_from_hub",
        "_list_envelope",
        "_named",
        "_release",
        "_type",
        "api_version",
        "head",
        "kind",
        "list_head",
        "list_kind",
        "separator",
        "stored_start",
        "version",
    )

    def __init__(self, kind: Kind, version: Version, release: str | None = None) -> None:
        self._release = release
        self._type: schema.Struct | None = None
        self.kind = kind
        self.version = version
        self.api_version = f"{kind.group}/{version.name}" if kind.group else version.name
        self.list_kind = kind.list_kind or kind.kind + "List"
        self._named = {"kind": kind.kind, "apiVersion": self.api_version}
        self._from_hub = version.from_hub
        self.head = b'{"kind":%b,"apiVersion":%b,' % (encode(kind.kind), encode(self.api_version))
        self.list_head = b'{"kind":%b,"apiVersion":%b,' % (encode(self.list_kind), encode(self.api_version))
        self.separator = b"," + (self.head if kind.custom else b"{")
        self.stored_start = self.head + b'"metadata":{'  # of values in the store
        self._envelope = protobuf.head(self.api_version, kind.kind)
        self._list_envelope = protobuf.head(self.api_version, self.list_kind)

    @property
    def type(self) -> schema.Struct | None:
        """The schema, with the fields that the release knows; None for custom resources, which bring their own."""
        if self._type is None and self.version.type:
            self._type = schema.type_of(self.version.type, self._release)
        return self._type

    def __repr__(self) -> str:
        return f"Codec({self.kind.kind} {self.api_version})"

    def object(self, hub: Object) -> Object:
        """The hub object in this version; nested parts may be shared with the hub."""
        shaped = hub if self._from_hub is None else self._from_hub(hub)
        if shaped.get("apiVersion") == self.api_version and shaped.get("kind") == self.kind.kind:
            return shaped
        return {**self._named, **shaped, **self._named}  # the type comes first and has the last word

    def rest(self, hub: Object) -> bytes:
        """The encoded object after ``head``."""
        shaped = hub if self._from_hub is None else self._from_hub(hub)
        return encode(_untyped(shaped))[1:]

    def message(self, hub: Object) -> bytes:
        """The object as a protobuf message, which does not say what it is."""
        assert self.type is not None
        shaped = hub if self._from_hub is None else self._from_hub(hub)
        return protobuf.encode(self.type, shaped)

    def enveloped(self, message: bytes) -> bytes:
        """Such a message together with its type."""
        return protobuf.wrap(self._envelope, message)

    def enveloped_list(self, metadata: Object, messages: Iterable[bytes]) -> bytes:
        listed = protobuf.list_message(
            protobuf.encode(schema.type_of("meta/v1.ListMeta"), metadata), messages
        )
        return protobuf.wrap(self._list_envelope, listed)

    def stored(self, hub: Object) -> bytes:
        """The value for the store: this version, without the resourceVersion, which the store itself knows."""
        shaped = hub if self._from_hub is None else self._from_hub(hub)
        metadata = shaped["metadata"]
        if "resourceVersion" in metadata:
            metadata = dict(metadata)
            del metadata["resourceVersion"]
        return encode({**self._named, **shaped, **self._named, "metadata": metadata})


def _untyped(obj: Object) -> Object:
    return {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}


class Codecs:
    """Every version of a kind, the one it is stored in, and the hub's name."""

    def __init__(self, kind: Kind, release: str | None = None) -> None:
        self.kind = kind
        self.by_version = {v.name: Codec(kind, v, release) for v in kind.versions}
        self.storage = self.by_version[kind.storage]
        self._stored_as_is = self.storage.version.from_hub is None
        self._decoded: deque[ref[Document]] = deque()
        self._max_decoded = _MAX_DECODED if kind.ttl is None else _MAX_PASSING
        self.hub = self.by_version[kind.hub or kind.storage]

    def hub_of(self, obj: Object, version: Version) -> Object:
        """An object of ``version`` as the hub, with the hub's type."""
        hub = version.to_hub(obj) if version.to_hub is not None else obj
        if hub.get("apiVersion") != self.hub.api_version or hub.get("kind") != self.kind.kind:
            hub = {"kind": self.kind.kind, "apiVersion": self.hub.api_version, **_untyped(hub)}
        return hub

    def decoded(self, document: Document) -> None:
        """Note that a document is held decoded; beyond a bound, the one that has been for longest forgets it."""
        self._decoded.append(ref(document))
        if len(self._decoded) > self._max_decoded:
            oldest = self._decoded.popleft()()
            if oldest is not None:
                oldest.forget()

    def value(self, hub: Object) -> bytes:
        """What the store gets for a hub object, which is settled by this: reading it back gives the very same."""
        value, type_ = self.storage.stored(hub), self.hub.type
        if type_ is None or (self._stored_as_is and schema.has_nothing_to_omit(type_, value)):
            return value
        schema.omit_empty(type_, hub)
        return self.storage.stored(hub)

    def read(self, value: bytes, revision: int) -> Object:
        """The hub object behind a stored value, whichever version it was stored in."""
        obj: Object = parse(value)
        name = str(obj.get("apiVersion", "")).rpartition("/")[2]
        codec = self.by_version.get(name, self.storage)
        obj["metadata"]["resourceVersion"] = str(revision)
        if codec.version.default is not None:
            codec.version.default(obj)
        return self.hub_of(obj, codec.version)


class Document:
    """One object at one revision."""

    __slots__ = (
        "__weakref__",
        "_codecs",
        "_encoded",
        "_fresh",
        "_hub",
        "_messages",
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
        self.key = key  # below the collection's prefix: "namespace/name" or "name"
        self.revision = revision
        self._codecs = codecs
        self.value = value  # what the store holds; None for a document that was never stored
        self._hub = hub
        self._fresh = (
            hub is not None and value is not None
        )  # what is read may be older than the defaults it gets
        self._encoded: dict[Codec, bytes] | None = None
        self._messages: dict[Codec, bytes] | None = None

    def __repr__(self) -> str:
        return f"Document({self._codecs.kind.kind} {self.key} @{self.revision})"

    @property
    def hub(self) -> Object:
        hub = self._hub
        if hub is None:
            assert self.value is not None
            hub = self._hub = self._codecs.read(self.value, self.revision)
            self._codecs.decoded(self)
        return hub

    @property
    def metadata(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.hub["metadata"]
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
        value, start = self.value, codec.stored_start
        if not self._fresh or value is None or codec is not self._codecs.storage:
            return None
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

    def forget(self) -> None:
        """Drop what can be had again from the stored value."""
        if self.value is not None:
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

    def object(self) -> Object:
        items = [d.object(self.codec) for d in self.documents]
        return {
            "kind": self.codec.list_kind,
            "apiVersion": self.codec.api_version,
            "metadata": self.metadata(),
            "items": items,
        }
