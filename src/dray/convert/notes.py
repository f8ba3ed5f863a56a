"""Notes about a conversion: what was lost, and what changed without being lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dray.api.types import Object


@dataclass(frozen=True, slots=True)
class Note:
    """One remark about one document. A result with a ``lost`` note does not say all that its source said."""

    document: str  # kind and name
    message: str
    lost: bool = False

    def __str__(self) -> str:
        return f"{self.document}: {self.message}"


@dataclass(slots=True)
class Notebook:
    """Collects the notes of one conversion."""

    notes: list[Note] = field(default_factory=list)

    def about(self, obj: Object) -> Remarks:
        metadata = obj.get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or "(no name)"
        return Remarks(self, f"{obj.get('kind')} {name}")


@dataclass(frozen=True, slots=True)
class Remarks:
    """Adds notes about one document."""

    book: Notebook
    document: str

    def lost(self, message: str) -> None:
        self.book.notes.append(Note(self.document, message, lost=True))

    def changed(self, message: str) -> None:
        self.book.notes.append(Note(self.document, message))
