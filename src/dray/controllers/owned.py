"""News of objects that others own: told to whoever keeps the owners' kind, and to nobody else.

Every controller of a workload follows the pods of its own; were each told of all pods, each would look for itself.
"""

from __future__ import annotations

from collections.abc import Callable

from dray.api.claims import controller_of
from dray.api.kinds import Object
from dray.client.informers import Informer

#: Gets the object, and the one it replaces if there is one.
OnChange = Callable[[Object, Object | None], None]
OnGone = Callable[[Object], None]


class OwnedNews:
    """What happens to the objects of one informer, by the kind of their controller; None is that of strays."""

    def __init__(self, informer: Informer) -> None:
        self._on_change: dict[str | None, list[OnChange]] = {}
        self._on_gone: dict[str | None, list[OnGone]] = {}
        self._informer = informer
        informer.add_handler(on_add=self._added, on_update=self._updated, on_delete=self._gone)

    def follow(self, *kinds: str | None, on_change: OnChange, on_gone: OnGone) -> None:
        for kind in kinds:
            self._on_change.setdefault(kind, []).append(on_change)
            self._on_gone.setdefault(kind, []).append(on_gone)
        for obj in list(self._informer.items()):
            if _owner_kind(obj) in kinds:
                on_change(obj, None)

    def _added(self, obj: Object) -> None:
        self._updated(None, obj)

    def _updated(self, old: Object | None, new: Object) -> None:
        for told in self._on_change.get(_owner_kind(new), ()):
            told(new, old)

    def _gone(self, obj: Object) -> None:
        for told in self._on_gone.get(_owner_kind(obj), ()):
            told(obj)


def _owner_kind(obj: Object) -> str | None:
    owner = controller_of(obj)
    return owner["kind"] if owner is not None else None
