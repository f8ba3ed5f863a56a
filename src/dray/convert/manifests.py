"""Manifests as text: documents that change are written anew with their comments, others stay byte for byte."""

from __future__ import annotations

import io
import re
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
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
    texts: Sequence[str],
    *,
    files: Sequence[str] = (),
    target: str = "v1",
    rules: Sequence[ParameterRule] = (),
) -> Converted:
    """Convert texts together: documents in one may refer to those in another. ``files`` are where they come from."""
    split = [_parts(text, file) for text, file in zip_longest(texts, files, fillvalue="")]
    parts = [part for file in split for part in file if part.tree is not None]
    result = convert([part.tree for part in parts], target=target, rules=rules)
    outcome = {id(part): (kept is not None, changed) for part, kept, changed in zip(parts, result.documents, result.changed, strict=True)}  # fmt: skip
    written = []
    for file in split:
        pieces: list[str] = []
        for part in file:
            kept, changed = outcome.get(id(part), (True, False))
            if kept:
                # Where the first document of a file is left out, the second needs no line that opens it.
                opening = part.opening if pieces or part is file[0] else ""
                pieces.append(opening + (_dump(part) if changed else part.text))
        written.append("".join(pieces))
    return Converted(tuple(written), result.notes)


def _parts(text: str, file: str) -> list[_Part]:
    text = text if not text or text.endswith("\n") else text + "\n"
    cuts = list(_SEPARATOR.finditer(text))
    spans = [("", text[: cuts[0].start()] if cuts else text)]
    starts = [0, *(text.count("\n", 0, cut.end()) for cut in cuts)]
    ends = [cut.start() for cut in cuts[1:]] + [len(text)] * bool(cuts)
    for cut, end in zip(cuts, ends, strict=True):
        spans.append((cut[0], text[cut.end() : end]))
    if spans[0] == ("", ""):
        del spans[0], starts[0]
    return [
        _Part(opening, body, _load(body, file, start))
        for (opening, body), start in zip(spans, starts, strict=True)
    ]


def _load(text: str, file: str, start: int) -> Any:
    """The tree of a document that begins after ``start`` lines of its file."""
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        yamldocs.check(text)
        tree = _yaml(text).load(text)
    except MarkedYAMLError as problem:
        if dashes := yamldocs.typographic_separator(text):
            raise InvalidManifest(f"{file}:{start + dashes.line}: {dashes.problem}") from None
        line = start + 1 + (problem.problem_mark.line if problem.problem_mark is not None else 0)
        raise InvalidManifest(f"{file}:{line}: not YAML: {problem.problem or problem.context}") from None
    except (YAMLError, ValueError) as problem:
        raise InvalidManifest(f"{file}:{start + 1}: not YAML: {' '.join(str(problem).split())}") from None
    if tree is not None and not isinstance(tree, MutableMapping):
        raise InvalidManifest(f"{file}:{start + 1}: not an object")
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
