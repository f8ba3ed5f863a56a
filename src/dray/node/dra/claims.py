"""Which claims a pod uses, and whether it may use them. Pure; the error texts are upstream's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from dray.api import claims
from dray.node.dra.classic.handles import resource_handles

if TYPE_CHECKING:
    from dray.api.types.core import Container, Pod
    from dray.api.types.resource import ResourceClaim
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim


class ClaimError(Exception):
    """Why a pod's claims cannot be prepared now; the text is for the pod's events."""


class PodClaim(NamedTuple):
    """A claim of a pod: the pod's name for it, the object's name, and whether the object must belong to the pod."""

    name: str
    claim: str
    owned: bool


class ContainerClaim(NamedTuple):
    """What a container uses of a claim: one request of it, or all."""

    claim: str
    request: str


def pod_claims(pod: Pod, *, fixed_names: bool = False) -> list[PodClaim]:
    """The claims of the pod that exist. Raises ClaimError for one that is still to be created."""
    entries = pod["spec"].get("resourceClaims") or ()
    try:
        found = [claims.reference(pod, entry, fixed_names=fixed_names) for entry in entries]
    except claims.ClaimNotCreated as e:
        raise ClaimError(str(e)) from e
    return _named(found, pod)


def known_claims(pod: Pod, *, fixed_names: bool = False) -> list[PodClaim]:
    """As ``pod_claims``, without those that do not exist: for cleaning up."""
    return _named(claims.references(pod, fixed_names=fixed_names), pod)


def _named(found: Iterable[claims.ClaimReference], pod: Pod) -> list[PodClaim]:
    # Without a name, the controller found that no claim is needed.
    out = [PodClaim(r.entry, r.claim, owned=r.generated) for r in found if r.claim]
    if extended := (pod.get("status") or {}).get("extendedResourceClaimStatus"):
        out.append(PodClaim("", extended["resourceClaimName"], owned=False))
    return out


def check_claim(pod: Pod, claim: ResourceClaim | ClassicClaim, pod_claim: PodClaim) -> None:
    """Raises ClaimError unless the claim was made for the pod (where it must be) and is reserved for it."""
    mine, theirs = pod["metadata"], claim["metadata"]
    if pod_claim.owned and (problem := claims.not_for_pod(pod, claim)):
        raise ClaimError(problem)
    if not claims.may_use(pod, claim):
        raise ClaimError(
            f"pod {mine['name']} ({mine['uid']}) is not allowed to use "
            f"ResourceClaim {theirs['name']} ({theirs['uid']})"
        )
    if not (claim.get("status") or {}).get("allocation"):
        raise ClaimError(f"ResourceClaim {theirs['name']}: not allocated")


def drivers_of(claim: ResourceClaim | ClassicClaim) -> list[str]:
    """The drivers that have something in the claim's allocation, in its order."""
    if handles := resource_handles(claim):
        return list(dict.fromkeys(handle.driver for handle in handles))
    results = cast("ResourceClaim", claim)["status"]["allocation"].get("devices", {}).get("results") or []
    return list(dict.fromkeys(r["driver"] for r in results))


PREPARE: Final = "NodePrepareResources"
UNPREPARE: Final = "NodeUnprepareResources"


def skipped_operations(claim: ResourceClaim | ClassicClaim) -> dict[str, frozenset[str]]:
    """The calls that a driver need not get, by driver: those that all its devices in the claim do without."""
    if resource_handles(claim):
        return {}
    results = cast("ResourceClaim", claim)["status"]["allocation"].get("devices", {}).get("results") or []
    skipped: dict[str, frozenset[str]] = {}
    for result in results:
        own = operations(result.get("skipNodeOperations") or ())
        skipped[result["driver"]] = own & skipped.get(result["driver"], own)
    return {driver: calls for driver, calls in skipped.items() if calls}


def operations(named: Iterable[str]) -> frozenset[str]:
    """The calls that are named, one by one or as ``*``."""
    calls = frozenset(named)
    return frozenset({PREPARE, UNPREPARE}) if "*" in calls else calls


def container_claims(
    pod: Pod, container: Container, *, fixed_names: bool = False
) -> Iterator[ContainerClaim]:
    """What a container uses of the pod's claims, extended resources included."""
    used: dict[str, list[str]] = {}
    resources = container.get("resources") or {}
    for entry in resources.get("claims") or []:
        used.setdefault(entry["name"], []).append(entry.get("request") or "")
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    for claim in known_claims(pod, fixed_names=fixed_names):
        if claim.name:
            yield from (ContainerClaim(claim.claim, request) for request in used.get(claim.name, ()))
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    for mapping in extended.get("requestMappings") or []:
        if mapping["containerName"] == container["name"] and mapping["resourceName"] in wanted:
            yield ContainerClaim(extended["resourceClaimName"], mapping["requestName"])
