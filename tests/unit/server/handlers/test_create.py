"""Creation by POST, PUT and apply."""

from __future__ import annotations

import pytest

from dray.api.errors import BadRequest
from dray.api.scheme.kinds import Object
from dray.server.admission import CREATE, Attributes, RequestScope
from tests.support.apiserver import make_server

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
APPLY = "application/apply-patch+yaml"


class NamespaceChanger:
    """Does what a mutating webhook can do: it replaces the object by one that names another namespace, or none."""

    name = "MutatingAdmissionWebhook"

    def __init__(self, namespace: str | None) -> None:
        self._namespace = namespace

    def handles(self, scope: RequestScope) -> bool:
        return scope.operation == CREATE and scope.is_for("coordination.k8s.io", "leases")

    async def admit(self, attributes: Attributes) -> None:
        obj = attributes.object
        assert obj is not None
        metadata = {k: v for k, v in obj["metadata"].items() if k != "namespace"}
        if self._namespace is not None:
            metadata["namespace"] = self._namespace
        attributes.replace({**obj, "metadata": metadata})


async def created(method: str, namespace: str | None) -> Object:
    client = (
        await make_server(plugins=(NamespaceChanger(namespace),), served={"namespaces", "leases"})
    ).as_user()
    body: Object = {"metadata": {"name": "l"}, "spec": {}}
    if method == "POST":
        return (await client.request("POST", LEASES, body=body)).object
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **body}
    if method == "PUT":
        return (await client.request("PUT", f"{LEASES}/l", body=body)).object
    query = {"fieldManager": "test"}
    return (await client.request("PATCH", f"{LEASES}/l", query=query, body=body, content_type=APPLY)).object


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_a_webhook_cannot_move_a_new_object_to_another_namespace(method: str):
    with pytest.raises(BadRequest, match="does not match the namespace sent on the request"):
        await created(method, "kube-system")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_a_namespace_that_a_webhook_removed_is_put_back(method: str):
    assert (await created(method, None))["metadata"]["namespace"] == "default"
