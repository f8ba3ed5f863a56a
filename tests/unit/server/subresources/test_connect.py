"""The way from a pod's subresources to the node that runs it."""

from __future__ import annotations

from dray.server import subresources
from dray.server.endpoints.call import Call
from dray.server.endpoints.responses import RawBody, Response
from dray.server.storage.documents import Document
from tests.support.apiserver import make_server

PODS = "/api/v1/namespaces/default/pods"


class Nodes:
    """A node proxy that says what it was asked."""

    async def log(self, call: Call, pod: Document, container: str) -> Response:
        return Response(200, RawBody(f"log {pod.name} {container}".encode(), "text/plain"))

    async def connect(self, call: Call, pod: Document, container: str) -> Response:
        return Response(
            200, RawBody(f"{call.info.subresource} {pod.name} {container}".encode(), "text/plain")
        )

    async def proxy(self, call: Call, node: str) -> Response:
        return Response(200, RawBody(f"proxy {node} {'/'.join(call.info.rest)}".encode(), "text/plain"))


async def test_a_router_sends_requests_to_the_nodes_once_there_are_some():
    server = await make_server()
    router = subresources.KubeletClientSwitch()
    subresources.install(server.api, nodes=router)
    router.use(Nodes())
    client = server.as_user()
    containers = [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]
    await client.request(
        "POST", PODS, body={"metadata": {"name": "p"}, "spec": {"containers": containers, "nodeName": "n"}}
    )
    assert (await client.request("GET", f"{PODS}/p/log", query={"container": "b"})).body == b"log p b"
    assert (await client.request("POST", f"{PODS}/p/exec", query={"container": "a"})).body == b"exec p a"
    status = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}
    await client.request("POST", "/api/v1/nodes", body={"metadata": {"name": "n"}, "status": status})
    for name in ("n", "n:10250", "https:n:10250"):
        assert (await client.request("GET", f"/api/v1/nodes/{name}/proxy/x/y")).body == b"proxy n x/y"


async def test_whoever_may_only_read_opens_no_session():
    import pytest

    from dray.api.errors import Forbidden
    from dray.server.auth.authorizer import Attributes, Decision, Verdict

    server = await make_server()
    router = subresources.KubeletClientSwitch()
    subresources.install(server.api, nodes=router)
    router.use(Nodes())
    client = server.as_user()
    spec = {"containers": [{"name": "a", "image": "i"}], "nodeName": "n"}
    await client.request("POST", PODS, body={"metadata": {"name": "p"}, "spec": spec})

    class OnlyReading:
        def authorize(self, attributes: Attributes) -> Verdict:
            return Verdict(Decision.ALLOW if attributes.verb == "get" else Decision.DENY)

    server.api.authorizer = OnlyReading()
    assert (await client.request("GET", f"{PODS}/p/log")).body == b"log p a"
    for action in ("exec", "attach", "portforward"):
        with pytest.raises(Forbidden):
            await client.request("GET", f"{PODS}/p/{action}")


def test_what_kubectl_logs_asks_for_is_understood():
    import pytest

    from dray.api.errors import BadRequest
    from dray.app.localnodes import log_options
    from dray.wire.messages import Query

    asked = log_options(Query("follow=true&tailLines=5&sinceSeconds=60&timestamps=true"), now=1_800_000_000)
    assert (asked.follow, asked.tail, asked.timestamps, asked.since) == (
        True,
        5,
        True,
        "2027-01-15T07:59:00Z",
    )
    assert (
        log_options(Query("sinceTime=2027-01-15T09:00:00%2B01:00"), now=0).since
        == "2027-01-15T08:00:00.000000Z"
    )
    for bad in ("tailLines=-1", "limitBytes=0", "sinceTime=noon"):
        with pytest.raises(BadRequest):
            log_options(Query(bad), now=0)
