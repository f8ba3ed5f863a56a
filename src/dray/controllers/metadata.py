"""Reads the metadata of objects of any kind (client-go's metadata client).

Over the network only the metadata is sent. A server in the same process hands out the whole object, which costs nothing
as long as no reader keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict

from dray.client.client import Client, ObjectList
from dray.client.resources import Resource

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.meta import ListMeta, ObjectMeta

    class PartialObjectMetadataList(TypedDict, total=False):
        metadata: ListMeta
        items: Sequence[Object]


_ONE: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_MANY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


async def get(client: Client, resource: Resource[Any], namespace: str, name: str) -> ObjectMeta:
    """The metadata of one object."""
    found: Object = (await client.request("GET", resource.path(namespace, name), accept=_ONE)).object
    return found["metadata"]


async def listed(client: Client, resource: Resource[Any], namespace: str = "") -> ObjectList[Object]:
    """A collection, of whose items only the metadata may be relied on."""
    page: PartialObjectMetadataList
    page = (await client.request("GET", resource.path(namespace), accept=_MANY)).object
    return ObjectList(page.get("items") or (), (page.get("metadata") or {}).get("resourceVersion", ""))
