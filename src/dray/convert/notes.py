"""What a conversion has to tell: what was lost on the way, and what changed without being lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


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

    def about(self, document: Mapping[str, Any]) -> Remarks:
        metadata = document.get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or "(no name)"
        return Remarks(self, f"{document.get('kind')} {name}")


@dataclass(frozen=True, slots=True)
class Remarks:
    """A notebook opened at one document."""

    book: Notebook
    document: str

    def lost(self, message: str) -> None:
        self.book.notes.append(Note(self.document, message, lost=True))

    def changed(self, message: str) -> None:
        self.book.notes.append(Note(self.document, message))
