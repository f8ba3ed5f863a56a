"""The cats of each node, and which of them a claim's parameters select.

A cat belongs to one generation of the API. Each generation allocates on its own and does not see what another one has
allocated.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, TypedDict

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta

DRIVER: Final = "resource-driver.example.com"


class ClaimParametersSpec(TypedDict, total=False):
    color: str
    size: str
    shareable: bool


class ClaimParameters(TypedDict, total=False):
    """The custom resource in which users say which cat they want, and administrators what a class's claims have in common."""

    apiVersion: str
    kind: str
    metadata: ObjectMeta
    spec: ClaimParametersSpec


class HeldCat(TypedDict, total=False):
    """The data of a classic claim's handle: the controller writes it and the node's plugin reads it."""

    node: str
    name: str
    color: str
    size: str


class Generation(Enum):
    """Who finds a cat for a claim."""

    CLASSIC = "the driver's controller"
    STRUCTURED = "the scheduler of 1.30, from named resources"
    DEVICES = "the scheduler, from devices"


@dataclass(frozen=True, slots=True)
class Cat:
    name: str
    color: str
    size: str


_CATS_BY_GENERATION: Final = {
    Generation.CLASSIC: (
        Cat("felix", "black", "large"),
        Cat("mohrle", "black", "large"),
        Cat("minka", "white", "small"),
    ),
    Generation.STRUCTURED: (
        Cat("sylvester", "black", "large"),
        Cat("panther", "black", "large"),
        Cat("snowball", "white", "small"),
    ),
    Generation.DEVICES: (
        Cat("bagheera", "black", "large"),
        Cat("behemoth", "black", "large"),
        Cat("duchess", "white", "small"),
    ),
}


@dataclass(frozen=True, slots=True)
class CatSelector:
    """What ClaimParameters ask for; what is not said does not matter."""

    color: str = ""
    size: str = ""
    shareable: bool = False  # a classic claim that any number of pods may use

    @classmethod
    def of(cls, claim: ClaimParameters | None, of_class: ClaimParameters | None = None) -> CatSelector:
        """What the claim's parameters do not say, those of its class do."""
        spec: ClaimParametersSpec = {**_spec(of_class), **_spec(claim)}
        return cls(
            str(spec.get("color") or ""), str(spec.get("size") or ""), shareable=bool(spec.get("shareable"))
        )

    def matches(self, cat: Cat) -> bool:
        return self.color in ("", cat.color) and self.size in ("", cat.size)


def _spec(parameters: ClaimParameters | None) -> ClaimParametersSpec:
    return (parameters or {}).get("spec") or {}


def cats_of(node: str, generation: Generation, *, count: int = 3) -> tuple[Cat, ...]:
    """The cats of a node: the same litter everywhere, numbered where there are more."""
    litter = _CATS_BY_GENERATION[generation]
    found = []
    for number in range(count):
        cat, more = litter[number % len(litter)], number // len(litter)
        found.append(Cat(f"{cat.name}-{more}", cat.color, cat.size) if more else cat)
    return tuple(found)


def environment(cat: Cat) -> dict[str, str]:
    """The variables by which a container sees its cat. With several cats, the first three variables describe the last cat."""
    own = f"CAT_{cat.name.upper().replace('-', '_')}"
    return {
        "CAT_NAME": cat.name,
        "CAT_COLOR": cat.color,
        "CAT_SIZE": cat.size,
        own: f"{cat.size} {cat.color}",
    }
