"""Managed fields: who owns which field of an object, kept up to date with every write."""

from __future__ import annotations

from dray.api.errors import BadRequest
from dray.api.kinds import Object
from dray.server.calls import Call
from dray.server.options import WriteOptions


class Managing:
    """The seam between verbs and ``dray.api.patch.managed``."""

    def created(self, call: Call, obj: Object, manager: str) -> None:
        """Record who owns the fields of a new object."""

    def updated(self, call: Call, new: Object, old: Object | None, manager: str) -> None:
        """Record whose fields ``new`` changes."""

    def applied(self, call: Call, live: Object | None, data: bytes, options: WriteOptions) -> Object:
        """The hub object after a server-side apply."""
        raise BadRequest("server-side apply is not there yet")

    def keep_times(self, new: Object, old: Object) -> None:
        """An update that changes nothing but the time of its managed fields changes nothing."""
