"""What fields mean, in words: our own for Dynamic Resource Allocation, those of a models package for the rest.

Our own stand in text files, ``Type`` or ``Type.field`` first and the words after it, continued on indented lines.
The models package is optional; without it other kinds have no descriptions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import resources
from typing import Final

_MODELS: Final = "lightkube-models"
#: Versions without words of their own for a field use those of another, newest first.
_OWN: Final = {"resource": ("v1", "v1beta2", "v1beta1", "v1alpha3", "v1alpha2", "v1alpha1")}
_PARAMETER: Final = re.compile(r"^\* \*\*(?P<name>[^*]+)\*\* ``[^`]*``(?: - (?P<text>.*))?$")


def of(type_name: str) -> Mapping[str, str]:
    """The words for a type: its fields by name, the type itself under the empty name."""
    package, _, short = type_name.rpartition(".")
    group, _, version = package.partition("/")
    if group in _OWN:
        found = dict(_COMMON)
        for other in reversed(_OWN[group]):
            found.update(_own_words(group, other).get(short, {}))
        found.update(_own_words(group, version).get(short, {}))
        return found
    return _model_words(f"{group}_{version}").get(short, {})


_COMMON: Final = {
    "kind": "The kind of object this is, such as Pod. Never changes.",
    "apiVersion": "Group and version in which this object is written.",
    "metadata": "Name, namespace, labels and the other data every object has.",
}


@cache
def _own_words(group: str, version: str) -> Mapping[str, Mapping[str, str]]:
    file = resources.files(f"dray.api.groups.{group}") / "descriptions" / f"{version}.txt"
    if not file.is_file():
        return {}
    found: dict[str, dict[str, str]] = {}
    type_, field = "", ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            found[type_][field] += " " + line.strip()
            continue
        name, _, text = line.partition(" ")
        type_, _, field = name.rstrip(":").partition(".")
        found.setdefault(type_, {})[field] = text.strip()
    return found


@lru_cache(maxsize=4)
def _model_words(module: str) -> Mapping[str, Mapping[str, str]]:
    """The docstrings of a module of the models package, which is read but never imported."""
    import ast
    from importlib import metadata

    try:
        source = metadata.distribution(_MODELS).locate_file(f"lightkube/models/{module}.py")
        with open(str(source), encoding="utf-8") as file:  # noqa: PTH123
            tree = ast.parse(file.read())
    except (metadata.PackageNotFoundError, OSError, SyntaxError):
        return {}
    return {
        node.name: _fields(ast.get_docstring(node) or "")
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


def _fields(docstring: str) -> Mapping[str, str]:
    head, _, parameters = docstring.partition("**parameters**")
    found = {"": _joined(head.splitlines())} if head.strip() else {}
    name, lines = "", list[str]()
    for line in parameters.splitlines():
        if (match := _PARAMETER.match(line.strip())) is not None:
            if name and lines:
                found[name] = _joined(lines)
            name, lines = match["name"], [match["text"] or ""]
        else:
            lines.append(line)
    if name and lines:
        found[name] = _joined(lines)
    return {name: text for name, text in found.items() if text}


def _joined(lines: list[str]) -> str:
    """Wrapped lines as paragraphs again."""
    paragraphs = re.split(r"\n\s*\n", "\n".join(line.strip() for line in lines).strip())
    return "\n\n".join(" ".join(p.split("\n")) for p in paragraphs)
