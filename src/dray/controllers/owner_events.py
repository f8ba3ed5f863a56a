"""Informer events of objects, delivered to the controller of their owner's kind and to no other.

Each workload controller wants the events of the pods that its kind owns. Without this each would get the events of all
pods and look at the owner of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NamedTuple

from dray.api.objects import controller_of
from dray.client.informers import Informer
from dray.client.resources import T

if TYPE_CHECKING:
    from dray.api.types.meta import OwnerReference


class Handler(NamedTuple, Generic[T]):
    """What a controller wants to know about the objects of its kind."""

    #: Gets the object, and the one it replaces if there is one.
    on_change: Callable[[T, T | None], None]
    #: Gets an object that was deleted or has another owner now, as it last was with its owner.
    on_delete: Callable[[T], None]


class OwnerEvents(Generic[T]):
    """The events of one informer, by the kind of the objects' controller."""

    def __init__(self, informer: Informer[T]) -> None:
        self._handlers: dict[str, list[Handler[T]]] = {}
        self._on_orphan: list[Callable[[T], None]] = []
        self._informer = informer
        informer.add_handler(on_add=self._added, on_update=self._updated, on_delete=self._deleted)

    def add_handler(
        self,
        kind: str,
        *,
        on_change: Callable[[T, T | None], None],
        on_delete: Callable[[T], None],
        on_orphan: Callable[[T], None] | None = None,
    ) -> None:
        """Deliver the events of objects whose controller is of this kind.

        ``on_orphan`` gets objects without a controller, which somebody may want to adopt.
        """
        self._handlers.setdefault(kind, []).append(Handler(on_change, on_delete))
        if on_orphan is not None:
            self._on_orphan.append(on_orphan)
        for obj in list(self._informer.items()):
            owner = controller_of(obj)
            if owner is None:
                if on_orphan is not None:
                    on_orphan(obj)
            elif owner["kind"] == kind:
                on_change(obj, None)

    def _added(self, obj: T) -> None:
        owner = controller_of(obj)
        if owner is None:
            self._orphaned(obj)
        else:
            for handler in self._handlers.get(owner["kind"], ()):
                handler.on_change(obj, None)

    def _updated(self, old: T, new: T) -> None:
        owner = controller_of(new)
        was, now = old["metadata"], new["metadata"]
        same = "ownerReferences" not in was or (
            "ownerReferences" in now and was["ownerReferences"] == now["ownerReferences"]
        )
        left = not same and self._left(old, owner)
        if owner is not None:
            for handler in self._handlers.get(owner["kind"], ()):
                handler.on_change(new, old)
        elif left or was.get("labels") != now.get("labels"):
            self._orphaned(new)

    def _left(self, old: T, owner: OwnerReference | None) -> bool:
        """Whether an object has left its owner, whose controller gets the event."""
        before = controller_of(old)
        if before is None or (owner is not None and owner["uid"] == before["uid"]):
            return False
        for handler in self._handlers.get(before["kind"], ()):
            handler.on_delete(old)
        return True

    def _orphaned(self, obj: T) -> None:
        for on_orphan in self._on_orphan:
            on_orphan(obj)

    def _deleted(self, obj: T) -> None:
        owner = controller_of(obj)
        if owner is not None:
            for handler in self._handlers.get(owner["kind"], ()):
                handler.on_delete(obj)
