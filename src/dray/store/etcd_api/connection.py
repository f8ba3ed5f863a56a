"""A connection to an etcd cluster: plain calls and watch streams over several endpoints, with fail-over."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from dray.backoff import Backoff
from dray.store.access import EtcdAccess
from dray.store.etcd_api import rpc_pb2 as rpc
from dray.store.interface import Compacted, FutureRevision, StoreError, StoreFull, StoreUnavailable

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2000),  # also what an attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A silent connection is found dead by these; etcd refuses to be asked more often than every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
)
CALL_TIMEOUT: Final = 10.0
#: A write that was on its way to a leader that died gets no answer for five seconds; it is repeated sooner.
TXN_TIMEOUT: Final = 2.0
#: How long a call is tried again, on one member after the other: an election or a restart is sat out.
RETRY_SECONDS: Final = 10.0
RETRY_BACKOFF: Final = Backoff(initial=0.05, maximum=0.5)

_REQUIRE_LEADER: Final = (("hasleader", "true"),)
#: The whole key space, in etcd's spelling.
EVERYTHING: Final = b"\0"

Reply = TypeVar("Reply", bound=Message)


class AnswerLost(StoreUnavailable):
    """A member may have carried out the request, and its answer did not arrive."""


class Connection:
    """One channel per endpoint, made when first used. Calls go to the current one, until it fails."""

    def __init__(self, endpoints: Sequence[str], access: EtcdAccess | None = None) -> None:
        self._endpoints = list(endpoints)
        self._access = access or EtcdAccess()
        self._token = ""
        self._channels: dict[str, Any] = {}  # of grpc.aio.Channel, whose published types are incomplete
        self._calls: dict[tuple[str, str], Any] = {}
        self._current = random.randrange(len(self._endpoints))  # several API servers spread over the members

    def _channel(self, endpoint: str) -> Any:
        if endpoint not in self._channels:
            if self._access.tls:
                credentials = grpc.ssl_channel_credentials(*self._access.pem())
                self._channels[endpoint] = grpc.aio.secure_channel(endpoint, credentials, options=_OPTIONS)
            else:
                self._channels[endpoint] = grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
        return self._channels[endpoint]

    def _endpoint(self) -> str:
        return self._endpoints[self._current]

    def _fail_over(self, failed: str) -> None:
        # Many calls fail together when a member goes; only the first of them may move on, or we go round in circles.
        if failed == self._endpoint():
            self._current = (self._current + 1) % len(self._endpoints)

    async def range(self, request: rpc.RangeRequest) -> rpc.RangeResponse:
        reply, _ = await self._call("KV/Range", request, rpc.RangeResponse)
        return reply

    async def compact(self, request: rpc.CompactionRequest) -> rpc.CompactionResponse:
        reply, _ = await self._call("KV/Compact", request, rpc.CompactionResponse)
        return reply

    async def grant_lease(self, request: rpc.LeaseGrantRequest) -> rpc.LeaseGrantResponse:
        reply, _ = await self._call("Lease/LeaseGrant", request, rpc.LeaseGrantResponse)
        return reply

    async def txn(self, request: rpc.TxnRequest, *, repeatable: bool) -> tuple[rpc.TxnResponse, bool]:
        """The answer, and whether an earlier attempt may have been carried out without our learning of it."""
        return await self._call(
            "KV/Txn", request, rpc.TxnResponse, timeout=TXN_TIMEOUT, repeatable=repeatable
        )

    async def alarms(self) -> Sequence[rpc.AlarmMember]:
        """What is wrong with members, as they say themselves."""
        reply, _ = await self._call("Maintenance/Alarm", rpc.AlarmRequest(), rpc.AlarmResponse)
        return list(reply.alarms)

    async def status(self) -> rpc.StatusResponse:
        """Version and size of the member that is used now."""
        reply, _ = await self._call("Maintenance/Status", rpc.StatusRequest(), rpc.StatusResponse)
        return reply

    async def _metadata(self) -> tuple[tuple[str, str], ...]:
        """A member that has lost its leader says so at once instead of keeping us waiting; and who we are."""
        if self._access.username and not self._token:
            request = rpc.AuthenticateRequest(name=self._access.username, password=self._access.password())
            call = self._channel(self._endpoint()).unary_unary(
                "/etcdserverpb.Auth/Authenticate",
                request_serializer=rpc.AuthenticateRequest.SerializeToString,
                response_deserializer=rpc.AuthenticateResponse.FromString,
            )
            self._token = (await call(request, timeout=CALL_TIMEOUT)).token
        return (*_REQUIRE_LEADER, ("token", self._token)) if self._token else _REQUIRE_LEADER

    async def _call(
        self,
        method: str,
        request: Message,
        reply: type[Reply],
        *,
        timeout: float = CALL_TIMEOUT,
        repeatable: bool = True,
    ) -> tuple[Reply, bool]:
        """The answer of the first member that gives one, and whether another one may have carried out the request.

        Raises ``AnswerLost`` rather than have a request that is not ``repeatable`` carried out twice.
        """
        began = time.monotonic()
        failures, renewed, unanswered = 0, False, False
        while True:
            endpoint = self._endpoint()
            call = self._calls.get((endpoint, method))
            if call is None:
                call = self._calls[endpoint, method] = self._channel(endpoint).unary_unary(
                    f"/etcdserverpb.{method}",
                    request_serializer=type(request).SerializeToString,
                    response_deserializer=reply.FromString,
                )
            try:
                return await call(request, timeout=timeout, metadata=await self._metadata()), unanswered
            except grpc.aio.AioRpcError as error:
                if _token_has_run_out(error) and not renewed:
                    self._token, renewed = "", True
                    continue
                translated = _translate(error)
                unanswered = unanswered or not _was_turned_away(error)
            except grpc.aio.UsageError as error:
                raise StoreUnavailable("the connection to etcd has been closed") from error
            lasting = not isinstance(translated, StoreUnavailable) or isinstance(translated, StoreFull)
            if lasting or time.monotonic() - began > RETRY_SECONDS:
                raise translated
            self._fail_over(endpoint)
            if unanswered and not repeatable:
                raise AnswerLost(str(translated)) from translated
            await asyncio.sleep(RETRY_BACKOFF.after(failures))
            failures += 1

    @asynccontextmanager
    async def watch(self, *, after: int) -> AsyncIterator[AsyncIterator[Sequence[rpc.Event]]]:
        """Every event of the whole key space after a revision: as each revision has one, none can be missed unseen.

        Asking from ``after`` itself on makes etcd refuse exactly when something after it has been compacted.
        """
        endpoint = self._endpoint()
        try:
            metadata = await self._metadata()
        except grpc.aio.AioRpcError as error:
            self._fail_over(endpoint)
            raise _translate(error) from error
        call = self._channel(endpoint).stream_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=rpc.WatchRequest.SerializeToString,
            response_deserializer=rpc.WatchResponse.FromString,
        )(metadata=metadata)
        create = rpc.WatchCreateRequest(
            key=EVERYTHING, range_end=EVERYTHING, start_revision=max(after, 1), prev_kv=True
        )
        try:
            await call.write(rpc.WatchRequest(create_request=create))
            yield _events(call, after)
        except grpc.aio.AioRpcError as error:
            if _token_has_run_out(error):
                self._token = ""
            else:
                self._fail_over(endpoint)
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
        if response.canceled and "auth" in response.cancel_reason:
            raise StoreError(f"etcd refuses the watch: {response.cancel_reason}")
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
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "space" in details:
        return StoreFull("etcd has no space left: compact and defragment it, then disarm the NOSPACE alarm")
    return StoreError(f"etcd refuses: {details}")


def _was_turned_away(error: grpc.aio.AioRpcError) -> bool:
    """Whether the request certainly was not carried out: it was never sent, or a member without leader refused it."""
    details = error.details() or ""
    return "failed to connect to all addresses" in details or details == "etcdserver: no leader"


def _token_has_run_out(error: grpc.aio.AioRpcError) -> bool:
    return error.code() is grpc.StatusCode.UNAUTHENTICATED
