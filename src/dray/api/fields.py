"""Dicts that have the field names of a document for keys. ``scripts/mypy_documents.py`` checks the names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Generic, TypeVar

    T = TypeVar("T")

    class Patch(dict[str, Any], Generic[T]):
        """Some fields of a ``T``, null where one is to go, and keys with a dollar for the server."""

        def __init__(self, changes: Mapping[str, object]) -> None: ...

    class FieldTable(dict[str, str], Generic[T]):
        """Texts by the name of any field within a ``T``, however deep."""

        def __init__(self, texts: Mapping[str, str]) -> None: ...
else:
    Patch = FieldTable = dict
