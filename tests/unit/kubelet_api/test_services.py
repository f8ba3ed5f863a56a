"""The wire facts that other implementations rely on, and the generic stubs and handlers over a real socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import grpc.aio
import pytest

from dray.kubelet_api import services
from dray.wire.unix import MAX_PATH_BYTES, SocketPath


@pytest.mark.parametrize(
    ("service", "full_name"),
    [
        (services.REGISTRATION, "pluginregistration.Registration"),
        (services.DRA_V1, "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"),
        (services.DRA_V1BETA1, "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin"),
        (services.HEALTH_V1ALPHA1, "v1alpha1.DRAResourceHealth"),
        (services.POD_RESOURCES, "v1.PodResourcesLister"),
        (services.CRI_RUNTIME, "runtime.v1.RuntimeService"),
        (services.CRI_IMAGES, "runtime.v1.ImageService"),
    ],
)
def test_services_have_the_names_kubelets_and_drivers_call(service: services.Service, full_name: str) -> None:
    assert service.descriptor.full_name == full_name


def test_a_prepared_device_is_encoded_field_by_field_as_others_expect_it() -> None:
    device = services.DRA_V1.module.Device(
        request_names=["r"], pool_name="p", device_name="d", cdi_device_ids=["v/c=n"], share_id="s"
    )
    assert device.SerializeToString() == b"\x0a\x01r\x12\x01p\x1a\x01d\x22\x05v/c=n\x2a\x01s"


def test_v1beta1_devices_know_no_share() -> None:
    old = services.DRA_V1BETA1.module.Device.FromString(
        services.DRA_V1.module.Device(device_name="d", share_id="s").SerializeToString()
    )
    assert old.device_name == "d"
    assert "share_id" not in {f.name for f in old.DESCRIPTOR.fields}


class _Registration:
    async def GetInfo(self, request: object, context: object) -> object:
        return services.REGISTRATION.module.PluginInfo(type=services.DRA_PLUGIN, name="cats.example.com")


def test_stub_and_handlers_meet_over_a_socket_with_a_path_longer_than_the_kernel_allows(
    tmp_path: Path,
) -> None:
    directory = tmp_path / ("d" * 100) / ("e" * 100)
    directory.mkdir(parents=True)
    path = directory / "dra.sock"
    assert len(str(path)) > MAX_PATH_BYTES

    async def scene() -> tuple[object, grpc.StatusCode]:
        with SocketPath(path) as address:
            server = grpc.aio.server()
            server.add_generic_rpc_handlers((services.handlers(services.REGISTRATION, _Registration()),))
            server.add_insecure_port(address.grpc)
            await server.start()
            assert path.is_socket()
            async with grpc.aio.insecure_channel(address.grpc) as channel:
                stub = services.stub(services.REGISTRATION, channel)
                info = await stub.GetInfo(services.REGISTRATION.module.InfoRequest())
                with pytest.raises(grpc.aio.AioRpcError) as missing:
                    await stub.NotifyRegistrationStatus(services.REGISTRATION.module.RegistrationStatus())
            await server.stop(None)
        return info.name, missing.value.code()

    assert asyncio.run(scene()) == ("cats.example.com", grpc.StatusCode.UNIMPLEMENTED)
