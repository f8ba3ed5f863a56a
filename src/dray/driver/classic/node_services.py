"""The gRPC services of a classic driver on a node (Kubernetes 1.26 to 1.30): the kubelet sends each allocation along.

As with today's services, a container gets the CDI devices of its claims. In 1.30 a driver also tells the kubelet which
resources the node has, and the kubelet publishes them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from dray.api.quantity import Quantity
from dray.driver.model import Attribute, Capacity, ClaimRef, Device, Handle, Version
from dray.driver.preparation import Preparer, PrepareResult
from dray.kubelet_api import structured
from dray.kubelet_api.services import NODE_V1ALPHA1, NODE_V1ALPHA2, NODE_V1ALPHA3, Service

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import (
        NamedResourcesAttribute,
        NamedResourcesInstance,
        NamedResourcesResources,
    )


def services(preparer: Preparer, resources: Sequence[Device]) -> list[tuple[Service, Any]]:
    """All of them: a kubelet calls the one that its release has."""
    return [
        (NODE_V1ALPHA3, NodeV1alpha3(preparer, resources)),
        (NODE_V1ALPHA2, SingleClaimNode(NODE_V1ALPHA2, preparer)),
        (NODE_V1ALPHA1, SingleClaimNode(NODE_V1ALPHA1, preparer)),
    ]


class NodeV1alpha3:
    """All claims of a pod in one call, and what the node has."""

    def __init__(self, preparer: Preparer, resources: Sequence[Device]) -> None:
        self._preparer = preparer
        self._resources = resources
        self._messages = NODE_V1ALPHA3.module

    async def NodePrepareResources(self, request: Any, context: Any) -> Any:
        claims: dict[ClaimRef, list[Handle]] = {}
        for claim in request.claims:
            claims.setdefault(ClaimRef(claim.namespace, claim.name, claim.uid), []).append(_handle(claim))
        response = self._messages.NodePrepareResourcesResponse()
        for uid, answer in (await self._preparer.prepare_classic(claims)).items():
            response.claims[uid].error = answer.error
            response.claims[uid].cdi_devices.extend(_ids(answer))
        return response

    async def NodeUnprepareResources(self, request: Any, context: Any) -> Any:
        refs = dict.fromkeys(ClaimRef(c.namespace, c.name, c.uid) for c in request.claims)
        response = self._messages.NodeUnprepareResourcesResponse()
        for uid, error in (await self._preparer.unprepare(list(refs))).items():
            response.claims[uid].error = error
        return response

    async def NodeListAndWatchResources(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Said once: a kubelet takes the end of the stream for a promise that nothing will change."""
        message = structured.model_message({"namedResources": named_resources(self._resources)})
        yield self._messages.NodeListAndWatchResourcesResponse(resources=[message] if self._resources else [])


class SingleClaimNode:
    """One claim a call (v1alpha1 and v1alpha2); what is wrong with it is the outcome of the call."""

    def __init__(self, service: Service, preparer: Preparer) -> None:
        self._preparer = preparer
        self._messages = service.module

    async def NodePrepareResource(self, request: Any, context: Any) -> Any:
        ref = ClaimRef(request.namespace, request.claim_name, request.claim_uid)
        answer = (await self._preparer.prepare_classic({ref: [_handle(request)]}))[ref.uid]
        if answer.error:
            await _fail(context, answer.error)
        return self._messages.NodePrepareResourceResponse(cdi_devices=_ids(answer))

    async def NodeUnprepareResource(self, request: Any, context: Any) -> Any:
        ref = ClaimRef(request.namespace, request.claim_name, request.claim_uid)
        if error := (await self._preparer.unprepare([ref]))[ref.uid]:
            await _fail(context, error)
        return self._messages.NodeUnprepareResourceResponse()


def named_resources(devices: Sequence[Device]) -> NamedResourcesResources:
    """Devices as 1.30's model of named resources: capacities are attributes among others there."""
    return {"instances": [_instance(device) for device in devices]}


def _instance(device: Device) -> NamedResourcesInstance:
    attributes = [_attribute(name, value) for name, value in device.attributes.items()]
    for name, value in device.capacity.items():
        amount = value.value if isinstance(value, Capacity) else value
        attributes.append({"name": name, "quantity": str(Quantity.parse(amount))})
    return {"name": device.name, "attributes": attributes} if attributes else {"name": device.name}


def _attribute(name: str, value: Attribute) -> NamedResourcesAttribute:
    match value:
        case bool():
            return {"name": name, "bool": value}
        case int():
            return {"name": name, "int": value}
        case Version():
            return {"name": name, "version": str(value)}
        case str():
            return {"name": name, "string": value}
    whole = [item for item in value if isinstance(item, int) and not isinstance(item, bool)]
    if whole and len(whole) == len(value):
        return {"name": name, "intSlice": {"ints": whole}}
    return {"name": name, "stringSlice": {"strings": [*map(str, value)]}}


def _handle(message: Any) -> Handle:
    """Works for claims of v1alpha3 and requests of the versions before it."""
    sent = getattr(message, "structured_resource_handle", ())
    document = structured.handle_document(sent[0]) if sent else None
    return Handle(data=message.resource_handle, structured=document)


def _ids(answer: PrepareResult) -> list[str]:
    return list(dict.fromkeys(i for device in answer.devices for i in device.cdi_ids))


async def _fail(context: Any, error: str) -> None:
    import grpc

    await context.abort(grpc.StatusCode.INTERNAL, error)
