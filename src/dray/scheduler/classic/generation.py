"""The classic generation in the scheduler: its cache, plugin and claim binders, wired together."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from dray.client.resources import CLASSIC_RESOURCE_CLAIMS, POD_SCHEDULING_CONTEXTS, POD_SCHEDULINGS, Resource
from dray.placement.classic.cache import ClassicCache
from dray.placement.classic.plugin import ClassicPlugin
from dray.placement.classic.quirks import ClassicQuirks
from dray.scheduler.classic.claim_binding import ClassicClaimBinders
from dray.scheduler.classic.event_handlers import ClassicEventHandlers
from dray.scheduler.classic.writer import ClassicWriter

if TYPE_CHECKING:
    from dray.api.release import EffectiveVersion
    from dray.client.client import Client
    from dray.client.informers import Informers
    from dray.scheduler.binding.claim_binding import ClaimBinders
    from dray.scheduler.queue.pending_pods import PendingPods


class ClassicGeneration:
    """Claims of v1alpha1 or v1alpha2, whichever of them the API server has."""

    def __init__(self, client: Client, served: Collection[Resource[Any]], version: EffectiveVersion) -> None:
        """``served``: the resources of the classic generation that the server has, all in one version."""
        self._by_name = {resource.plural: resource for resource in served}
        self._contexts = self._by_name.get(POD_SCHEDULINGS.plural) or POD_SCHEDULING_CONTEXTS
        self._client = client
        self._quirks = ClassicQuirks.of(version)
        self._classic_cache = ClassicCache()
        self.plugin = ClassicPlugin(self._classic_cache, self._quirks, context_kind=self._contexts.kind)

    def binders(self, device: ClaimBinders) -> ClassicClaimBinders:
        writer = ClassicWriter(
            self._client,
            claims=self._by_name.get(CLASSIC_RESOURCE_CLAIMS.plural) or CLASSIC_RESOURCE_CLAIMS,
            contexts=self._contexts,
            quirks=self._quirks,
        )
        return ClassicClaimBinders(writer, self._classic_cache, device)

    def add_event_handlers(self, informers: Informers, pending: PendingPods) -> None:
        handlers = ClassicEventHandlers(self._classic_cache, pending, self._quirks)
        handlers.start(informers, self._by_name, self._contexts)
