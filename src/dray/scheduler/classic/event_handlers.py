"""Where the classic generation is wired into the scheduler: its informers feed the book and wake pods."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from dray.api import claims, objects
from dray.client.client import Client
from dray.client.informers import Informers
from dray.client.resources import (
    CLASSIC_RESOURCE_CLAIMS,
    CLASSIC_RESOURCE_CLASSES,
    CLASSIC_RESOURCE_SLICES,
    POD_SCHEDULING_CONTEXTS,
    POD_SCHEDULINGS,
    RESOURCE_CLAIM_PARAMETERS,
    RESOURCE_CLASS_PARAMETERS,
    Resource,
)
from dray.placement.classic.cache import ClassicCache
from dray.placement.classic.structured_parameters import allocated_instances
from dray.scheduler.classic.plugin import ClassicPlugin
from dray.scheduler.classic.writer import ClassicWriter

Document = Mapping[str, Any]


def add_event_handlers(
    client: Client,
    informers: Informers,
    *,
    served: Collection[Resource[Any]],
    alone: bool,
    early: bool = False,
    claim_changed: Callable[[Document], None],
    requeue: Callable[[], None],
    requeue_pod: Callable[[str], None],
) -> ClassicPlugin:
    """The classic generation, kept up to date. ``served`` are its resources that the server has, in one version.

    ``early``: names and words are those of 1.26 and 1.27. ``claim_changed`` lets the users of a
    claim try again, ``wake_pod`` one pod (by its uid), ``wake`` every pod that was turned down because of its claims.
    1.30 wakes all at every change; none but these can fare differently.
    """
    classic_cache = ClassicCache()
    by_name = {resource.plural: resource for resource in served}
    contexts = by_name.get(POD_SCHEDULINGS.plural) or POD_SCHEDULING_CONTEXTS

    def follow(
        resource: Resource[Any],
        set_: Callable[[Document], None],
        remove: Callable[[Document], None],
        requeues: Callable[[Document | None, Document], bool] = lambda old, new: True,
    ) -> None:
        if resource.plural not in by_name:
            return

        def changed(old: Document | None, new: Document) -> None:
            set_(new)
            if requeues(old, new):
                requeue()

        informers.get(by_name[resource.plural]).add_handler(
            on_add=lambda new: changed(None, new), on_update=changed, on_delete=remove
        )

    def claim_set(claim: Document) -> None:
        if "resourceClassName" in claim["spec"]:
            classic_cache.set_claim(claim)
            claim_changed(claim)

    def came_free(old: Document | None, new: Document) -> bool:
        """Whether instances that the scheduler gave away are back."""
        return claims.allocation(new) is None and bool(allocated_instances(claims.allocation(old or {})))

    def answered(old: Document | None, new: Document) -> bool:
        owner = objects.controller_of(new)
        # What the scheduler wrote itself is no news.
        if owner is not None and (new.get("status") or {}) != ((old or {}).get("status") or {}):
            requeue_pod(owner["uid"])
        return False

    def claim_gone(claim: Document) -> None:
        classic_cache.remove_claim(claim)
        if not alone:
            requeue()  # 1.30 itself lets pods sleep through this

    def into(table: dict[tuple[str, str], Document]) -> tuple[Any, Any]:
        return (
            lambda d: table.__setitem__(_key(d), d),
            lambda d: table.pop(_key(d), None),
        )

    def class_set(document: Document) -> None:
        classic_cache.classes[document["metadata"]["name"]] = document

    def class_gone(document: Document) -> None:
        classic_cache.classes.pop(document["metadata"]["name"], None)

    follow(CLASSIC_RESOURCE_CLASSES, class_set, class_gone)
    follow(RESOURCE_CLASS_PARAMETERS, *into(classic_cache.class_parameters))
    follow(RESOURCE_CLAIM_PARAMETERS, *into(classic_cache.claim_parameters))
    # 1.30 does not wake pods for a new slice; where all generations live together that is put right.
    follow(
        CLASSIC_RESOURCE_SLICES,
        classic_cache.set_slice,
        lambda d: classic_cache.remove_slice(d["metadata"]["name"]),
        lambda old, new: not alone,
    )
    follow(contexts, *into(classic_cache.contexts), answered)
    follow(CLASSIC_RESOURCE_CLAIMS, claim_set, claim_gone, came_free)
    writer = ClassicWriter(
        client,
        resource=by_name.get(CLASSIC_RESOURCE_CLAIMS.plural, CLASSIC_RESOURCE_CLAIMS),
        contexts=contexts,
        owners_wait=not early,
        as_in_130=alone,
    )
    return ClassicPlugin(classic_cache, writer, alone=alone, early=early)


def _key(document: Document) -> tuple[str, str]:
    metadata = document["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
