"""How drivers of each age are spoken to, and which way one is to be spoken to.

Today's drivers look a claim up by its name. Those of the classic age are handed what its allocation says, first one claim
a call (v1alpha1, v1alpha2), then all at once (v1alpha3); they announced a number instead of services, and a kubelet
called what its release had. A driver may speak several ways: the claim decides.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dray.api.release import EffectiveVersion
from dray.kubelet_api.services import (
    CLASSIC_SERVICES,
    DRA_SERVICES,
    DRA_V1ALPHA4,
    DRA_V1BETA1,
    NODE_V1ALPHA1,
    NODE_V1ALPHA2,
    NODE_V1ALPHA3,
    Service,
)
from dray.node.dra.claiminfo import PreparedDevice
from dray.node.dra.claims import ResourceHandle

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


def choose_services(announced: Sequence[str], release: EffectiveVersion) -> ChosenServices:
    """What a kubelet of the release would speak with a driver; ValueError in its words if it would not."""
    if not announced:
        raise ValueError("empty list of supported gRPC services (aka supported versions)")
    numbered = any(_NUMBER.fullmatch(name) for name in announced)
    if release.emulated and not release.at_least("1.31"):
        if not numbered:
            listed = " ".join(f'"{name}"' for name in announced)
            raise ValueError(f"None of the versions specified [{listed}] are supported.")
        return ChosenServices(None, _classic(release))
    handles = CLASSIC_SERVICES if numbered and not release.emulated else ()
    if release.emulated and not release.at_least("1.34"):
        return ChosenServices(DRA_V1BETA1 if DRA_V1BETA1.announced in announced else DRA_V1ALPHA4, handles)
    known = DRA_SERVICES if release.emulated else {**DRA_SERVICES, DRA_V1ALPHA4.announced: DRA_V1ALPHA4}
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


def _classic(release: EffectiveVersion) -> tuple[Service, ...]:
    if not release.at_least("1.27"):
        return (NODE_V1ALPHA1,)
    return (NODE_V1ALPHA3, NODE_V1ALPHA2) if release.at_least("1.28") else (NODE_V1ALPHA2,)


#: Makes a call of a service: method and request in, response out. Raises CallFailed.
Call = Callable[[str, Any], Awaitable[Any]]


async def prepare(service: Service, call: Call, claims: Sequence[ClaimRef]) -> dict[str, PrepareResult]:
    """Answers by claim uid."""
    messages = service.module
    if service not in CLASSIC_SERVICES:
        response = await call(
            "NodePrepareResources",
            messages.NodePrepareResourcesRequest(claims=_claims_by_name(messages, claims)),
        )
        return {uid: _prepare_result(result) for uid, result in response.claims.items()}
    if service is NODE_V1ALPHA3:
        response = await call(
            "NodePrepareResources",
            messages.NodePrepareResourcesRequest(claims=_claims_with_handles(messages, claims)),
        )
        return {uid: PrepareResult(_cdi(r.cdi_devices), r.error) for uid, r in response.claims.items()}
    answers = {}
    for claim in claims:
        found: list[str] = []
        error = ""
        for handle in claim.handles:
            request = messages.NodePrepareResourceRequest(**_named(claim), **_handle(service, handle))
            try:
                response = await call("NodePrepareResource", request)
            except Unimplemented:
                raise
            except CallFailed as e:
                error = str(e)
                break
            found += response.cdi_devices
        answers[claim.uid] = PrepareResult(_cdi(found), error)
    return answers


async def unprepare(service: Service, call: Call, claims: Sequence[ClaimRef]) -> dict[str, str]:
    """Errors by claim uid, empty where all went well."""
    messages = service.module
    if service is NODE_V1ALPHA3 or service not in CLASSIC_SERVICES:
        sent = _claims_with_handles if service is NODE_V1ALPHA3 else _claims_by_name
        request = messages.NodeUnprepareResourcesRequest(claims=sent(messages, claims))
        response = await call("NodeUnprepareResources", request)
        return {uid: result.error for uid, result in response.claims.items()}
    errors = dict.fromkeys((claim.uid for claim in claims), "")
    for claim in claims:
        for handle in claim.handles:
            told = {"cdi_devices": claim.cdi_ids} if service is NODE_V1ALPHA1 else _handle(service, handle)
            request = messages.NodeUnprepareResourceRequest(**_named(claim), **told)
            try:
                await call("NodeUnprepareResource", request)
            except Unimplemented:
                raise
            except CallFailed as e:
                errors[claim.uid] = str(e)
                break
    return errors


def _claims_by_name(messages: Any, claims: Sequence[ClaimRef]) -> list[Any]:
    return [messages.Claim(namespace=c.namespace, name=c.name, uid=c.uid) for c in claims]


def _claims_with_handles(messages: Any, claims: Sequence[ClaimRef]) -> Iterator[Any]:
    for claim in claims:
        for handle in claim.handles:
            told = _handle(NODE_V1ALPHA3, handle)
            yield messages.Claim(namespace=claim.namespace, name=claim.name, uid=claim.uid, **told)


def _named(claim: ClaimRef) -> dict[str, str]:
    return {"namespace": claim.namespace, "claim_name": claim.name, "claim_uid": claim.uid}


def _handle(service: Service, handle: ResourceHandle) -> Mapping[str, Any]:
    if handle.structured is None or service is NODE_V1ALPHA1:
        return {"resource_handle": handle.data}
    from dray.kubelet_api.structured import handle_message

    structured = handle_message(handle.structured)
    return {"resource_handle": handle.data, "structured_resource_handle": [structured]}


def _cdi(ids: Sequence[str]) -> list[PreparedDevice]:
    """Drivers of the classic age speak of no devices, only of what the container gets."""
    return [PreparedDevice(pool="", name="", cdi_ids=tuple(ids))] if ids else []


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
