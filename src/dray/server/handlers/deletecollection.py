"""DELETECOLLECTION: every selected object is deleted, one after the other; not atomic."""

from __future__ import annotations

import asyncio
import contextlib

from dray.api.errors import NotFound
from dray.server import admission
from dray.server.endpoints.call import Call
from dray.server.endpoints.options import delete_options, list_options
from dray.server.endpoints.responses import Response
from dray.server.handlers.delete import remove
from dray.server.handlers.list import listing
from dray.server.registry.selection import select
from dray.server.storage.documents import Document

_AT_ONCE = 64


async def deletecollection(call: Call) -> Response:
    wanted = list_options(call.request.query)
    selection = select(call.resource, call.codec, call.namespace, wanted)
    options = delete_options(call.request)
    found = await listing(call, wanted, selection)

    async def one(document: Document) -> None:
        # As upstream, admission is told of each object but not of its name.
        attributes = call.attributes(
            admission.DELETE, name="", options=options.object(), dry_run=options.dry_run
        )
        attributes.namespace = document.namespace
        with contextlib.suppress(NotFound):  # somebody else was faster
            await remove(call, document.key, options, attributes)

    documents = found.documents
    for at in range(0, len(documents), _AT_ONCE):
        results = await asyncio.gather(*map(one, documents[at : at + _AT_ONCE]), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
    return Response(200, found)
