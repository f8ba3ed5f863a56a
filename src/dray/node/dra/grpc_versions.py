"""The gRPC services of drivers: which of them the kubelet calls, and the calls of those for claims that name devices.

A driver announces its services when it registers. Today's drivers are sent the names of claims and read the claims
themselves; ``classic`` has the services of older drivers. A driver may serve both, and the claim decides.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dray.kubelet_api.services import (
    DRA_SERVICES,
    DRA_V1ALPHA4,
    DRA_V1BETA1,
    Service,
)
from dray.node.dra.claiminfo import PreparedDevice
from dray.node.dra.classic.handles import ResourceHandle
from dray.node.quirks import Quirks

_NUMBER = re.compile(r"v?1(\.\d+)*")


class ClaimRef(NamedTuple):
    """A claim in a call to a driver; classic ones with what their allocation says to this driver."""

    namespace: str
    name: str
    uid: str
    handles: tuple[ResourceHandle, ...] = ()
    cdi_ids: tuple[str, ...] = ()  # known when it is unprepared


@dataclass(frozen=True, slots=True)
class PrepareResult:
    """What a driver said about one claim."""

    devices: Sequence[PreparedDevice] = ()
    error: str = ""


class CallFailed(Exception):
    """A call to a driver failed as a whole."""


class Unimplemented(CallFailed):
    """The driver does not have the method."""


class ChosenServices(NamedTuple):
    """What a driver understands: for claims that name devices, and for classic ones, the preferred first."""

    devices: Service | None
    handles: tuple[Service, ...]

    def __str__(self) -> str:
        services = ([self.devices] if self.devices else []) + list(self.handles[:1])
        return " and ".join(s.announced or s.full_name for s in services)


def choose_services(announced: Sequence[str], quirks: Quirks) -> ChosenServices:
    """Which services of a driver the kubelet calls; ValueError in its words if there is none that it knows."""
    if not announced:
        raise ValueError("empty list of supported gRPC services (aka supported versions)")
    numbered = any(_NUMBER.fullmatch(name) for name in announced)
    if quirks.knows_only_classic_drivers:
        if not numbered:
            listed = " ".join(f'"{name}"' for name in announced)
            raise ValueError(f"None of the versions specified [{listed}] are supported.")
        return ChosenServices(None, quirks.classic_services)
    handles = quirks.classic_services if numbered else ()
    if quirks.prefers_v1beta1:
        return ChosenServices(DRA_V1BETA1 if DRA_V1BETA1.announced in announced else DRA_V1ALPHA4, handles)
    known = DRA_SERVICES
    if quirks.accepts_v1alpha4:
        known = {**DRA_SERVICES, DRA_V1ALPHA4.announced: DRA_V1ALPHA4}
    for name in announced:
        if name in known:
            return ChosenServices(known[name], handles)
    if handles:
        return ChosenServices(DRA_V1ALPHA4, handles)
    theirs = " ".join(f'"{a}"' for a in announced)
    ours = " ".join(f'"{s}"' for s in DRA_SERVICES)
    raise ValueError(
        f"none of services supported by the plugin ([{theirs}]) are supported by the kubelet ([{ours}])"
    )


#: Makes a call of a service: method and request in, response out. Raises CallFailed.
Call = Callable[[str, Any], Awaitable[Any]]


async def prepare(service: Service, call: Call, claims: Sequence[ClaimRef]) -> dict[str, PrepareResult]:
    """Answers by claim uid."""
    messages = service.module
    request = messages.NodePrepareResourcesRequest(claims=_claims(messages, claims))
    response = await call("NodePrepareResources", request)
    return {uid: _prepare_result(result) for uid, result in response.claims.items()}


async def unprepare(service: Service, call: Call, claims: Sequence[ClaimRef]) -> dict[str, str]:
    """Errors by claim uid, empty where all went well."""
    messages = service.module
    request = messages.NodeUnprepareResourcesRequest(claims=_claims(messages, claims))
    response = await call("NodeUnprepareResources", request)
    return {uid: result.error for uid, result in response.claims.items()}


def _claims(messages: Any, claims: Sequence[ClaimRef]) -> list[Any]:
    return [messages.Claim(namespace=c.namespace, name=c.name, uid=c.uid) for c in claims]


def _prepare_result(result: Any) -> PrepareResult:
    devices = [
        PreparedDevice(
            pool=d.pool_name,
            name=d.device_name,
            requests=tuple(d.request_names),
            cdi_ids=tuple(d.cdi_device_ids),
            share=d.share_id
            if "share_id" in d.DESCRIPTOR.fields_by_name and d.HasField("share_id")
            else None,
        )
        for d in result.devices
    ]
    return PrepareResult(devices, result.error)
