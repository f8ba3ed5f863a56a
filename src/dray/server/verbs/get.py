"""GET of one object."""

from __future__ import annotations

from dray.server.calls import Call
from dray.server.responses import One, Response
from dray.server.verbs.list import wait_for_revision


async def get(call: Call) -> Response:
    query = call.request.query
    if query and (revision := query.get("resourceVersion")):
        await wait_for_revision(call, revision)
    else:
        await call.api.store.caught_up()
    return Response(200, One(call.existing(), call.codec))
