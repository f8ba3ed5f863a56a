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
from dray.api.errors import BadRequest, InternalError
from dray.api.release import Release
from dray.api.scheme.kinds import Kind, Object, Version

if TYPE_CHECKING:
    from dray.server.storage.documents import Document

encode = msgspec.json.Encoder().encode
parse = msgspec.json.Decoder().decode

#: What is held decoded of all kinds together, in bytes as they are stored; decoded they take some six times that.
_DECODED_BYTES: Final = 32 << 20
#: Few objects are larger than this. Decoded they may take forty times what they take in the store.
LARGE_VALUE: Final = 32 << 10
_LARGE_WEIGHT: Final = 8
#: Of a kind whose objects go by themselves after a time, so many are held decoded: they are written, and hardly ever read.
_MAX_PASSING: Final = 256


class _Decoded(ref["Document"]):
    """A document that is held decoded, and how large that is. There are thousands: one object each, and not three."""

    __slots__ = ("size",)
    size: int


class DecodedDocuments:
    """The documents that are held decoded; beyond a bound, those that have been for longest forget it, unless somebody
    else holds the very same objects anyway."""

    def __init__(self, limit: int = _DECODED_BYTES) -> None:
        self._limit = limit
        self._bytes = 0
        self._documents: deque[_Decoded] = deque()

    def add(self, document: Document, size: int) -> None:
        """``size``: of what the store holds."""
        if size > LARGE_VALUE:
            size *= _LARGE_WEIGHT
        self._documents.append(decoded := _Decoded(document))
        decoded.size = size
        self._bytes += size
        while self._bytes > self._limit and len(self._documents) > 1:
            oldest = self._documents.popleft()
            self._bytes -= oldest.size
            if (found := oldest()) is not None:
                found.forget_unless_shared()


class Undecodable(InternalError):
    """A stored value that is no object of its kind in a version that is known; it is never written."""


class UnknownVersion(Undecodable):
    """An object in a version that this release does not know; another release wrote it."""


class _StoredType(msgspec.Struct):
    """What a stored JSON document must say; that the rest is JSON is checked on the way."""

    kind: str = ""
    apiVersion: str = ""
    metadata: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_stored_type = msgspec.json.Decoder(_StoredType).decode


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
        """The value for the store: this version, without the resourceVersion, which the store itself knows.

        It is put together from two parts because the encoder's own answers keep a third of their memory free.
        """
        shaped = hub if self._from_hub is None else self._from_hub(hub)
        rest = dict(shaped)
        rest.pop("kind", None)
        rest.pop("apiVersion", None)
        metadata = shaped["metadata"]
        if "resourceVersion" in metadata:
            rest["metadata"] = metadata = dict(metadata)
            del metadata["resourceVersion"]
        return self.head + encode(rest)[1:]


def _untyped(obj: Object) -> Object:
    return {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}


class Codecs:
    """Every version of a kind, the one it is stored in, and the hub's name."""

    def __init__(
        self, kind: Kind, release: Release | None = None, *, decoded: DecodedDocuments | None = None
    ) -> None:
        self.kind = kind
        self.by_version = {v.name: Codec(kind, v, release) for v in kind.versions}
        self.storage = self.by_version[kind.storage]
        self._stored_as_is = self.storage.version.from_hub is None
        self._decoded = decoded or DecodedDocuments()
        self._passing: deque[ref[Document]] | None = None if kind.ttl is None else deque()
        self.hub = self.by_version[kind.hub or kind.storage]

    def hub_of(self, obj: Object, version: Version) -> Object:
        """An object of ``version`` as the hub, with the hub's type."""
        hub = version.to_hub(obj) if version.to_hub is not None else obj
        if hub.get("apiVersion") != self.hub.api_version or hub.get("kind") != self.kind.kind:
            hub = {"kind": self.kind.kind, "apiVersion": self.hub.api_version, **_untyped(hub)}
        return hub

    def decoded(self, document: Document, size: int) -> None:
        """Note that a document is held decoded, whose stored value has that size."""
        if self._passing is None:
            self._decoded.add(document, size)
            return
        self._passing.append(ref(document))
        if len(self._passing) > _MAX_PASSING and (oldest := self._passing.popleft()()) is not None:
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
        if value.startswith(protobuf.MAGIC):
            obj, codec = self._from_protobuf(value)
        else:
            obj = parse(value)
            codec = self._stored_as(str(obj.get("apiVersion", "")), str(obj.get("kind", "")))
        obj["metadata"]["resourceVersion"] = str(revision)
        if self.kind.conversion is not None:
            obj, codec = self.kind.conversion.convert(obj, self.storage.api_version), self.storage
        if codec.version.default is not None:
            codec.version.default(obj)
        return self.hub_of(obj, codec.version)

    def check(self, value: bytes) -> None:
        """Raise ``Undecodable`` for a stored value that nobody could read: garbage, or of a version not known here."""
        if value.startswith(protobuf.MAGIC):
            self.read(value, 0)
            return
        try:
            found = _stored_type(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
            raise Undecodable(f"it is neither JSON nor protobuf: {e}") from None
        if found.metadata is msgspec.UNSET:
            raise Undecodable("it has no metadata")
        self._stored_as(found.apiVersion, found.kind)

    def is_current(self, value: bytes) -> bool:
        """Whether a stored value is in the version in which it would be stored today."""
        if value.startswith(protobuf.MAGIC):
            return protobuf.unwrap(value).api_version == self.storage.api_version
        return _stored_type(value).apiVersion == self.storage.api_version

    def _stored_as(self, api_version: str, kind: str) -> Codec:
        """The codec of the version that an object was stored in."""
        group, _, version = api_version.rpartition("/")
        codec = self.by_version.get(version)
        if codec is None and self.kind.custom:
            codec = self.storage  # its definition may have lost the version since
        if codec is None or kind != self.kind.kind or group != self.kind.group:
            raise UnknownVersion(
                f'it is stored as kind "{kind}" of version "{api_version}", which is not known here'
            )
        return codec

    def _from_protobuf(self, value: bytes) -> tuple[Object, Codec]:
        try:
            found = protobuf.unwrap(value)
            codec = self._stored_as(found.api_version, found.kind)
            if not codec.version.type:
                raise Undecodable(f"{found.api_version} {found.kind} has no form in protobuf")
            type_ = schema.type_of(codec.version.type)  # with the fields of every release: none gets lost
            obj = schema.normalise(type_, protobuf.decode(type_, found.message))
        except (protobuf.Malformed, BadRequest) as e:
            raise Undecodable(f"it is malformed protobuf: {e}") from None
        return {"kind": found.kind, "apiVersion": found.api_version, **obj}, codec
