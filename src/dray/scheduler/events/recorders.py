"""The recorders of events about pods: one for each profile, as an event names the scheduler that reports it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from dray.client.events import EventRecorder

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.client.client import Client
    from dray.client.resources import Resource


class Recorder(Protocol):
    """Writes events about pods."""

    def event(
        self,
        resource: Resource[Pod],
        obj: Pod,
        type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        *,
        action: str = "",
        related: tuple[Resource[Any], Any] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None: ...


class Recorders:
    """Writes the events of each pod in the name of the pod's profile."""

    def __init__(self, client: Client, profiles: Sequence[str]) -> None:
        self._by_name = {name: EventRecorder(client, name, api="events.k8s.io") for name in profiles}
        self._first = self._by_name[profiles[0]]

    def event(
        self,
        resource: Resource[Pod],
        obj: Pod,
        type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        *,
        action: str = "",
        related: tuple[Resource[Any], Any] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        chosen = self._by_name.get((obj.get("spec") or {}).get("schedulerName") or "", self._first)
        chosen.event(
            resource, obj, type, reason, message, action=action, related=related, annotations=annotations
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for recorder in self._by_name.values():
                group.create_task(recorder.run())
