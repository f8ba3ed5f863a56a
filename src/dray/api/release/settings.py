"""What gates and API versions have in common: how their flags are read, and the tables beside this module."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Final


class SettingError(ValueError):
    """A flag whose value makes no sense, worded as upstream words it."""


_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def parse_bool(text: str) -> bool | None:
    """What Go's strconv.ParseBool reads; None is its error."""
    return _BOOLS.get(text)


def table(name: str) -> Iterator[list[str]]:
    """The rows of a table, split into words; lines that begin with ``#`` are comments."""
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            yield line.split()
