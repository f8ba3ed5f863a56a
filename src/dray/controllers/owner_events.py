"""News of objects that others own: told to whoever keeps the owners' kind, and to nobody else.

Every controller of a workload follows the pods of its own; were each told of all pods, each would look for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dray.api.objects import controller_of
from dray.client.informers import Informer

if TYPE_CHECKING:
    from dray.api.types import Object


#: Gets the object, and the one it replaces if there is one.
OnChange = Callable[[Any, Any], None]
#: Gets an object that is gone, or that its owner has lost, as it last was with that owner.
OnDelete = Callable[[Any], None]
#: Gets an object without a controller that somebody may want to adopt.
OnOrphan = Callable[[Any], None]


class OwnerEvents:
    """What happens to the objects of one informer, by the kind of their controller."""

    def __init__(self, informer: Informer[Any]) -> None:
        self._on_change: dict[str, list[OnChange]] = {}
        self._on_delete: dict[str, list[OnDelete]] = {}
        self._on_orphan: list[OnOrphan] = []
        self._informer = informer
        informer.add_handler(on_add=self._added, on_update=self._updated, on_delete=self._gone)

    def follow(
        self, kind: str, *, on_change: OnChange, on_delete: OnDelete, on_orphan: OnOrphan | None = None
    ) -> None:
        self._on_change.setdefault(kind, []).append(on_change)
        self._on_delete.setdefault(kind, []).append(on_delete)
        if on_orphan is not None:
            self._on_orphan.append(on_orphan)
        for obj in list(self._informer.items()):
            owner = controller_of(obj)
            if owner is None:
                if on_orphan is not None:
                    on_orphan(obj)
            elif owner["kind"] == kind:
                on_change(obj, None)

    def _added(self, obj: Object) -> None:
        owner = controller_of(obj)
        if owner is None:
            self._orphaned(obj)
        else:
            for told in self._on_change.get(owner["kind"], ()):
                told(obj, None)

    def _updated(self, old: Object, new: Object) -> None:
        owner = controller_of(new)
        was, now = old["metadata"], new["metadata"]
        same = "ownerReferences" not in was or (
            "ownerReferences" in now and was["ownerReferences"] == now["ownerReferences"]
        )
        left = not same and self._left(old, owner)
        if owner is not None:
            for told in self._on_change.get(owner["kind"], ()):
                told(new, old)
        elif left or was.get("labels") != now.get("labels"):
            self._orphaned(new)

    def _left(self, old: Object, owner: Mapping[str, Any] | None) -> bool:
        """Whether an object has left its owner, who is told."""
        before = controller_of(old)
        if before is None or (owner is not None and owner["uid"] == before["uid"]):
            return False
        for told in self._on_delete.get(before["kind"], ()):
            told(old)
        return True

    def _orphaned(self, obj: Object) -> None:
        for told in self._on_orphan:
            told(obj)

    def _gone(self, obj: Object) -> None:
        owner = controller_of(obj)
        if owner is not None:
            for told in self._on_delete.get(owner["kind"], ()):
                told(obj)
