"""The driver on a node: cats as devices and as named resources, shown to containers in their environment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from dray.driver import Allocated, Claim, Device, DeviceID, Driver, Edits, Handle, Plugin, Pool
from dray.drivers.cats.inventory import DRIVER, Generation, HeldCat, cats_of, environment


class CatsDriver(Driver):
    name = DRIVER
    classic = True

    def __init__(self, *, count: int = 3, hidden: bool = False) -> None:
        """``hidden`` devices are not published until ``show`` is called."""
        self._count = count
        self._hidden = hidden
        self._plugin: Plugin | None = None

    async def started(self, plugin: Plugin) -> None:
        self._plugin = plugin

    def show(self) -> None:
        self._hidden = False
        if self._plugin is not None:
            self._plugin.publish(self.pools(self._plugin.options.node))

    def pools(self, node: str) -> Mapping[str, Pool]:
        return {} if self._hidden else super().pools(node)

    def devices(self, node: str) -> Iterable[Device]:
        return self._offered(node, Generation.DEVICES)

    def named_resources(self, node: str) -> Iterable[Device]:
        return self._offered(node, Generation.STRUCTURED)

    def allocated(self, handle: Handle) -> Sequence[Allocated]:
        if handle.structured is not None:
            return super().allocated(handle)
        cat: HeldCat = json.loads(handle.data)  # as the controller wrote it
        return [Allocated(id=DeviceID(cat["node"], cat["name"]), request="")]

    def edits(self, claim: Claim, device: Allocated) -> Edits:
        known = (cat for g in Generation for cat in cats_of(device.id.pool, g, count=self._count))
        cat = next((cat for cat in known if cat.name == device.name), None)
        return Edits(env=environment(cat)) if cat is not None else Edits()

    def _offered(self, node: str, generation: Generation) -> Iterable[Device]:
        for cat in cats_of(node, generation, count=self._count):
            yield Device(name=cat.name, attributes={"color": cat.color, "size": cat.size})
