"""Not acting twice on old news: an owner is not counted again before what was done to its pods has been seen."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dray.api.types.core import Pod


#: After so long the news is given up on.
EXPECTATIONS_TIMEOUT_SECONDS: Final = 300.0


@dataclass(slots=True)
class Expectations:
    """Pods that were made or deleted but have not been seen so yet, by owner."""

    clock: Callable[[], float]
    _making: dict[Hashable, dict[str, float]] = field(default_factory=dict)  # owner → uid → when
    _deleting: dict[Hashable, dict[str, float]] = field(default_factory=dict)

    def made(self, owner: Hashable, uid: str) -> None:
        self._making.setdefault(owner, {})[uid] = self.clock()

    def deleted(self, owner: Hashable, uid: str) -> None:
        self._deleting.setdefault(owner, {})[uid] = self.clock()

    def there(self, owner: Hashable, pod: Pod) -> None:
        """A pod was seen."""
        uid = pod["metadata"]["uid"]
        _lower(self._making, owner, uid)
        if "deletionTimestamp" in pod["metadata"]:
            _lower(self._deleting, owner, uid)

    def gone(self, owner: Hashable, uid: str) -> None:
        """A pod is no longer there, or could not be deleted."""
        _lower(self._making, owner, uid)
        _lower(self._deleting, owner, uid)

    def met(self, owner: Hashable, pods: Iterable[Pod]) -> bool:
        """Whether the news has caught up, given the pods that are seen at present."""
        making, deleting = self._making.get(owner), self._deleting.get(owner)
        if not making and not deleting:
            return True
        seen = {pod["metadata"]["uid"]: pod for pod in pods}
        for pod in seen.values():
            self.there(owner, pod)
        for uid in [u for u in deleting or () if u not in seen]:
            _lower(self._deleting, owner, uid)
        late = self.clock() - EXPECTATIONS_TIMEOUT_SECONDS
        for kept in (self._making, self._deleting):
            for uid in [u for u, when in kept.get(owner, {}).items() if when < late]:
                _lower(kept, owner, uid)
        return owner not in self._making and owner not in self._deleting

    def unobserved(self, owner: Hashable) -> tuple[frozenset[str], frozenset[str]]:
        """The uids of pods that were made, and of those that were deleted, but have not been seen so yet."""
        return frozenset(self._making.get(owner, ())), frozenset(self._deleting.get(owner, ()))

    def forget(self, owner: Hashable) -> None:
        self._making.pop(owner, None)
        self._deleting.pop(owner, None)


def _lower(kept: dict[Hashable, dict[str, float]], owner: Hashable, uid: str) -> None:
    found = kept.get(owner)
    if found is not None:
        found.pop(uid, None)
        if not found:
            del kept[owner]
