"""Manifests as text: documents that change are written anew with their comments, others stay byte for byte."""

from __future__ import annotations

import io
import re
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from dray.api import yamldocs
from dray.convert.converter import convert
from dray.convert.notes import Note
from dray.convert.parameters import ParameterRule

_SEPARATOR = re.compile(r"^---(?=\s|$).*\n?", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|\s)(#.*)$", re.MULTILINE)
_LIST_BELOW_KEY = re.compile(r"^( *)[^\s#-][^\n]*:[ \t]*\n( *)- ", re.MULTILINE)
_WIDTH = 4096  # lines are the author's business


class InvalidManifest(ValueError):
    """The text is not YAML, or not made of objects."""


@dataclass(frozen=True, slots=True)
class Converted:
    texts: tuple[str, ...]  # one for each that was given
    notes: tuple[Note, ...]

    @property
    def complete(self) -> bool:
        return not any(note.lost for note in self.notes)


@dataclass(slots=True)
class _Part:
    """One document of a file: the line that opens it, its text and, unless it is empty, its tree."""

    opening: str
    text: str
    tree: Any


def convert_text(
    texts: Sequence[str], *, target: str = "v1", rules: Sequence[ParameterRule] = ()
) -> Converted:
    """Convert files together: documents in one may refer to those in another."""
    files = [_parts(text) for text in texts]
    parts = [part for file in files for part in file if part.tree is not None]
    result = convert([part.tree for part in parts], target=target, rules=rules)
    outcome = {id(part): (kept is not None, changed) for part, kept, changed in zip(parts, result.documents, result.changed, strict=True)}  # fmt: skip
    written = []
    for file in files:
        pieces: list[str] = []
        for part in file:
            kept, changed = outcome.get(id(part), (True, False))
            if kept:
                # Where the first document of a file is left out, the second needs no line that opens it.
                opening = part.opening if pieces or part is file[0] else ""
                pieces.append(opening + (_dump(part) if changed else part.text))
        written.append("".join(pieces))
    return Converted(tuple(written), result.notes)


def _parts(text: str) -> list[_Part]:
    text = text if not text or text.endswith("\n") else text + "\n"
    cuts = list(_SEPARATOR.finditer(text))
    spans = [("", text[: cuts[0].start()] if cuts else text)]
    ends = [cut.start() for cut in cuts[1:]] + [len(text)] * bool(cuts)
    for cut, end in zip(cuts, ends, strict=True):
        spans.append((cut[0], text[cut.end() : end]))
    if spans[0] == ("", ""):
        del spans[0]
    return [_Part(opening, body, _load(body)) for opening, body in spans]


def _load(text: str) -> Any:
    from ruamel.yaml.error import YAMLError

    try:
        yamldocs.check(text)
        tree = _yaml(text).load(text)
    except (YAMLError, ValueError) as problem:
        raise InvalidManifest(str(problem)) from None
    if tree is not None and not isinstance(tree, MutableMapping):
        raise InvalidManifest("a document is not an object")
    return tree


def _dump(part: _Part) -> str:
    out = io.StringIO()
    _yaml(part.text).dump(part.tree, out)
    text = out.getvalue()
    # A comment on something that has no place any more is still worth reading.
    homeless = [c.strip() for c in _COMMENT.findall(part.text) if c.strip() not in text]
    return "".join(f"{comment}\n" for comment in homeless) + text


def _yaml(text: str) -> Any:
    from ruamel.yaml import YAML

    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = _WIDTH
    yaml.allow_duplicate_keys = False
    found = _LIST_BELOW_KEY.search(text)
    if found is not None and len(found[2]) > len(found[1]):
        yaml.indent(mapping=2, sequence=4, offset=2)
    else:
        yaml.indent(mapping=2, sequence=2, offset=0)
    return yaml
