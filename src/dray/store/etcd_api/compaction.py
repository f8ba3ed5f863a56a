"""Periodic compaction of a shared etcd. All API servers on it, kube-apiserver included, agree through one key.

The key's version is a logical clock: the server that increments it does this round's compaction, to the revision that was the
newest one round ago; the others see that they were late and wait for the next round.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from dray.store.etcd_api import rpc_pb2 as rpc
from dray.store.etcd_api.connection import Connection
from dray.store.interface import Compacted, StoreError

_log = logging.getLogger(__name__)

KEY: Final = b"compact_rev_key"
INTERVAL: Final = 300.0


async def compact_periodically(connection: Connection, *, interval: float = INTERVAL) -> None:
    time, revision = 0, 0
    while True:
        await asyncio.sleep(interval)
        try:
            time, revision = await compact_once(connection, time, revision)
        except StoreError as error:
            _log.warning("etcd could not be compacted: %s", error)


async def compact_once(connection: Connection, time: int, revision: int) -> tuple[int, int]:
    """One round: compacts to ``revision`` if the clock still says ``time``. Returns what to say in the next round."""
    compare = rpc.Compare(target=rpc.Compare.VERSION, key=KEY, version=time)
    put = rpc.RequestOp(request_put=rpc.PutRequest(key=KEY, value=b"%d" % revision))
    read = rpc.RequestOp(request_range=rpc.RangeRequest(key=KEY))
    request = rpc.TxnRequest(compare=[compare], success=[put], failure=[read])
    reply, _ = await connection.txn(request, repeatable=True)
    newest = reply.header.revision
    if not reply.succeeded:
        kvs = reply.responses[0].response_range.kvs
        return (kvs[0].version if kvs else 0), newest
    if revision:
        try:
            await connection.compact(rpc.CompactionRequest(revision=revision))
        except Compacted:
            _log.debug("somebody else has compacted past revision %d", revision)
    return time + 1, newest
