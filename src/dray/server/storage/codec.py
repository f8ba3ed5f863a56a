"""Codecs: one per served version of a kind, from the hub version to JSON or protobuf and, for stored objects, back.

The encoded form leaves out the leading ``kind`` and ``apiVersion``, because lists of built-in kinds leave them out
too; ``Codec.head`` puts them back in front.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from weakref import ref

import msgspec

from dray.api import protobuf, schema
from dray.api.release import Release
from dray.api.scheme.kinds import Kind, Object, Version

if TYPE_CHECKING:
    from dray.server.storage.documents import Document

encode = msgspec.json.Encoder().encode
parse = msgspec.json.Decoder().decode

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

    def __init__(self, kind: Kind, version: Version, release: Release | None = None) -> None:
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

    def __init__(self, kind: Kind, release: Release | None = None) -> None:
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
