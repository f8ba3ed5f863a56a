"""Leader election on a Lease, by client-go's rules, so that dray's components and Go ones can take turns.

Clocks of different machines are never compared: a contender that does not lead notes, by its own clock, when it last saw
the record change, and takes over when that was longer ago than the record's duration.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from dray.api.errors import NotFound, StatusError
from dray.api.times import format_micro_time
from dray.client import holder_identity
from dray.client.client import Client
from dray.client.resources import LEASES
from dray.metrics.registry import Registry

if TYPE_CHECKING:
    from dray.api.types.coordination import Lease, LeaseSpec

_log = logging.getLogger(__name__)

LEASE_DURATION: Final = 15.0
RENEW_DEADLINE: Final = 10.0
RETRY_PERIOD: Final = 2.0
JITTER: Final = 1.2


class LeadershipLost(Exception):
    """The lease could not be renewed in time: another process may lead by now."""


class LeaderElector:
    """One contender for a lease."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        lease_duration: float = LEASE_DURATION,
        renew_deadline: float = RENEW_DEADLINE,
        retry_period: float = RETRY_PERIOD,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        randomness: Callable[[], float] = random.random,
        ended: Callable[[str], bool] = holder_identity.process_ended,
    ) -> None:
        """``ended``: whether a holder is known to be gone, so that its lease need not run out first."""
        if not lease_duration > renew_deadline > JITTER * retry_period > 0:
            raise ValueError("a lease must outlast the renewal's deadline, and that several tries")
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._lease_duration = lease_duration
        self._renew_deadline = renew_deadline
        self._retry_period = retry_period
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._randomness = randomness
        self._ended = ended
        self._observed: Lease | None = None  # the Lease as last seen or written
        self._observed_at = 0.0

    @property
    def leader(self) -> str:
        """The identity of the leader, as far as this process has seen; "" if there is none."""
        return self._spec().get("holderIdentity") or ""

    @property
    def is_leader(self) -> bool:
        return self.leader == self._identity

    def register_metrics(self, registry: Registry) -> None:
        """Tell in the metrics who leads."""
        registry.gauge(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. "
            "'name' is the string used to identify the lease.",
            "name",
            read=lambda: [((self._name,), float(self.is_leader))],
        )

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for leadership, then run ``lead`` while it is held, and give it up when ``lead`` ends.

        Raises ``LeadershipLost`` after ``lead`` has been cancelled because the lease could not be renewed.
        """
        await self.acquire()
        _log.info("%s leads by %s/%s", self._identity, self._namespace, self._name)
        self._client.transport.leads_by = f"{self._namespace}/{self._name}={self._identity}"
        leading = asyncio.ensure_future(lead())
        renewing = asyncio.ensure_future(self.renew())
        try:
            await asyncio.wait((leading, renewing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (leading, renewing):
                task.cancel()
            await asyncio.wait((leading, renewing))
            await self.release()
            self._client.transport.leads_by = ""
        if leading.cancelled():
            raise LeadershipLost(f"{self._identity} no longer holds {self._namespace}/{self._name}")
        leading.result()

    async def acquire(self) -> None:
        """Try until we lead."""
        while not await self.try_acquire_or_renew():
            await self._sleep(self._retry_period * (1 + JITTER * self._randomness()))

    async def renew(self) -> None:
        """Renew until that has failed for the whole deadline."""
        while True:
            await self._sleep(self._retry_period)
            if not await self._renew_within_deadline():
                return

    async def _renew_within_deadline(self) -> bool:
        """The deadline counts from the first try, as client-go counts it, and after it there is one more try.

        So a process that got no CPU for a while still leads if nobody has taken the lease meanwhile.
        """
        deadline = self._clock() + self._renew_deadline
        while (left := deadline - self._clock()) > 0:
            if await self._renew_within(left):
                return True
            await self._sleep(max(min(self._retry_period, deadline - self._clock()), 0))
        return await self._renew_within(self._retry_period)

    async def _renew_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self.try_acquire_or_renew()
        except TimeoutError:
            _log.debug("the renewal of %s took too long", self._name)
            return False

    async def try_acquire_or_renew(self) -> bool:
        """Take the lease or renew it, if that is possible now."""
        try:
            return await self._acquire_or_renew()
        except StatusError as error:
            _log.info("%s/%s cannot be had now: %s", self._namespace, self._name, error)
            return False

    async def release(self) -> None:
        """Give the lease up, so that the next one need not wait for it to run out."""
        if not self.is_leader or self._observed is None:
            return
        moment = format_micro_time(self._now())
        record: LeaseSpec = {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "renewTime": moment,
            "acquireTime": moment,
            "leaseTransitions": self._spec().get("leaseTransitions", 0),
        }
        try:
            async with asyncio.timeout(self._renew_deadline):
                self._observe(await self._write(record))
        except (StatusError, TimeoutError) as error:
            _log.info("%s/%s could not be given up: %s", self._namespace, self._name, error)

    async def _acquire_or_renew(self) -> bool:
        moment = format_micro_time(self._now())
        record: LeaseSpec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._lease_duration),
            "acquireTime": moment,
            "renewTime": moment,
            "leaseTransitions": 0,
        }
        if self.is_leader and self._valid():
            # Most often nothing has changed since our last write: no need to look first.
            try:
                self._observe(await self._write(record | self._kept()))
                return True
            except StatusError as error:
                _log.debug("%s has changed since we wrote it: %s", self._name, error)
        try:
            found = await self._client.get(LEASES, self._namespace, self._name, timeout=self._renew_deadline)
        except NotFound:
            lease: Lease = {"metadata": {"name": self._name, "namespace": self._namespace}, "spec": record}
            self._observe(await self._client.create(LEASES, self._namespace, lease))
            return True
        if self._observed is None or found.get("spec") != self._observed.get("spec"):
            self._observe(found)
        else:
            self._observed = found
        if self.leader and not self.is_leader and self._valid() and not self._ended(self.leader):
            return False
        if self.is_leader:
            record |= self._kept()
        else:
            record["leaseTransitions"] = self._spec().get("leaseTransitions", 0) + 1
        self._observe(await self._write(record))
        return True

    async def _write(self, record: LeaseSpec) -> Lease:
        assert self._observed is not None
        return await self._client.update(
            LEASES, self._namespace, {**self._observed, "spec": {**self._spec(), **record}}
        )

    def _kept(self) -> LeaseSpec:
        """What stays the same while the holder does."""
        spec = self._spec()
        kept: LeaseSpec = {}
        if "acquireTime" in spec:
            kept["acquireTime"] = spec["acquireTime"]
        if "leaseTransitions" in spec:
            kept["leaseTransitions"] = spec["leaseTransitions"]
        return kept

    def _spec(self) -> LeaseSpec:
        return (self._observed or {}).get("spec") or {}

    def _observe(self, lease: Lease) -> None:
        self._observed = lease
        self._observed_at = self._clock()

    def _valid(self) -> bool:
        return self._observed_at + (self._spec().get("leaseDurationSeconds") or 0) > self._clock()
