"""The containers of a pod by role: init containers, sidecars, main containers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dray.api.pods import is_sidecar

if TYPE_CHECKING:
    from dray.api.types.core import Container, Pod


class Roles(NamedTuple):
    """A pod's containers by role, each in its order. ``init`` holds ordinary init containers and sidecars."""

    init: tuple[Container, ...]
    main: tuple[Container, ...]

    @property
    def sidecars(self) -> tuple[Container, ...]:
        return tuple(c for c in self.init if is_sidecar(c))

    @property
    def all(self) -> tuple[Container, ...]:
        return self.init + self.main

    def find(self, name: str) -> Container | None:
        return next((c for c in self.all if c["name"] == name), None)


def roles(pod: Pod) -> Roles:
    spec = pod["spec"]
    return Roles(tuple(spec.get("initContainers") or ()), tuple(spec.get("containers") or ()))
