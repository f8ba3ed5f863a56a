"""``/dray/backup``: everything that is stored, at one revision. It holds all secrets of the cluster, and its keys.

Roles allow it as they allow any path; of the default ones, cluster-admin does.
"""

from __future__ import annotations

import time

from dray.server.apiserver import APIServer
from dray.server.endpoints.requestinfo import RequestInfo
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responses import Response, StreamBody
from dray.store import backup
from dray.wire.duplex import Sink

PATH = "/dray/backup"


def install(api: APIServer) -> None:
    async def handle(request: Request, info: RequestInfo) -> Response:
        return Response(200, StreamBody(_BackupStream(api), "application/octet-stream"))

    api.path_handlers[PATH] = handle


class _BackupStream:
    def __init__(self, api: APIServer) -> None:
        self._api = api
        self._closed = False

    async def run(self, sink: Sink) -> None:
        async for piece in backup.pieces(self._api.store, clock=time.time):
            if self._closed or sink.closed:
                return
            sink.write(piece)
            await sink.drained()

    def close(self) -> None:
        self._closed = True
