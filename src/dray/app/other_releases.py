"""What a store holds of resource.k8s.io that another release wrote and this one cannot read.

A data directory may be started as one release after another. Claims cannot be listed as long as one of them cannot be
read, so the cluster would never be ready, and nobody could replace a template of the same name.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from dray.api.release import RESOURCE_GROUP
from dray.app.options import OptionError
from dray.server.storage.codec import UnknownVersion
from dray.store.interface import StoreError

if TYPE_CHECKING:
    from dray.server.apiserver import APIServer

log = logging.getLogger(__name__)

_SLICES = "resourceslices"  # drivers publish them anew


async def leave_behind(api: APIServer) -> None:
    """Delete the slices that cannot be read. Other such objects are the user's: OptionError says what to do."""
    resources = [one for one in api.resources if one.kind.group == RESOURCE_GROUP and not one.kind.virtual]
    lost = [
        (one.cache.prefix, error)
        for one in resources
        for error in one.cache.undecodable()
        if isinstance(error, UnknownVersion)
    ]
    slices = api.resources.resource(RESOURCE_GROUP, _SLICES)
    published = "" if slices is None else slices.cache.prefix
    left = [error for prefix, error in lost if prefix != published]
    if left:
        more = len(left) - 1
        others = f", and {more} more such object{'s' * (more != 1)}" if more else ""
        raise OptionError(
            f"{left[0].message}{others}. Another release wrote this: start the cluster as that release and delete it, "
            "or give this one a directory of its own with --data"
        )
    for prefix, error in lost:
        await _delete(api, prefix + (error.details or {})["name"])


async def _delete(api: APIServer, key: str) -> None:
    entry = await api.store.get(key)
    if entry is not None:
        with contextlib.suppress(StoreError):  # whoever was faster wanted the same
            await api.store.delete(key, expected=entry.mod_revision)
            log.info("%s was deleted: another release wrote it, and drivers publish it anew", key)
