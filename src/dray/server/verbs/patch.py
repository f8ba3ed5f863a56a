"""PATCH: JSON patch, merge patch, strategic merge patch, server-side apply."""

from __future__ import annotations

from dray.api.errors import BadRequest
from dray.server.calls import Call
from dray.server.requests import Response


async def patch(call: Call) -> Response:
    raise BadRequest("not yet")


async def patch_view(call: Call) -> Response:
    raise BadRequest("not yet")
