"""The two versions that a classic cluster may have, and the difference between them.

1.26's v1alpha1 has one handle of no particular driver where v1alpha2 has a list, and calls the negotiation PodScheduling.
Everything else of the controller knows v1alpha2 only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dray.api.scheme.kinds import Object
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.resources import (
    CLASSIC_RESOURCE_CLAIMS,
    CLASSIC_RESOURCE_CLASSES,
    POD_SCHEDULING_CONTEXTS,
    POD_SCHEDULINGS,
    Resource,
)


class NoClassicApi(Exception):
    """The server does not serve what a classic driver needs."""


class Served(NamedTuple):
    """What a server has of the classic kinds."""

    classes: Resource[Any]
    claims: Resource[Any]
    contexts: Resource[Any]

    def read(self, claim: Object) -> Object:
        """A claim of the server in v1alpha2's form."""
        return self._changed(claim, "resourceHandle", _listed)

    def write(self, claim: Object) -> Object:
        """A claim in v1alpha2's form as the server takes it."""
        return self._changed(claim, "resourceHandles", _single)

    def _changed(self, claim: Object, key: str, change: Any) -> Object:
        status = claim.get("status") or {}
        allocation = status.get("allocation")
        if self.claims.version != "v1alpha1" or not allocation or key not in allocation:
            return claim
        kept = {name: value for name, value in allocation.items() if name != key}
        return {**claim, "status": {**status, "allocation": {**kept, **change(allocation[key])}}}


def _listed(handle: str) -> Object:
    return {"resourceHandles": [{"data": handle}]}


def _single(handles: list[Object]) -> Object:
    return {"resourceHandle": handles[0].get("data") or ""} if handles else {}


NEWEST = Served(CLASSIC_RESOURCE_CLASSES, CLASSIC_RESOURCE_CLAIMS, POD_SCHEDULING_CONTEXTS)
FIRST = Served(
    CLASSIC_RESOURCE_CLASSES.at("v1alpha1"), CLASSIC_RESOURCE_CLAIMS.at("v1alpha1"), POD_SCHEDULINGS
)


async def served(client: Client) -> Served:
    """The newest of them."""
    discovery = Discovery(client)
    for candidate in (NEWEST, FIRST):
        if await discovery.serves(candidate.contexts):
            return candidate
    raise NoClassicApi("the server has PodSchedulingContexts in neither v1alpha2 nor v1alpha1")
