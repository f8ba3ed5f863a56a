"""The objects that a new cluster gets: namespaces, system priority classes and the ``kubernetes`` Service."""

from __future__ import annotations

import contextlib

from dray.api.errors import AlreadyExists
from dray.api.groups.scheduling.priorityclass import SYSTEM_CLASSES
from dray.api.scheme.kinds import Object
from dray.api.user import UserInfo
from dray.server.apiserver import APIServer
from dray.server.auth.user import AUTHENTICATED, MASTERS
from dray.server.endpoints.requests import Request
from dray.server.registry.serviceallocators import KUBERNETES_SERVICE_IP
from dray.wire.messages import Headers

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_SCHEDULING = "scheduling.k8s.io"
APISERVER_USER = UserInfo("system:apiserver", groups=(MASTERS, AUTHENTICATED))


async def bootstrap(api: APIServer, *, port: int, address: str = "127.0.0.1", client_ca: str = "") -> None:
    for name in NAMESPACES:
        await _ensure(api, "/api/v1/namespaces", {"metadata": {"name": name}})
    if api.resources.find(_SCHEDULING, "v1", "priorityclasses") is not None:
        for name, (value, description) in SYSTEM_CLASSES.items():
            priority = {"metadata": {"name": name}, "value": value, "description": description}
            await _ensure(api, f"/apis/{_SCHEDULING}/v1/priorityclasses", priority)
    if api.resources.find("", "v1", "services") is not None:
        await _ensure(api, "/api/v1/namespaces/default/services", _kubernetes_service(port))

    if client_ca:
        await _publish_client_ca(api, client_ca)


async def _publish_client_ca(api: APIServer, certificate: str) -> None:
    """Whose certificates prove who a caller is: other servers, such as a kube-scheduler's, accept the same."""
    path, name = "/api/v1/namespaces/kube-system/configmaps", "extension-apiserver-authentication"
    data = {"client-ca-file": certificate}
    await _ensure(api, path, {"metadata": {"name": name}, "data": data})
    found = api.resource("", "configmaps").cache.get(f"kube-system/{name}")
    if found is not None and (found.hub.get("data") or {}).get("client-ca-file") != certificate:
        patch = Headers((("content-type", "application/merge-patch+json"),))
        await api.handle(
            Request("PATCH", f"{path}/{name}", headers=patch, body={"data": data}, user=APISERVER_USER)
        )


async def _ensure(api: APIServer, path: str, obj: Object) -> None:
    plural = path.rpartition("/")[2]
    resource = api.resource(path.split("/")[2] if path.startswith("/apis/") else "", plural)
    namespace = path.split("/")[4] if resource.kind.namespaced else ""
    if resource.cache.get(resource.key(namespace, obj["metadata"]["name"])) is not None:
        return
    with contextlib.suppress(AlreadyExists):
        await api.handle(Request("POST", path, body=obj, user=APISERVER_USER))


def _kubernetes_service(port: int) -> Object:
    return {
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": KUBERNETES_SERVICE_IP,
            "clusterIPs": [KUBERNETES_SERVICE_IP],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        },
    }
