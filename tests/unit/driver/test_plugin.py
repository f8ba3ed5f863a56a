"""A driver on its sockets, as a kubelet meets it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from dray.driver import Claim, Device, Driver, Edits, Health, Options, serving
from dray.driver.model import Allocated
from dray.driver.plugin import DriverRunning
from dray.driver.sockets import registration_socket, service_socket
from dray.kubelet_api.services import DRA_V1, DRA_V1BETA1, HEALTH_SERVICES, REGISTRATION, Service, stub
from dray.wire.unix import SocketPath


class Cats(Driver):
    name = "cats.example.com"
    health = True

    def devices(self, node: str) -> list[Device]:
        return [Device(name=f"cat-{i}") for i in range(2)]

    def edits(self, claim: Claim, device: Allocated) -> Edits:
        return Edits(env={"CAT": device.name})


def options(directory: Path, **changes: Any) -> Options:
    return Options(**{"node": "las1", "kubelet_dir": directory, "cdi_dir": directory / "cdi", **changes})


@asynccontextmanager
async def calling(path: Path, service: Service) -> AsyncIterator[Any]:
    with SocketPath(path) as address:
        async with grpc.aio.insecure_channel(address.grpc) as channel:
            yield stub(service, channel)


def with_claim(api: Any) -> None:
    api.put("/api/v1/nodes/las1", {"metadata": {"uid": "node-uid"}})
    results = [
        {"request": "r/sub", "driver": "cats.example.com", "pool": "las1", "device": "cat-0", "shareID": "s"}
    ]
    api.put(
        "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c",
        {
            "metadata": {"namespace": "ns", "name": "c", "uid": "u"},
            "status": {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": "p"}]},
        },
    )


async def test_a_driver_registers_with_both_versions_and_learns_the_outcome(api: Any, tmp_path: Path) -> None:
    with_claim(api)
    async with serving(api.client, Cats(), options=options(tmp_path)) as plugin:
        socket = tmp_path / "plugins_registry" / "cats.example.com-reg.sock"
        async with calling(socket, REGISTRATION) as kubelet:
            info = await kubelet.GetInfo(REGISTRATION.module.InfoRequest())
            assert (info.type, info.name) == ("DRAPlugin", "cats.example.com")
            assert info.endpoint == str(tmp_path / "plugins/cats.example.com/dra.sock")
            assert list(info.supported_versions) == [
                "v1.DRAPlugin",
                "v1beta1.DRAPlugin",
                "v1.DRAResourceHealth",
                "v1alpha1.DRAResourceHealth",
            ]
            await kubelet.NotifyRegistrationStatus(
                REGISTRATION.module.RegistrationStatus(plugin_registered=True)
            )
        await asyncio.wait_for(plugin.registered(), 5)
    assert not socket.exists()


@pytest.mark.parametrize("service", [DRA_V1, DRA_V1BETA1])
async def test_both_versions_prepare_the_same_claim(api: Any, tmp_path: Path, service: Service) -> None:
    with_claim(api)
    socket = tmp_path / "plugins/cats.example.com/dra.sock"
    async with serving(api.client, Cats(), options=options(tmp_path)), calling(socket, service) as driver:
        messages = service.module
        one = messages.Claim(namespace="ns", name="c", uid="u")
        response = await driver.NodePrepareResources(messages.NodePrepareResourcesRequest(claims=[one]))
        [device] = response.claims["u"].devices
        assert (response.claims["u"].error, device.device_name) == ("", "cat-0")
        assert list(device.request_names) == ["r"]
        assert list(device.cdi_device_ids) == [
            "k8s.cats.example.com/cats=u-cat-0-s",
            "k8s.cats.example.com/cats=common",
        ]
        if service is DRA_V1:
            assert device.share_id == "s"
        done = await driver.NodeUnprepareResources(messages.NodeUnprepareResourcesRequest(claims=[one]))
        assert dict(done.claims)["u"].error == ""


async def test_two_instances_stand_side_by_side_during_an_update(api: Any, tmp_path: Path) -> None:
    with_claim(api)
    old, new = options(tmp_path, instance="old"), options(tmp_path, instance="new")
    registry = tmp_path / "plugins_registry"
    async with serving(api.client, Cats(), options=new):
        async with serving(api.client, Cats(), options=old):
            names = {p.name for p in registry.iterdir()}
            assert names == {"cats.example.com-old-reg.sock", "cats.example.com-new-reg.sock"}
        assert {p.name for p in registry.iterdir()} == {"cats.example.com-new-reg.sock"}


async def test_sockets_of_killed_instances_are_cleared_away(api: Any, tmp_path: Path) -> None:
    import socket

    with_claim(api)
    registry = tmp_path / "plugins_registry"
    registry.mkdir()
    left = registry / "cats.example.com-dead-reg.sock"
    with socket.socket(socket.AF_UNIX) as dead, SocketPath(left) as address:
        dead.bind(address.short)
    async with serving(api.client, Cats(), options=options(tmp_path, instance="new")):
        assert not left.exists()


@pytest.mark.parametrize("service", HEALTH_SERVICES, ids=lambda service: service.announced)
async def test_health_is_streamed_whole_and_again_on_change(
    api: Any, tmp_path: Path, service: Service
) -> None:
    with_claim(api)
    async with serving(api.client, Cats(), options=options(tmp_path)) as plugin:
        plugin.set_health("las1", "cat-0", Health.HEALTHY)
        async with calling(tmp_path / "plugins/cats.example.com/dra.sock", service) as driver:
            stream = driver.NodeWatchResources(service.module.NodeWatchResourcesRequest())
            first = await stream.read()
            assert [(d.device.device_name, d.health) for d in first.devices] == [("cat-0", 1)]
            plugin.set_health("las1", "cat-1", Health.UNHEALTHY, message="asleep")
            second = await stream.read()
            assert [(d.device.device_name, d.health, d.message) for d in second.devices] == [
                ("cat-0", 1, ""),
                ("cat-1", 2, "asleep"),
            ]
            stream.cancel()


async def test_device_status_goes_into_the_claim_by_server_side_apply(api: Any, tmp_path: Path) -> None:
    with_claim(api)
    async with serving(api.client, Cats(), options=options(tmp_path)) as plugin:
        from dray.driver import ClaimRef

        await plugin.set_device_status(
            ClaimRef("ns", "c", "u"), [{"pool": "las1", "device": "cat-0", "data": {"x": 1}}]
        )
    stored = api.objects["/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c"]
    assert stored["status"]["devices"] == [
        {"driver": "cats.example.com", "pool": "las1", "device": "cat-0", "data": {"x": 1}}
    ]


def test_socket_names_are_upstreams_unless_they_would_not_fit() -> None:
    registry = Path("/r")
    assert registration_socket(registry, "a.example.com", "").name == "a.example.com-reg.sock"
    assert registration_socket(registry, "a.example.com", "uid").name == "a.example.com-uid-reg.sock"
    assert service_socket(registry, "uid").name == "dra-uid.sock"
    long = [registration_socket(registry, "x" * 63, f"{i}" * 36).name for i in (1, 2)]
    assert all(len(name) <= 80 and name.endswith("-reg.sock") for name in long)
    assert long[0] != long[1]


@pytest.mark.parametrize("name", ["", "../..", "a/b", ".", "x" * 64 + ".example.com", "a,spec.nodeName!=x"])
async def test_a_name_that_no_driver_can_have_makes_no_directory(api: Any, tmp_path: Path, name: str) -> None:
    driver = Cats()
    driver.name = name
    with pytest.raises(ValueError, match="invalid driver name"):
        async with serving(api.client, driver, options=options(tmp_path / "kubelet" / "here")):
            pass
    assert list(tmp_path.iterdir()) == []


async def test_a_driver_takes_over_from_another_program_of_its_name(api: Any, tmp_path: Path) -> None:
    """As the checkpoint and the CDI files of a driver written in Go look."""
    with_claim(api)
    data, specs = tmp_path / "plugins" / "cats.example.com", tmp_path / "cdi"
    data.mkdir(parents=True)
    specs.mkdir()
    (data / "checkpoint.json").write_text('{"kind": "Checkpoint", "apiVersion": "v1", "preparedClaims": []}')
    for name in ("common", "claim-uid"):
        (specs / f"k8s.cats.example.com-cats_{name}.yaml").write_text("cdiVersion: 0.3.0")
    async with serving(api.client, Cats(), options=options(tmp_path)):
        assert (data / "checkpoint.json.foreign").exists()
        common = sorted(p.suffix for p in specs.glob("*_common.*"))
        assert ".yaml" not in common
        async with calling(service_socket(data, ""), DRA_V1) as driver:
            messages = DRA_V1.module
            claim = messages.Claim(namespace="ns", name="gone", uid="claim-uid")
            answer = await driver.NodeUnprepareResources(
                messages.NodeUnprepareResourcesRequest(claims=[claim])
            )
        assert answer.claims["claim-uid"].error == ""
        assert not list(specs.glob("*claim-uid*"))


async def test_a_driver_does_not_take_over_from_a_program_that_runs(api: Any, tmp_path: Path) -> None:
    data = tmp_path / "plugins" / "cats.example.com"
    data.mkdir(parents=True)
    (data / "checkpoint.json").write_text("{}")
    with socket.socket(socket.AF_UNIX) as other, SocketPath(data / "dra.sock") as address:
        other.bind(address.short)
        other.listen()
        with pytest.raises(DriverRunning, match="Stop it first"):
            async with serving(api.client, Cats(), options=options(tmp_path)):
                pass
    assert (data / "checkpoint.json").exists()
