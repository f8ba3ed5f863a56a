"""Claims in a simulation: which pod has brought one, who uses one that pods share, and what an allocation says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dray.api import claims
from dray.api.objects import controller_of

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.api.types.resource import AllocationResult, ResourceClaim
    from dray.simulate.components import Components


class SharedClaims:
    """The running pods that use each claim that was not made for one pod."""

    def __init__(self, components: Components) -> None:
        self._cache = components.claims
        self._pending = components.pending
        self._users: dict[tuple[str, str], set[str]] = {}  # by namespace and name of the claim

    def use(self, namespace: str, name: str, uid: str) -> None:
        self._users.setdefault((namespace, name), set()).add(uid)

    def release(self, namespace: str, name: str, uid: str) -> None:
        """A claim that nobody uses any more gives its devices back, as its controller would have it."""
        users = self._users.get((namespace, name), set())
        users.discard(uid)
        claim = self._cache.claim(namespace, name)
        if claim is not None and not users and claims.allocation(claim) is not None:
            freed = unallocated(claim)
            self._cache.set_claim(freed)
            self._pending.claim_event(claim, freed)


def names_of_shared(pod: Pod) -> tuple[str, ...]:
    """The claims that a pod names, not those that are made for it."""
    entries = pod["spec"].get("resourceClaims")
    if not entries:
        return ()
    return tuple(name for entry in entries if (name := claims.claim_and_template_names(entry)[0]) is not None)


def is_own(claim: ResourceClaim, uid: str) -> bool:
    """Whether the claim was made for this pod."""
    owner = controller_of(claim)
    return owner is not None and owner["uid"] == uid


def is_same(one: ResourceClaim, other: ResourceClaim) -> bool:
    return one["metadata"].get("uid") == other["metadata"].get("uid")


def unversioned(claim: ResourceClaim) -> ResourceClaim:
    """The caches pass over what is not newer than what they have, and nothing that is written here has a version."""
    metadata = claim["metadata"]
    if "resourceVersion" not in metadata:
        return claim
    return {**claim, "metadata": {k: v for k, v in metadata.items() if k != "resourceVersion"}}  # type: ignore[typeddict-item]


def unallocated(claim: ResourceClaim) -> ResourceClaim:
    return {**claim, "status": {}}


def device_names(result: AllocationResult) -> list[str]:
    return [
        f"{one['driver']}/{one['pool']}/{one['device']}"
        for one in (result.get("devices") or {}).get("results") or ()
    ]


def classes_of(claim: ResourceClaim, result: AllocationResult) -> Iterator[str]:
    """The class of each device of an allocation."""
    named: dict[str, str] = {}
    for request in claim["spec"]["devices"].get("requests") or ():
        if "exactly" in request:
            named[request["name"]] = request["exactly"]["deviceClassName"]
        for alternative in request.get("firstAvailable") or ():
            named[f"{request['name']}/{alternative['name']}"] = alternative["deviceClassName"]
    for one in (result.get("devices") or {}).get("results") or ():
        yield named.get(one["request"], "")
