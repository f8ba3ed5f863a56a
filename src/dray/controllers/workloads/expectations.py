"""What a controller has done to pods and the informer has not shown yet.

While it waits, the controller does not count the pods of that owner: it would act twice on old data.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dray.api.types.core import Pod


#: After so long the controller does not wait any more.
EXPECTATIONS_TIMEOUT_SECONDS: Final = 300.0


@dataclass(slots=True)
class Expectations:
    """By owner: pods that were created or deleted and that the informer has not shown so yet."""

    clock: Callable[[], float]
    _creations: dict[Hashable, dict[str, float]] = field(default_factory=dict)  # owner → uid → when
    _deletions: dict[Hashable, dict[str, float]] = field(default_factory=dict)

    def expect_creation(self, owner: Hashable, uid: str) -> None:
        self._creations.setdefault(owner, {})[uid] = self.clock()

    def expect_deletion(self, owner: Hashable, uid: str) -> None:
        self._deletions.setdefault(owner, {})[uid] = self.clock()

    def creation_observed(self, owner: Hashable, pod: Pod) -> None:
        """The informer shows a pod."""
        uid = pod["metadata"]["uid"]
        _remove(self._creations, owner, uid)
        if "deletionTimestamp" in pod["metadata"]:
            _remove(self._deletions, owner, uid)

    def deletion_observed(self, owner: Hashable, uid: str) -> None:
        """A pod is gone, or could not be deleted."""
        _remove(self._creations, owner, uid)
        _remove(self._deletions, owner, uid)

    def satisfied(self, owner: Hashable, pods: Iterable[Pod]) -> bool:
        """Whether the informer, which shows these pods at present, has caught up."""
        creations, deletions = self._creations.get(owner), self._deletions.get(owner)
        if not creations and not deletions:
            return True
        seen = {pod["metadata"]["uid"]: pod for pod in pods}
        for pod in seen.values():
            self.creation_observed(owner, pod)
        for uid in [u for u in deletions or () if u not in seen]:
            _remove(self._deletions, owner, uid)
        late = self.clock() - EXPECTATIONS_TIMEOUT_SECONDS
        for kept in (self._creations, self._deletions):
            for uid in [u for u, when in kept.get(owner, {}).items() if when < late]:
                _remove(kept, owner, uid)
        return owner not in self._creations and owner not in self._deletions

    def unobserved(self, owner: Hashable) -> tuple[frozenset[str], frozenset[str]]:
        """The uids of pods that were created, and of those that were deleted, and that are not shown so yet."""
        return frozenset(self._creations.get(owner, ())), frozenset(self._deletions.get(owner, ()))

    def forget(self, owner: Hashable) -> None:
        self._creations.pop(owner, None)
        self._deletions.pop(owner, None)


def _remove(kept: dict[Hashable, dict[str, float]], owner: Hashable, uid: str) -> None:
    found = kept.get(owner)
    if found is not None:
        found.pop(uid, None)
        if not found:
            del kept[owner]
