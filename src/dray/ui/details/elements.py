"""What the page of an object is made of: the browser lays it out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from dray.ui.rows import Bar


class Link(msgspec.Struct, frozen=True, tag="link"):
    text: str
    kind: str
    id: str


class Chip(msgspec.Struct, frozen=True, tag="chip"):
    """A state: the browser gives it its colour and shape."""

    text: str


class Code(msgspec.Struct, frozen=True, tag="code"):
    text: str


class Time(msgspec.Struct, frozen=True, tag="time"):
    text: str


class Bars(msgspec.Struct, frozen=True, tag="bars"):
    bars: tuple[Bar, ...]


Atom = str | Link | Chip | Code | Time | Bars
Cell = Atom | list[Atom]


class Facts(msgspec.Struct, frozen=True, tag="facts"):
    title: str
    facts: list[tuple[str, Cell]]


class Table(msgspec.Struct, frozen=True, tag="table"):
    title: str
    columns: Sequence[str]
    rows: list[Sequence[Cell]]
    empty: str = ""  # shown in place of rows


class Timeline(msgspec.Struct, frozen=True, tag="timeline"):
    """Moments and the states that began there; True: no later than that moment."""

    title: str
    moments: list[tuple[float, str, bool]]


class Text(msgspec.Struct, frozen=True, tag="text"):
    """Folded, unless it is short."""

    title: str
    text: str


class Tiles(msgspec.Struct, frozen=True, tag="tiles"):
    """The devices of pools, as on the map."""

    title: str
    pools: list[str]
    devices: list[str] = []  # only these; empty: all of them


Section = Facts | Table | Timeline | Text | Tiles


class Page(msgspec.Struct, frozen=True):
    kind: str
    id: str
    title: str
    state: str = ""
    summary: str = ""
    why: bool = False  # there is an explanation for it
    uid: str = ""
    sections: list[Section] = []


NONE: Final = "–"
