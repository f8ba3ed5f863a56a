"""The services of classic drivers: v1alpha1 and v1alpha2 take one claim a call, v1alpha3 all claims of a pod.

The kubelet sends what the allocation of a claim says (its resource handles). The driver answers with CDI devices alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dray.kubelet_api.services import NODE_V1ALPHA1, NODE_V1ALPHA3, Service
from dray.node.dra.claiminfo import PreparedDevice
from dray.node.dra.classic.handles import ResourceHandle
from dray.node.dra.grpc_versions import Call, CallFailed, ClaimRef, PrepareResult, Unimplemented


async def prepare(service: Service, call: Call, claims: Sequence[ClaimRef]) -> dict[str, PrepareResult]:
    """Answers by claim uid."""
    messages = service.module
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
    if service is NODE_V1ALPHA3:
        request = messages.NodeUnprepareResourcesRequest(claims=_claims_with_handles(messages, claims))
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


def _claims_with_handles(messages: Any, claims: Sequence[ClaimRef]) -> Iterator[Any]:
    for claim in claims:
        for handle in claim.handles:
            told = _handle(NODE_V1ALPHA3, handle)
            yield messages.Claim(namespace=claim.namespace, name=claim.name, uid=claim.uid, **told)


def _named(claim: ClaimRef) -> dict[str, str]:
    return {"namespace": claim.namespace, "claim_name": claim.name, "claim_uid": claim.uid}


def _handle(service: Service, handle: ResourceHandle) -> dict[str, object]:
    if handle.structured is None or service is NODE_V1ALPHA1:
        return {"resource_handle": handle.data}
    from dray.kubelet_api.structured import handle_message

    structured = handle_message(handle.structured)
    return {"resource_handle": handle.data, "structured_resource_handle": [structured]}


def _cdi(ids: Sequence[str]) -> list[PreparedDevice]:
    """Classic drivers name no devices, only what the container gets."""
    return [PreparedDevice(pool="", name="", cdi_ids=tuple(ids))] if ids else []
