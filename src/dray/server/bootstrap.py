"""What a fresh cluster has from the start: namespaces, the system's priorities and the ``kubernetes`` Service."""

from __future__ import annotations

import contextlib

from dray.api.errors import AlreadyExists
from dray.api.kinds import Object, UserInfo
from dray.api.scheduling import SYSTEM_CLASSES
from dray.server.addresses import SERVICE_ADDRESS, ServiceAddresses
from dray.server.api import API
from dray.server.auth import AUTHENTICATED, MASTERS
from dray.server.booking import DeviceBookings
from dray.server.claimnames import ClaimNames
from dray.server.requests import Request

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_DEVICES = "resource.k8s.io"
_SCHEDULING = "scheduling.k8s.io"
SYSTEM = UserInfo("system:apiserver", groups=(MASTERS, AUTHENTICATED))


async def bootstrap(api: API, *, port: int, address: str = "127.0.0.1") -> None:
    for name in NAMESPACES:
        await _ensure(api, "/api/v1/namespaces", {"metadata": {"name": name}})
    if api.resources.find(_SCHEDULING, "v1", "priorityclasses") is not None:
        for name, (value, description) in SYSTEM_CLASSES.items():
            priority = {"metadata": {"name": name}, "value": value, "description": description}
            await _ensure(api, f"/apis/{_SCHEDULING}/v1/priorityclasses", priority)
    services = api.resources.resource("", "services")
    if services is not None:
        api.assigners["", "services"] = ServiceAddresses(services.stored).assigned
        await _ensure(api, "/api/v1/namespaces/default/services", _kubernetes_service(port))
    if not api.release.emulated:
        _go_beyond(api)


def _go_beyond(api: API) -> None:
    """What upstream leaves to its schedulers and controllers, and is safer or cheaper where every write comes by."""
    resource = api.resources.resource
    claims, templates = resource(_DEVICES, "resourceclaims"), resource(_DEVICES, "resourceclaimtemplates")
    if claims is not None:
        api.assigners[_DEVICES, "resourceclaims"] = DeviceBookings(claims.stored).assigned
    if templates is not None:
        api.assigners["", "pods"] = ClaimNames(templates.stored).assigned


async def _ensure(api: API, path: str, obj: Object) -> None:
    plural = path.rpartition("/")[2]
    resource = api.stored(path.split("/")[2] if path.startswith("/apis/") else "", plural)
    namespace = path.split("/")[4] if resource.kind.namespaced else ""
    if resource.stored.get(resource.key(namespace, obj["metadata"]["name"])) is not None:
        return
    with contextlib.suppress(AlreadyExists):
        await api.handle(Request("POST", path, body=obj, user=SYSTEM))


def _kubernetes_service(port: int) -> Object:
    return {
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": SERVICE_ADDRESS,
            "clusterIPs": [SERVICE_ADDRESS],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        },
    }
