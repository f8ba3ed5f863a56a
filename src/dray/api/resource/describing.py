"""What ``kubectl explain`` says about the types of the group, in our own words; see ``descriptions/``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

_CLASSIC: Final = frozenset({"v1alpha2", "v1alpha1"})


def describe(version: str, type_: str, field: str = "") -> str:
    """The description of a type, or of one of its fields; empty if there is none."""
    name = f"{type_}.{field}" if field else type_
    return _texts("classic" if version in _CLASSIC else "modern").get(name, "")


@cache
def _texts(generation: str) -> Mapping[str, str]:
    found = {}
    folder = resources.files(__package__).joinpath("descriptions")
    for line in folder.joinpath(f"{generation}.txt").read_text(encoding="utf-8").splitlines():
        name, colon, text = line.partition(": ")
        if colon and not name.startswith("#"):
            found[name] = text
    return found
