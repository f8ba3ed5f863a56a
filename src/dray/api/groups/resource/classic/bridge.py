"""How a classic claim shows through the modern versions, and what a write through them may change.

Names of claims are unique over all generations, so a reader of v1 must see classic claims too: without device
requests, but with their state, their consumers and the nodes they are available on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dray.api.scheme.kinds import Object

if TYPE_CHECKING:
    from dray.api.types.resource import ResourceClaim

#: Names the version an object really belongs to.
GENERATION: Final = "resource.dray.dev/generation"


def as_modern(claim: Object, *, generation: str = "v1alpha2") -> Object:
    """A classic claim (hub) as a modern one (hub)."""
    metadata = {**claim["metadata"], "annotations": _annotated(claim["metadata"], generation)}
    before = claim.get("status") or {}
    status: dict[str, Any] = {}
    if (allocation := before.get("allocation")) is not None:
        status["allocation"] = {"devices": {}}
        if (nodes := allocation.get("availableOnNodes")) is not None:
            status["allocation"]["nodeSelector"] = nodes
    if reserved := before.get("reservedFor"):
        status["reservedFor"] = reserved
    return {"metadata": metadata, "spec": {"devices": {"requests": None}}, "status": status}


def is_classic(claim: ResourceClaim) -> bool:
    """Whether a modern claim is only the view of a classic one.

    Anybody may write an annotation; a claim that asks for devices stays what it is.
    """
    if GENERATION not in (claim["metadata"].get("annotations") or {}):
        return False
    return not (claim["spec"].get("devices") or {}).get("requests")


def merged(modern: Object, claim: Object) -> Object:
    """The classic claim after its modern view was changed.

    Metadata and reservations are taken over, and an allocation that was removed is gone. Anything else of a classic
    claim has no modern form and stays as it is.
    """
    metadata = dict(modern["metadata"])
    annotations = {
        key: value for key, value in (metadata.get("annotations") or {}).items() if key != GENERATION
    }
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    wanted, before = modern.get("status") or {}, claim.get("status") or {}
    status = {name: value for name, value in before.items() if name != "reservedFor"}
    if wanted.get("allocation") is None:
        status.pop("allocation", None)
        status.pop("deallocationRequested", None)
    if reserved := wanted.get("reservedFor"):
        status["reservedFor"] = reserved
    return {**claim, "metadata": metadata, "status": status}


def _annotated(metadata: Object, generation: str) -> Object:
    return {**(metadata.get("annotations") or {}), GENERATION: generation}
