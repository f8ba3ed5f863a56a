"""What etcd's members say is wrong with them, and how full they are, for people who read logs and ``/readyz``.

A member that has run out of its quota raises NOSPACE, and the whole cluster refuses writes until somebody makes room and
disarms the alarm. Compaction frees room inside the file; only defragmentation, which stops a member for a while, gives
it back, so that is left to people.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from dray.store.etcd_api import rpc_pb2 as rpc
from dray.store.etcd_api.connection import Connection
from dray.store.interface import StoreError, StoreUnavailable

_log = logging.getLogger(__name__)

INTERVAL: Final = 60.0
#: A file of at least this size of which less than half is in use is worth a defragmentation.
WORTH_DEFRAGMENTING: Final = 256 * 2**20


async def problem(connection: Connection) -> str:
    """The alarms as one line; empty if there are none, or if we may not ask."""
    try:
        raised = await connection.alarms()
    except StoreUnavailable:
        raise
    except StoreError:
        return ""
    names = sorted(f"{rpc.AlarmType.Name(alarm.alarm)} of member {alarm.memberID:x}" for alarm in raised)
    if not names:
        return ""
    return f"etcd has raised {', '.join(names)}: make room (compact, defragment) or replace the member, then disarm"


async def report_periodically(connection: Connection, *, interval: float = INTERVAL) -> None:
    said = ""
    advised = False
    while True:
        await asyncio.sleep(interval)
        try:
            found = await problem(connection)
            status = await connection.status()
        except StoreError as error:
            _log.debug("etcd does not tell how it is: %s", error)
            continue
        if found != said:
            said = found
            _log.log(logging.ERROR if found else logging.INFO, "%s", found or "etcd's alarms are disarmed")
        wasteful = status.dbSize > WORTH_DEFRAGMENTING and status.dbSizeInUse * 2 < status.dbSize
        if wasteful and not advised:
            _log.warning(
                "etcd's file has %d MiB, of which %d are in use: etcdctl defrag gives the rest back",
                status.dbSize >> 20, status.dbSizeInUse >> 20,
            )  # fmt: skip
        advised = wasteful
