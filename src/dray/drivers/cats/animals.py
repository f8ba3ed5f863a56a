"""Which cats live where, and which of them somebody asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

DRIVER: Final = "resource-driver.example.com"
PARAMETERS_GROUP: Final = "cats.resource.example.com"
PARAMETERS_KIND: Final = "ClaimParameters"

_LITTER: Final = (("felix", "black", "large"), ("mohrle", "black", "large"), ("minka", "white", "small"))


@dataclass(frozen=True, slots=True)
class Cat:
    name: str
    color: str
    size: str


@dataclass(frozen=True, slots=True)
class Wish:
    """What ClaimParameters ask for; what is not said does not matter."""

    color: str = ""
    size: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, Any] | None) -> Wish:
        spec = (parameters or {}).get("spec") or {}
        return cls(str(spec.get("color") or ""), str(spec.get("size") or ""))

    def fits(self, cat: Cat) -> bool:
        return self.color in ("", cat.color) and self.size in ("", cat.size)


def cats_of(node: str, *, count: int = 3) -> tuple[Cat, ...]:
    """The cats of a node: the same litter everywhere, numbered where there are more."""
    found = []
    for number in range(count):
        name, color, size = _LITTER[number % len(_LITTER)]
        more = number // len(_LITTER)
        found.append(Cat(f"{name}-{more}" if more else name, color, size))
    return tuple(found)


def environment(cat: Cat) -> dict[str, str]:
    """What a container sees of its cat."""
    return {"CAT_NAME": cat.name, "CAT_COLOR": cat.color, "CAT_SIZE": cat.size}
