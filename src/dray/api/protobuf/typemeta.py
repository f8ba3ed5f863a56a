"""Which types have a form in protobuf, and which type an object that only names itself is of."""

from __future__ import annotations

from functools import lru_cache

from dray.api import schema
from dray.api.schema import Struct

#: What every server answers with, whatever groups it has. Discovery of the core group says no version of its own.
_META = frozenset({"Status", "APIVersions", "APIGroupList", "APIGroup", "APIResourceList"})


def has_protobuf(type_: Struct) -> bool:
    """Whether a type has a form in protobuf; tables have none."""
    return any(field.number for field in type_.fields)


@lru_cache(maxsize=256)
def type_for(api_version: str, kind: str) -> Struct | None:
    """The type of an object with this ``apiVersion`` and ``kind``, if it has a form in protobuf."""
    group, _, version = api_version.rpartition("/")
    is_meta = kind in _META and group in ("", "meta.k8s.io")
    package = "meta" if is_meta else group.partition(".")[0] or "core"
    name = f"{package}/{version or 'v1'}.{kind}"
    if not schema.known(name):
        return None
    type_ = schema.type_of(name)
    return type_ if has_protobuf(type_) else None
