"""The containers of a pod by role: init containers, sidecars, main and ephemeral containers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from dray.api.pods import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dray.api.types.core import Container, Pod


class Roles(NamedTuple):
    """A pod's containers by role, each in its order. ``init`` holds ordinary init containers and sidecars. Ephemeral ones
    come while the pod runs, run once, and have no say in what becomes of it."""

    init: tuple[Container, ...]
    main: tuple[Container, ...]
    ephemeral: tuple[Container, ...] = ()

    @property
    def sidecars(self) -> tuple[Container, ...]:
        return tuple(c for c in self.init if is_sidecar(c))

    @property
    def all(self) -> tuple[Container, ...]:
        """Those that the pod was created with."""
        return self.init + self.main

    def find(self, name: str) -> Container | None:
        return next((c for c in (*self.all, *self.ephemeral) if c["name"] == name), None)


def roles(pod: Pod) -> Roles:
    spec = pod["spec"]
    # An ephemeral container has the fields of any other, and the name of the one that it looks into.
    ephemeral = cast("Sequence[Container]", spec.get("ephemeralContainers") or ())
    return Roles(
        tuple(spec.get("initContainers") or ()), tuple(spec.get("containers") or ()), tuple(ephemeral)
    )


def target_of(pod: Pod, name: str) -> str:
    """The container whose processes an ephemeral container sees, if it names one."""
    for ephemeral in pod["spec"].get("ephemeralContainers") or ():
        if ephemeral["name"] == name:
            return ephemeral.get("targetContainerName") or ""
    return ""
