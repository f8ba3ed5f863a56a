"""The documents of the API as types: a ``TypedDict`` for each struct, so that a misspelt field fails ``make check``.

``core``, ``resource`` and so on hold the hub, the newest shape of each kind, which rules and components work on;
``resource_v1alpha2`` and its like hold what older versions look like. These modules are written by
``scripts/document_types.py`` from ``dray.api.schema``, where every struct is described once.

The types exist for the type checker alone. A document is a plain dict, and a module imports its types below
``if TYPE_CHECKING:``, so that nobody waits for hundreds of classes at start::

    if TYPE_CHECKING:
        from dray.api.types.resource import ResourceClaim

- A key is ``Required`` where Go always writes it and the struct only stands in lists and maps: an element is whole or
  not there. Any other struct may be missing as a whole, and is read by ``claim.get("status") or {}``.
- Fields of all releases are there, whichever release is emulated.
- Lists and maps are ``Sequence`` and ``Mapping``: documents are shared, and whoever changes one builds a new one.
- Quantities, times and bytes are text, as the hub holds them. ``Any`` is what the API itself does not describe:
  opaque parameters, patches, custom resources.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import ListMeta, ObjectMeta


class Object(TypedDict, total=False):
    """An object of any kind: what all of them have."""

    apiVersion: str
    kind: str
    metadata: ObjectMeta


class ObjectList(TypedDict, total=False):
    """A list of objects of any kind."""

    apiVersion: str
    kind: str
    metadata: ListMeta
    items: Sequence[Any]
