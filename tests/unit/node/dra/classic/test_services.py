"""Classic drivers and the node agent, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from dray.driver import Allocated, Claim, Device, DeviceID, Driver, Edits, Handle, Options, serving
from dray.driver.sockets import Listener
from dray.kubelet_api.services import (
    CLASSIC_SERVICES,
    NODE_V1ALPHA2,
    NODE_V1ALPHA3,
    Service,
)
from dray.node.dra.checkpoint import Checkpoint
from dray.node.dra.claiminfo import ClaimInfoCache
from dray.node.dra.claiminfo import PreparedDevice as StoredDevice
from dray.node.dra.classic.handles import ResourceHandle
from dray.node.dra.grpc_versions import CallFailed, ChosenServices, ClaimRef, PrepareResult
from dray.node.dra.manager import Manager
from dray.node.dra.plugin import DRAPlugin
from dray.node.metrics import Metrics

STRUCTURED = {
    "vendorClassParameters": {"fur": "long"},
    "nodeName": "las1",
    "results": [{"namedResources": {"name": "tom"}, "vendorRequestParameters": {"mood": ["good"]}}],
}


class Cats(Driver):
    name = "cats.example.com"
    classic = True

    def devices(self, node: str) -> list[Device]:
        return [Device(name="tom", attributes={"age": 3}, capacity={"milk": "1Gi"})]

    def allocated(self, handle: Handle) -> Sequence[Allocated]:
        if handle.structured is not None:
            return super().allocated(handle)
        return [Allocated(id=DeviceID("las1", name), request="") for name in handle.data.split(",")]

    def edits(self, claim: Claim, device: Allocated) -> Edits:
        return Edits(env={"CAT": device.name, "KNOWN": str(device.config)})


def reference(*handles: ResourceHandle) -> ClaimRef:
    return ClaimRef("ns", "c", "u", handles)


@asynccontextmanager
async def calling(endpoint: Path, services: ChosenServices) -> AsyncIterator[DRAPlugin]:
    plugin = DRAPlugin("cats.example.com", endpoint, services, metrics=Metrics())
    try:
        yield plugin
    finally:
        await plugin.close()


@pytest.mark.parametrize("service", CLASSIC_SERVICES)
async def test_handle_data_of_a_controller_becomes_cdi_devices(
    api: Any, tmp_path: Path, service: Service
) -> None:
    options = Options(node="las1", kubelet_dir=tmp_path, cdi_dir=tmp_path / "cdi")
    api.versions = ("v1alpha2",)  # a cluster that knows classic claims alone
    socket = tmp_path / "plugins/cats.example.com/dra.sock"
    async with (
        serving(api.client, Cats(), options=options),
        calling(socket, ChosenServices(None, (service,))) as p,
    ):
        claim = reference(ResourceHandle("cats.example.com", "tom,felix"))
        answer = (await p.prepare([claim]))["u"]
        ids = [i for device in answer.devices for i in device.cdi_ids]
        assert (answer.error, sorted(ids)) == (
            "",
            [f"k8s.cats.example.com/cats={name}" for name in ("common", "u-felix", "u-tom")],
        )
        assert '"CAT=felix"' in (tmp_path / "cdi" / "k8s.cats.example.com-cats_u.json").read_text()
        assert await p.unprepare([claim._replace(cdi_ids=tuple(ids))]) == {"u": ""}
        assert not list((tmp_path / "cdi").glob("*_u.json"))


@pytest.mark.parametrize("service", [NODE_V1ALPHA3, NODE_V1ALPHA2])
async def test_structured_handle_reaches_the_driver(api: Any, tmp_path: Path, service: Service) -> None:
    options = Options(node="las1", kubelet_dir=tmp_path, cdi_dir=tmp_path / "cdi")
    socket = tmp_path / "plugins/cats.example.com/dra.sock"
    async with (
        serving(api.client, Cats(), options=options),
        calling(socket, ChosenServices(None, (service,))) as p,
    ):
        handle = ResourceHandle("cats.example.com", "", STRUCTURED)
        assert not (await p.prepare([reference(handle)]))["u"].error
        written = (tmp_path / "cdi" / "k8s.cats.example.com-cats_u.json").read_text()
        assert "CAT=tom" in written and "long" in written and "good" in written


async def test_handle_that_the_driver_cannot_read_is_an_error_of_its_claim(api: Any, tmp_path: Path) -> None:
    class Strict(Cats):
        def allocated(self, handle: Handle) -> Sequence[Allocated]:
            raise ValueError(f"what is {handle.data!r}?")

    options = Options(node="las1", kubelet_dir=tmp_path, cdi_dir=tmp_path / "cdi")
    socket = tmp_path / "plugins/cats.example.com/dra.sock"
    async with serving(api.client, Strict(), options=options):
        for service in CLASSIC_SERVICES:
            async with calling(socket, ChosenServices(None, (service,))) as p:
                answer = (await p.prepare([reference(ResourceHandle("cats.example.com", "dog"))]))["u"]
                assert "what is 'dog'?" in answer.error


async def test_driver_tells_the_resources_of_a_node_once(api: Any, tmp_path: Path) -> None:
    options = Options(node="las1", kubelet_dir=tmp_path, cdi_dir=tmp_path / "cdi")
    socket = tmp_path / "plugins/cats.example.com/dra.sock"
    async with (
        serving(api.client, Cats(), options=options),
        calling(socket, ChosenServices(None, (NODE_V1ALPHA3,))) as p,
    ):
        [[model]] = [resources async for resources in p.watch_resources()]
        attributes = [{"name": "age", "int": 3}, {"name": "milk", "quantity": "1Gi"}]
        assert model == {"namedResources": {"instances": [{"name": "tom", "attributes": attributes}]}}


class Old:
    """A driver of 1.27."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def NodePrepareResource(self, request: Any, context: Any) -> Any:
        self.asked.append(request.resource_handle)
        if request.resource_handle == "bad":
            await context.abort(grpc.StatusCode.INTERNAL, "no such cat")
        return NODE_V1ALPHA2.module.NodePrepareResourceResponse(
            cdi_devices=[f"v/c={request.resource_handle}"]
        )


async def test_older_service_is_tried_and_remembered(tmp_path: Path) -> None:
    driver = Old()
    listener = Listener(tmp_path / "dra.sock", [(NODE_V1ALPHA2, driver)])
    await listener.start()
    try:
        async with calling(listener.path, ChosenServices(None, CLASSIC_SERVICES)) as p:
            both = reference(ResourceHandle("d", "a"), ResourceHandle("d", "b"))
            answer = (await p.prepare([both]))["u"]
            assert [device.cdi_ids for device in answer.devices] == [("v/c=a", "v/c=b")]
            assert p.services.handles == (NODE_V1ALPHA2,)
            bad = (await p.prepare([reference(ResourceHandle("d", "bad"))]))["u"]
            assert bad.error == "rpc error: code = Internal desc = no such cat"
            with pytest.raises(CallFailed, match="no service for claims that name devices"):
                await p.prepare([reference()])
    finally:
        await listener.stop()


class Listening:
    """A plugin that remembers what it was told."""

    driver = "cats.example.com"

    def __init__(self) -> None:
        self.told: list[ClaimRef] = []

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        self.told += claims
        return {c.uid: PrepareResult([StoredDevice(pool="", name="", cdi_ids=("v/c=tom",))]) for c in claims}

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        self.told += claims
        return {c.uid: "" for c in claims}

    def get(self, driver: str) -> Listening | None:
        return self if driver == self.driver else None


async def test_restarted_agent_unprepares_with_the_handles_of_the_claim(tmp_path: Path) -> None:
    handle = {"driverName": "cats.example.com", "structuredData": STRUCTURED}
    owners = [{"uid": "p", "controller": True}]
    document = {
        "metadata": {"namespace": "ns", "name": "pod-cat", "uid": "u", "ownerReferences": owners},
        "spec": {"resourceClassName": "c"},
        "status": {"allocation": {"resourceHandles": [handle]}, "reservedFor": [{"uid": "p"}]},
    }
    pod = {
        "metadata": {"namespace": "ns", "name": "pod", "uid": "p"},
        "spec": {"resourceClaims": [{"name": "cat", "source": {"resourceClaimTemplateName": "t"}}]},
    }
    container = {"name": "main", "resources": {"claims": [{"name": "cat"}]}}

    async def get(namespace: str, name: str) -> Any:
        assert name == "pod-cat"  # as 1.27 called it
        return document

    plugin = Listening()

    def start() -> Manager:
        state = ClaimInfoCache(Checkpoint(tmp_path))
        return Manager(claims=get, state=state, plugins=plugin, metrics=Metrics(), fixed_names=True)

    manager = start()
    await manager.prepare(pod)
    assert manager.cdi_devices(pod, container) == ["v/c=tom"]
    manager = start()
    assert manager.cdi_devices(pod, container) == ["v/c=tom"]
    [(info, _)] = manager.container_devices(pod, container)
    assert (info.name, info.class_name) == ("pod-cat", "c")
    await manager.unprepare(pod)
    assert [ref.handles for ref in plugin.told] == [(ResourceHandle("cats.example.com", "", STRUCTURED),)] * 2
    assert plugin.told[1].cdi_ids == ("v/c=tom",)
