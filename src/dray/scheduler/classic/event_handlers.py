"""Informers of the classic generation: their events fill the ``ClassicCache`` and requeue pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, TypeVar

from dray.api import objects
from dray.client.resources import (
    CLASSIC_RESOURCE_CLAIMS,
    CLASSIC_RESOURCE_CLASSES,
    CLASSIC_RESOURCE_SLICES,
    RESOURCE_CLAIM_PARAMETERS,
    RESOURCE_CLASS_PARAMETERS,
)
from dray.placement.classic.cache import ClassicCache, allocation_of
from dray.placement.classic.structured_parameters import allocated_instances

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.resource_v1alpha2 import PodSchedulingContext, ResourceClaim, ResourceClass
    from dray.client.informers import Informers
    from dray.client.resources import Resource
    from dray.placement.classic.quirks import ClassicQuirks
    from dray.scheduler.queue.pending_pods import PendingPods

T = TypeVar("T", bound="Object")


class ClassicEventHandlers:
    """1.30 requeues every pod at every event. Here only those are requeued that can fare differently."""

    def __init__(self, classic_cache: ClassicCache, pending: PendingPods, quirks: ClassicQuirks) -> None:
        self._classic_cache = classic_cache
        self._pending = pending
        self._quirks = quirks

    def start(
        self,
        informers: Informers,
        by_name: Mapping[str, Resource[Any]],
        contexts: Resource[PodSchedulingContext],
    ) -> None:
        """``by_name``: the resources that the server has, in its version; ``contexts``: what it calls them."""
        cache = self._classic_cache

        def follow(
            resource: Resource[T],
            set_: Callable[[T], None],
            remove: Callable[[T], None],
            requeues: Callable[[T | None, T], bool] = lambda old, new: True,
        ) -> None:
            if resource.plural not in by_name:
                return

            def changed(old: T | None, new: T) -> None:
                set_(new)
                if requeues(old, new):
                    self._requeue()

            informers.get(by_name[resource.plural]).add_handler(
                on_add=lambda new: changed(None, new),
                on_update=changed,
                on_delete=remove,
            )

        follow(CLASSIC_RESOURCE_CLASSES, self._class_set, self._class_deleted)
        follow(RESOURCE_CLASS_PARAMETERS, *_into(cache.class_parameters))
        follow(RESOURCE_CLAIM_PARAMETERS, *_into(cache.claim_parameters))
        follow(
            CLASSIC_RESOURCE_SLICES,
            cache.set_slice,
            lambda document: cache.remove_slice(document["metadata"]["name"]),
            lambda old, new: not self._quirks.ignores_new_slices,
        )
        follow(contexts, *_into(cache.contexts), self._context_changed)
        follow(CLASSIC_RESOURCE_CLAIMS, self._claim_set, self._claim_deleted, _came_free)

    def _requeue(self) -> None:
        self._pending.event("Classic")

    def _class_set(self, document: ResourceClass) -> None:
        self._classic_cache.classes[document["metadata"]["name"]] = document

    def _class_deleted(self, document: ResourceClass) -> None:
        self._classic_cache.classes.pop(document["metadata"]["name"], None)

    def _context_changed(self, old: PodSchedulingContext | None, new: PodSchedulingContext) -> bool:
        """Requeues the one pod of the scheduling context, if a driver has answered."""
        owner = objects.controller_of(new)
        if owner is not None and (new.get("status") or {}) != ((old or {}).get("status") or {}):
            self._pending.requeue_pods((owner["uid"],))
        return False

    def _claim_set(self, claim: ResourceClaim) -> None:
        if "resourceClassName" in claim["spec"]:
            self._classic_cache.set_claim(claim)
            self._pending.requeue_users(claim)

    def _claim_deleted(self, claim: ResourceClaim) -> None:
        self._classic_cache.remove_claim(claim)
        if not self._quirks.ignores_deleted_claims:
            self._requeue()


def _came_free(old: ResourceClaim | None, new: ResourceClaim) -> bool:
    """Whether a claim gave back instances that the scheduler had allocated."""
    return old is not None and allocation_of(new) is None and bool(allocated_instances(allocation_of(old)))


def _into(
    table: MutableMapping[tuple[str, str], T],
) -> tuple[Callable[[T], None], Callable[[T], None]]:
    """Handlers that set and delete a document in a table."""

    def set_(document: T) -> None:
        table[_key(document)] = document

    def delete(document: T) -> None:
        table.pop(_key(document), None)

    return set_, delete


def _key(document: Object) -> tuple[str, str]:
    metadata = document["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
