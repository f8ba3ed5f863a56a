"""The gRPC services by name: client stubs and server handlers made from the generated descriptions.

This is one small generic layer instead of generated stub classes, which would need the grpcio release that they were
generated with.
"""

from __future__ import annotations

import importlib
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

#: What docs/public-api.md lists; the rest is for dray itself.
__all__ = ["POD_RESOURCES", "stub"]


class Service(NamedTuple):
    """One gRPC service: the module of its messages, its name in there, and the name drivers announce it by.

    ``rpc_name`` is its name in calls where that is not the one that the messages were described with.
    """

    messages: str
    name: str
    announced: str = ""
    rpc_name: str = ""

    @property
    def module(self) -> ModuleType:
        """The generated message classes; imported on first use."""
        return importlib.import_module(f"dray.kubelet_api.{self.messages}_pb2")

    @property
    def descriptor(self) -> Any:
        return self.module.DESCRIPTOR.services_by_name[self.name]

    @property
    def full_name(self) -> str:
        """What calls begin with."""
        return self.rpc_name or str(self.descriptor.full_name)


REGISTRATION = Service("registration_v1", "Registration")
DRA_V1 = Service("dra_v1", "DRAPlugin", "v1.DRAPlugin")
DRA_V1BETA1 = Service("dra_v1beta1", "DRAPlugin", "v1beta1.DRAPlugin")
# 1.31 sent what became v1beta1 under the name of the version before; two things cannot have one name in a process.
DRA_V1ALPHA4 = Service("dra_v1beta1", "DRAPlugin", "v1alpha3.NodeService", "v1alpha3.Node")
HEALTH_V1ALPHA1 = Service("health_v1alpha1", "DRAResourceHealth", "v1alpha1.DRAResourceHealth")
# 1.37's messages are those of the version before.
HEALTH_V1 = Service("health_v1alpha1", "DRAResourceHealth", "v1.DRAResourceHealth", "v1.DRAResourceHealth")
#: What a driver may announce to report health, newest first.
HEALTH_SERVICES = (HEALTH_V1, HEALTH_V1ALPHA1)
# Device plugins, whose package in calls has messages of other services already.
DEVICE_PLUGIN = Service("deviceplugin_v1beta1", "DevicePlugin", rpc_name="v1beta1.DevicePlugin")
DEVICE_PLUGIN_REGISTRATION = Service("deviceplugin_v1beta1", "Registration", rpc_name="v1beta1.Registration")
POD_RESOURCES = Service("podresources_v1", "PodResourcesLister")
CRI_RUNTIME = Service("cri_v1", "RuntimeService")
CRI_IMAGES = Service("cri_v1", "ImageService")

#: What a kubelet can call to prepare claims, newest first.
DRA_SERVICES = {service.announced: service for service in (DRA_V1, DRA_V1BETA1)}

# Classic drivers are sent resource handles. They announced a number, and each kubelet called the service of its release.
NODE_V1ALPHA3 = Service("dra_v1alpha3", "Node")
NODE_V1ALPHA2 = Service("dra_v1alpha2", "Node")
NODE_V1ALPHA1 = Service("dra_v1alpha1", "Node")
CLASSIC_SERVICES = (NODE_V1ALPHA3, NODE_V1ALPHA2, NODE_V1ALPHA1)
CLASSIC_VERSION = "1.0.0"

#: ``PluginInfo.type`` of DRA drivers, and of device plugins that register as they do.
DRA_PLUGIN = "DRAPlugin"
DEVICE_PLUGIN_TYPE = "DevicePlugin"


def stub(service: Service, channel: Any) -> Any:
    """An object with one awaitable (or async-iterable, for streams) call per method of the service."""
    from google.protobuf.message_factory import GetMessageClass

    calls = {}
    for method in service.descriptor.methods:
        make = channel.unary_stream if method.server_streaming else channel.unary_unary
        calls[method.name] = make(
            f"/{service.full_name}/{method.name}",
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
    return SimpleNamespace(**calls)


def handlers(service: Service, implementation: Any) -> Any:
    """What ``server.add_generic_rpc_handlers`` takes. ``implementation`` has a coroutine (or async generator) per
    method, called with ``(request, context)``; a method it lacks is answered with UNIMPLEMENTED."""
    import grpc
    from google.protobuf.message_factory import GetMessageClass

    known = {}
    for method in service.descriptor.methods:
        behaviour = getattr(implementation, method.name, None)
        if behaviour is None:
            continue
        make = (
            grpc.unary_stream_rpc_method_handler
            if method.server_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        known[method.name] = make(
            behaviour,
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )
    return grpc.method_handlers_generic_handler(service.full_name, known)
