"""Kubernetes' protobuf: the same objects as in JSON, in the form that Go clients prefer for built-in kinds.

Types and field numbers are those of ``dray.api.schema``. A message is to JSON what Go's generated code would make of
it: structs that JSON flattens are messages of their own, leaves such as times and quantities too. An object travels
in an ``envelope`` that names its type; ``encoding`` and ``decoding`` compile each type once.
"""

from __future__ import annotations

from typing import Final

from dray.api.protobuf.decoder import decode
from dray.api.protobuf.encoder import encode
from dray.api.protobuf.envelope import MAGIC, Envelope, enclose, frame, head, list_message, unwrap, wrap
from dray.api.protobuf.typemeta import has_protobuf, type_for
from dray.api.protobuf.wire import Malformed

#: In a request's Content-Type and Accept, and in an answer's Content-Type; watches append ``;stream=watch``.
MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"

__all__ = [
    "MAGIC",
    "MEDIA_TYPE",
    "Envelope",
    "Malformed",
    "decode",
    "enclose",
    "encode",
    "frame",
    "has_protobuf",
    "head",
    "list_message",
    "type_for",
    "unwrap",
    "wrap",
]  # fmt: skip
