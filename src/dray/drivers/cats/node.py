"""Today's driver: cats as devices with attributes, shown to containers in their environment."""

from __future__ import annotations

from collections.abc import Iterable

from dray.driver import Allocated, Claim, Device, Driver, Edits
from dray.drivers.cats.animals import DRIVER, cats_of, environment


class CatsDriver(Driver):
    name = DRIVER

    def __init__(self, *, count: int = 3) -> None:
        self._count = count

    def devices(self, node: str) -> Iterable[Device]:
        for cat in cats_of(node, count=self._count):
            yield Device(name=cat.name, attributes={"color": cat.color, "size": cat.size})

    def edits(self, claim: Claim, device: Allocated) -> Edits:
        found = {cat.name: cat for cat in cats_of(device.id.pool, count=self._count)}
        cat = found.get(device.name)
        return Edits(env=environment(cat)) if cat is not None else Edits()
