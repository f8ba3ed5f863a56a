"""A connection to an etcd cluster: plain calls and watch streams over several endpoints, with fail-over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from dray.store.etcd_api import rpc_pb2 as rpc
from dray.store.interface import Compacted, FutureRevision, StoreError, StoreUnavailable

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A silent connection is found dead by these; etcd refuses to be asked more often than every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
)
CALL_TIMEOUT: Final = 10.0
#: Pause between attempts, doubled each time. With the attempts below an election or a restart is sat out.
RETRY_PAUSE: Final = 0.05
ATTEMPTS: Final = 6

#: The whole key space, in etcd's spelling.
EVERYTHING: Final = b"\0"

Reply = TypeVar("Reply", bound=Message)


class Connection:
    """One channel per endpoint, made when first used. Calls go to the current one, until it fails."""

    def __init__(self, endpoints: Sequence[str]) -> None:
        self._endpoints = list(endpoints)
        self._channels: dict[str, Any] = {}  # of grpc.aio.Channel, whose published types are incomplete
        self._current = 0

    def _channel(self) -> Any:
        endpoint = self._endpoints[self._current]
        if endpoint not in self._channels:
            self._channels[endpoint] = grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
        return self._channels[endpoint]

    def _fail_over(self) -> None:
        self._current = (self._current + 1) % len(self._endpoints)

    async def range(self, request: rpc.RangeRequest) -> rpc.RangeResponse:
        return await self._call("KV/Range", request, rpc.RangeResponse)

    async def compact(self, request: rpc.CompactionRequest) -> rpc.CompactionResponse:
        return await self._call("KV/Compact", request, rpc.CompactionResponse)

    async def grant_lease(self, request: rpc.LeaseGrantRequest) -> rpc.LeaseGrantResponse:
        return await self._call("Lease/LeaseGrant", request, rpc.LeaseGrantResponse)

    async def txn(self, request: rpc.TxnRequest) -> tuple[rpc.TxnResponse, bool]:
        """The answer, and whether an earlier attempt may have been carried out without our learning of it."""
        attempts: list[StoreUnavailable] = []
        reply = await self._call("KV/Txn", request, rpc.TxnResponse, attempts=attempts)
        return reply, bool(attempts)

    async def _call(
        self,
        method: str,
        request: Message,
        reply: type[Reply],
        *,
        attempts: list[StoreUnavailable] | None = None,
    ) -> Reply:
        failed = [] if attempts is None else attempts
        while True:
            call = self._channel().unary_unary(
                f"/etcdserverpb.{method}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=reply.FromString,
            )
            try:
                answer: Reply = await call(request, timeout=CALL_TIMEOUT)
                return answer
            except grpc.aio.AioRpcError as error:
                translated = _translate(error)
            except grpc.aio.UsageError as error:
                raise StoreUnavailable("the connection to etcd has been closed") from error
            if not isinstance(translated, StoreUnavailable):
                raise translated
            failed.append(translated)
            if len(failed) == ATTEMPTS:
                raise translated
            self._fail_over()
            await asyncio.sleep(RETRY_PAUSE * 2 ** (len(failed) - 1))

    @asynccontextmanager
    async def watch(self, *, after: int) -> AsyncIterator[AsyncIterator[Sequence[rpc.Event]]]:
        """Every event of the whole key space after a revision: as each revision has one, none can be missed unseen.

        Asking from ``after`` itself on makes etcd refuse exactly when something after it has been compacted.
        """
        call = self._channel().stream_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=rpc.WatchRequest.SerializeToString,
            response_deserializer=rpc.WatchResponse.FromString,
        )(metadata=(("hasleader", "true"),))
        create = rpc.WatchCreateRequest(
            key=EVERYTHING, range_end=EVERYTHING, start_revision=max(after, 1), prev_kv=True
        )
        try:
            await call.write(rpc.WatchRequest(create_request=create))
            yield _events(call, after)
        except grpc.aio.AioRpcError as error:
            self._fail_over()
            raise _translate(error) from error
        except (grpc.aio.UsageError, asyncio.InvalidStateError) as error:
            raise StoreUnavailable("the connection to etcd has been closed") from error
        finally:
            call.cancel()

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()


async def _events(call: Any, after: int) -> AsyncIterator[Sequence[rpc.Event]]:
    while isinstance(response := await call.read(), rpc.WatchResponse):
        if response.compact_revision:
            raise Compacted(after, response.compact_revision)
        if response.canceled:
            raise StoreUnavailable(f"etcd ended the watch: {response.cancel_reason}")
        if response.events:
            yield response.events
    raise StoreUnavailable("etcd ended the watch")


def _translate(error: grpc.aio.AioRpcError) -> StoreError:
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.OUT_OF_RANGE and "compacted" in details:
        return Compacted(0, 0)
    if code is grpc.StatusCode.OUT_OF_RANGE and "future" in details:
        return FutureRevision(0, 0)
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED):
        return StoreUnavailable(f"etcd cannot be reached: {details}")
    return StoreError(f"etcd refuses: {details}")
