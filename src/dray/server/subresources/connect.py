"""log, exec, attach, portforward and proxy: the API server passes them on to the kubelet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from dray.api import errors
from dray.api.errors import BadRequest, NotFound, StatusError
from dray.api.pods import node_name
from dray.server import admission
from dray.server.endpoints.call import Call
from dray.server.endpoints.responses import RawBody, Response
from dray.server.handlers.table import Handler
from dray.server.storage.documents import Document
from dray.server.subresources import proxy as proxying
from dray.server.subresources.codecs import connect_options

if TYPE_CHECKING:
    from dray.api.types.core import Node, Pod

_CONNECT = ("attach", "exec", "portforward")
_PROXIED = ("create", "delete", "get", "patch", "update")


class KubeletClient(Protocol):
    """Reaches node agents. Each method answers the whole request."""

    async def log(self, call: Call, pod: Document, container: str) -> Response: ...
    async def connect(self, call: Call, pod: Document, container: str) -> Response:
        """exec, attach or portforward: ``call.target.subresource`` says which."""
        ...

    async def proxy(self, call: Call, node: str) -> Response:
        """A request to a node's agent itself."""
        ...


class NoKubelets:
    """No node agent can be reached from here."""

    async def log(self, call: Call, pod: Document, container: str) -> Response:
        raise _unreachable(call, pod)

    async def connect(self, call: Call, pod: Document, container: str) -> Response:
        raise _unreachable(call, pod)

    async def proxy(self, call: Call, node: str) -> Response:
        raise StatusError(f"no node agent serves node {node}", code=503, reason="ServiceUnavailable")


class KubeletClientSwitch:
    """Nodes that come later: ``use`` says anew who reaches them."""

    def __init__(self, nodes: KubeletClient | None = None) -> None:
        self._nodes: KubeletClient = nodes or NoKubelets()

    def use(self, nodes: KubeletClient) -> None:
        self._nodes = nodes

    async def log(self, call: Call, pod: Document, container: str) -> Response:
        return await self._nodes.log(call, pod, container)

    async def connect(self, call: Call, pod: Document, container: str) -> Response:
        return await self._nodes.connect(call, pod, container)

    async def proxy(self, call: Call, node: str) -> Response:
        return await self._nodes.proxy(call, node)


def _unreachable(call: Call, pod: Document) -> StatusError:
    """Upstream's answer for a node it knows nothing about."""
    node = node_name(pod.hub)
    nodes = call.api.resources.resource("", "nodes")
    if nodes is None or nodes.cache.get(node) is None:
        return NotFound(f'nodes "{node}" not found', details={"name": node, "kind": "nodes"})
    return StatusError(f"no node agent is reachable for node {node}", code=503, reason="ServiceUnavailable")


def connect_handlers(nodes: KubeletClient) -> Iterator[tuple[str, str, Mapping[str, Handler]]]:
    async def log(call: Call) -> Response:
        pod = call.existing()
        container = _container(call, pod.hub)
        if not node_name(pod.hub):
            # Nothing has run yet, so there is nothing to show.
            return Response(200, RawBody(b"", "text/plain"))
        return await nodes.log(call, pod, container)

    async def connect(call: Call) -> Response:
        if call.api.quirks.authorizes_connect_as_create:
            # A WebSocket is opened with GET, but what it does is no reading.
            call.api.authorize_create(call)
        pod = call.existing()
        await _admit_connect(call)
        container = "" if call.info.subresource == "portforward" else _container(call, pod.hub)
        if not node_name(pod.hub):
            raise BadRequest(f"pod {pod.name} does not have a host assigned")
        return await nodes.connect(call, pod, container)

    async def proxy(call: Call) -> Response:
        target = proxying.parse_target(call.info.resource, call.info.name)
        found = call.resource.cache.get(call.resource.key(call.namespace, target.name))
        if found is None:
            raise call.not_found(target.name)
        await _admit_connect(call)
        match call.info.resource:
            case "pods":
                return await proxying.forward(call, proxying.pod_location(target, found.hub))
            case "services":
                return await proxying.forward(call, _service_location(call, target, found))
        node: Node = found.hub
        agent = ((node.get("status") or {}).get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
        if not target.port or target.port == str(agent.get("Port", "")):
            return await nodes.proxy(call, target.name)
        return await proxying.forward(call, proxying.node_location(target, found.hub))

    yield "pods", "log", {"get": log}
    for name in _CONNECT:
        yield "pods", name, {"get": connect, "create": connect}
    for plural in ("pods", "services", "nodes"):
        yield plural, "proxy", dict.fromkeys(_PROXIED, proxy)


def _service_location(call: Call, target: proxying.Target, service: Document) -> proxying.Location:
    def pod(namespace: str, name: str) -> Pod | None:
        found = call.api.resource("", "pods").cache.get(f"{namespace}/{name}")
        return None if found is None else found.hub

    endpoints = call.api.resource("", "endpoints").cache.get(service.key)
    if endpoints is None:
        raise errors.not_found("endpoints", "", target.name)
    return proxying.service_location(target, service.hub, endpoints.hub, pod)


async def _admit_connect(call: Call) -> None:
    info = call.info
    codec, options = connect_options(info.resource, info.subresource, call.request.query.values)
    attributes = call.attributes(admission.CONNECT, obj=options, codec=codec)
    await call.api.admission.admit(attributes)
    await call.api.admission.validate(attributes)


def _container(call: Call, pod: Pod) -> str:
    """The container a request is about; with one container it need not be named."""
    name = call.info.name
    spec = pod.get("spec", {})
    main = [c["name"] for c in spec.get("containers") or ()]
    first = [c["name"] for c in spec.get("initContainers") or ()]
    debug = [c["name"] for c in spec.get("ephemeralContainers") or ()]
    asked = call.request.query.get("container")
    if asked:
        if asked not in (*main, *first, *debug):
            raise BadRequest(f"container {asked} is not valid for pod {name}")
        return asked
    default = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    if default and default in main:
        return default
    if len(main) == 1:
        return main[0]
    if not main:
        raise BadRequest(f"a container name must be specified for pod {name}")
    choose = f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]"
    if first:
        choose += f" or one of the init containers: [{' '.join(first)}]"
    raise BadRequest(choose)
