from __future__ import annotations

import pytest

from dray.api.errors import (
    BadRequest,
    Conflict,
    Invalid,
    MethodNotAllowed,
    NotFound,
    StatusError,
    TooManyRequests,
)
from dray.server.inprocess import InProcessTransport
from tests.support.apiserver import make_server

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"


def pod(name: str, **spec: object) -> dict:
    return {
        "metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def binding(name: str, node: str = "n", **meta: object) -> dict:
    return {"metadata": {"name": name, **meta}, "target": {"kind": "Node", "name": node}}


# -- binding


async def test_a_binding_puts_a_pod_on_a_node():
    client = (await make_server()).as_user()
    await client.request("POST", PODS, body=pod("p"))
    answer = await client.request("POST", f"{PODS}/p/binding", body=binding("p", annotations={"a": "b"}))
    assert (answer.status, answer.object["status"]) == (201, "Success")
    bound = (await client.request("GET", f"{PODS}/p")).object
    assert bound["spec"]["nodeName"] == "n" and bound["metadata"]["annotations"] == {"a": "b"}
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    with pytest.raises(Conflict, match='pod p is already assigned to node "n"'):
        await client.request("POST", f"{PODS}/p/binding", body=binding("p", "m"))


async def test_the_older_collection_binds_too():
    client = (await make_server()).as_user()
    await client.request("POST", PODS, body=pod("p"))
    await client.request("POST", "/api/v1/namespaces/default/bindings", body=binding("p"))
    assert (await client.request("GET", f"{PODS}/p")).object["spec"]["nodeName"] == "n"


async def test_a_binding_meant_for_another_pod_of_that_name_conflicts():
    client = (await make_server()).as_user()
    await client.request("POST", PODS, body=pod("p"))
    with pytest.raises(Conflict, match="Precondition failed: UID in precondition: other"):
        await client.request("POST", f"{PODS}/p/binding", body=binding("p", uid="other"))


async def test_gated_and_missing_pods_are_not_bound():
    client = (await make_server()).as_user()
    await client.request("POST", PODS, body=pod("p", schedulingGates=[{"name": "example.com/g"}]))
    with pytest.raises(Conflict, match=r"non-empty \.spec\.schedulingGates"):
        await client.request("POST", f"{PODS}/p/binding", body=binding("p"))
    with pytest.raises(NotFound, match='pods "q" not found'):
        await client.request("POST", f"{PODS}/q/binding", body=binding("q"))
    with pytest.raises(BadRequest, match="name in URL does not match"):
        await client.request("POST", f"{PODS}/p/binding", body=binding("q"))
    with pytest.raises(StatusError, match=r"target\.name: Required value"):
        await client.request("POST", f"{PODS}/p/binding", body=binding("p", ""))
    with pytest.raises(MethodNotAllowed):
        await client.request("GET", f"{PODS}/p/binding")


# -- eviction


async def guarded(client: InProcessTransport, *, allowed: int, healthy: int = 1) -> None:
    """A running, ready pod and a budget that watches over it."""
    await client.request("POST", PODS, body=pod("p", nodeName="n"))
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await client.request("PATCH", f"{PODS}/p/status", body={"status": running}, content_type=MERGE)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    await client.request("POST", BUDGETS, body={"metadata": {"name": "b"}, "spec": spec})
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    await client.request("PATCH", f"{BUDGETS}/b/status", body={"status": status}, content_type=MERGE)


async def evict(client: InProcessTransport, **options: object) -> None:
    body = {"metadata": {"name": "p"}, "deleteOptions": options}
    await client.request("POST", f"{PODS}/p/eviction", body=body)


async def test_a_pending_pod_is_evicted_without_asking():
    client = (await make_server()).as_user()
    await client.request("POST", PODS, body=pod("p"))
    await evict(client)
    with pytest.raises(NotFound):
        await client.request("GET", f"{PODS}/p")


async def test_a_budget_is_asked_and_charged():
    client = (await make_server()).as_user()
    await guarded(client, allowed=1, healthy=2)
    await evict(client)
    gone = (await client.request("GET", f"{PODS}/p")).object
    assert gone["metadata"]["deletionTimestamp"]
    assert gone["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    budget = (await client.request("GET", f"{BUDGETS}/b")).object["status"]
    assert budget["disruptionsAllowed"] == 0 and list(budget["disruptedPods"]) == ["p"]


async def test_an_exhausted_budget_says_what_it_needs():
    client = (await make_server()).as_user()
    await guarded(client, allowed=0)
    with pytest.raises(TooManyRequests, match="would violate the pod's disruption budget") as refused:
        await evict(client)
    cause = (refused.value.details or {})["causes"][0]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == "The disruption budget b needs 1 healthy pods and has 1 currently"
    assert "deletionTimestamp" not in (await client.request("GET", f"{PODS}/p")).object["metadata"]


async def test_a_pod_that_is_not_ready_may_go_while_enough_others_are():
    client = (await make_server()).as_user()
    await guarded(client, allowed=0)
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    await client.request("PATCH", f"{PODS}/p/status", body=unready, content_type=MERGE)
    await evict(client)
    assert (await client.request("GET", f"{PODS}/p")).object["metadata"]["deletionTimestamp"]


# -- scale


async def test_scale_reads_and_writes_replicas_only():
    client = (await make_server()).as_user()
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await client.request("POST", DEPLOYMENTS, body={"metadata": {"name": "d"}, "spec": spec})
    scale = (await client.request("GET", f"{DEPLOYMENTS}/d/scale")).object
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale",
        {"replicas": 2},
        {"replicas": 0, "selector": "a=b"},
    )
    scaled = (
        await client.request("PUT", f"{DEPLOYMENTS}/d/scale", body={**scale, "spec": {"replicas": 5}})
    ).object
    assert scaled["spec"] == {"replicas": 5}
    after = (await client.request("GET", f"{DEPLOYMENTS}/d")).object
    assert after["spec"]["replicas"] == 5 and after["metadata"]["generation"] == 2
    with pytest.raises(Conflict):
        await client.request("PUT", f"{DEPLOYMENTS}/d/scale", body={**scale, "spec": {"replicas": 6}})
    with pytest.raises(Invalid, match=r"spec\.replicas: Invalid value: -1"):
        await client.request(
            "PATCH", f"{DEPLOYMENTS}/d/scale", body={"spec": {"replicas": -1}}, content_type=MERGE
        )


# -- what only nodes know


async def test_without_a_node_agent_logs_and_commands_are_refused_politely():
    client = (await make_server()).as_user()
    await client.request("POST", PODS, body=pod("p"))
    async with client.stream(f"{PODS}/p/log") as chunks:
        assert [c async for c in chunks] == [b""]
    with pytest.raises(BadRequest, match="does not have a host assigned"):
        await client.request("POST", f"{PODS}/p/exec", query={"command": "ls"})
    await client.request("POST", f"{PODS}/p/binding", body=binding("p"))
    with pytest.raises(NotFound, match='nodes "n" not found'):
        await client.request("GET", f"{PODS}/p/log")
    with pytest.raises(BadRequest, match="container x is not valid for pod p"):
        await client.request("GET", f"{PODS}/p/log", query={"container": "x"})
