"""GET of one object."""

from __future__ import annotations

from dray.server.endpoints.call import Call
from dray.server.endpoints.responses import ObjectBody, Response
from dray.server.handlers.list import wait_for_revision


async def get(call: Call) -> Response:
    query = call.request.query
    if query and (revision := query.get("resourceVersion")):
        await wait_for_revision(call, revision)
    else:
        await call.api.store.wait_until_fresh()
    return Response(200, ObjectBody(call.existing(), call.codec))
