"""The types of the API as data: structs with fields, lists, maps, unions and scalars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

#: When a field is written. ``required`` and ``always``: even when zero; ``omitempty`` and ``omitzero``: only when set.
Emission = Literal["required", "always", "omitempty", "omitzero"]

NO_DEFAULT: Final = object()


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A leaf: string, bool, int32, int64, float64, quantity, intorstring, time, microtime, duration, bytes or raw."""

    base: str
    go: str
    enum: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ListOf:
    item: Type
    go: str
    wrapped: bool = False  # in protobuf a message of its own, so that empty and absent differ


@dataclass(frozen=True, slots=True, eq=False)
class MapOf:
    value: Type
    go: str


@dataclass(frozen=True, slots=True, eq=False)
class UnionOf:
    """A value of one of several types, told apart by its JSON shape."""

    options: tuple[Type, ...]
    go: str


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One member of a struct."""

    name: str
    type: Type
    emit: Emission
    pointer: bool = False
    patch: tuple[str, ...] = ()  # strategic merge: "merge", "replace", "retainKeys"
    merge_key: str = ""
    list_type: str = ""  # "", "atomic", "set" or "map"
    list_keys: tuple[str, ...] = ()
    atomic: bool = False  # a map or struct that is owned as a whole
    granular: bool = False  # one that is not, although its type would be
    mandatory: bool = False  # documented as required although an empty value is not written
    default: Any = NO_DEFAULT
    via: tuple[str, ...] = ()  # the embedded structs it comes from, outermost first
    number: int = 0  # in protobuf; 0 if it is not there
    within: tuple[int, ...] = ()  # the numbers of the embedded structs: JSON flattens them, protobuf does not

    @property
    def optional(self) -> bool:
        return self.emit != "required" and not self.mandatory


class Struct:
    """A Go struct. Its fields are looked up on first use, so types may refer to one another freely."""

    def __init__(
        self,
        name: str,
        go: str,
        *,
        atomic: bool,
        fields: Callable[[], tuple[Field, ...]],
        open_ended: bool = False,
    ) -> None:
        self.name = name  # "core/v1.Pod"
        self.go = go  # "v1.Pod"
        self.atomic = atomic
        self.open_ended = open_ended  # a custom resource that keeps fields its schema does not name
        self._load = fields

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return self._load()

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        return {f.name: f for f in self.fields}

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]

    def __repr__(self) -> str:
        return f"Struct({self.name})"


Type = Scalar | ListOf | MapOf | UnionOf | Struct
