from __future__ import annotations

import sqlite3

import pytest

from dray.api.errors import InternalError, MethodNotAllowed, NotFound
from dray.api.release import EffectiveVersion
from dray.store import sqlite
from dray.store.interface import StoreUnavailable
from dray.store.sqlite import SqliteStore
from tests.support.apiserver import make_server

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


async def test_groups_come_in_upstreams_order_with_their_preferred_version():
    client = (await make_server()).as_user()
    groups = (await client.request("GET", "/apis")).object["groups"]
    names = [g["name"] for g in groups]
    assert names.index("apps") < names.index("policy") < names.index("resource.k8s.io")
    resource = next(g for g in groups if g["name"] == "resource.k8s.io")
    assert resource["preferredVersion"]["version"] == "v1"
    assert (await client.request("GET", "/apis/resource.k8s.io")).object["versions"] == resource["versions"]


@pytest.mark.parametrize(("release", "told"), [("1.32", None), ("1.33", "33"), ("1.37", "37")])
async def test_the_version_tells_of_emulation_since_1_33(release: str, told: str | None) -> None:
    client = (await make_server(version=EffectiveVersion.parse(release))).as_user()
    assert (await client.request("GET", "/version")).object.get("emulationMinor") == told


async def test_a_version_lists_resources_and_subresources():
    client = (await make_server()).as_user()
    listed = (await client.request("GET", "/api/v1")).object["resources"]
    by_name = {r["name"]: r for r in listed}
    assert by_name["pods"]["shortNames"] == ["po"] and by_name["pods"]["categories"] == ["all"]
    assert by_name["configmaps"]["storageVersionHash"] == "qFsyl6wFWjQ="
    assert by_name["pods/eviction"] | {"x": 0} == {
        "name": "pods/eviction", "singularName": "", "namespaced": True, "group": "policy", "version": "v1",
        "kind": "Eviction", "verbs": ["create"], "x": 0,
    }  # fmt: skip
    assert "storageVersionHash" not in by_name["bindings"]
    assert [r["name"] for r in listed] == sorted(by_name)


async def test_aggregated_discovery_is_one_document_that_can_be_kept():
    server = await make_server()
    client = server.as_user()
    first = await client.request("GET", "/apis", accept=AGGREGATED)
    assert first.body["kind"] == "APIGroupDiscoveryList"
    assert first.body["apiVersion"] == "apidiscovery.k8s.io/v2"
    again = await client.request("GET", "/apis", accept=AGGREGATED)
    assert first.headers["etag"] == again.headers["etag"]
    await server.api.resources.remove("apps", "deployments")
    changed = await client.request("GET", "/apis", accept=AGGREGATED)
    assert changed.headers["etag"] != first.headers["etag"]


async def test_both_generations_of_claims_are_discovered_in_their_versions():
    client = (await make_server()).as_user()
    for version in ("v1", "v1alpha2"):
        listed = (await client.request("GET", f"/apis/resource.k8s.io/{version}")).object["resources"]
        assert "resourceclaims" in {r["name"] for r in listed}


async def test_1_31_serves_pod_scheduling_contexts_in_the_version_of_its_claims():
    server = await make_server(version=EffectiveVersion.parse("1.31"), served=None)
    client = server.as_user()
    listed = (await client.request("GET", "/apis/resource.k8s.io/v1alpha3")).object["resources"]
    assert {"podschedulingcontexts", "podschedulingcontexts/status"} <= {r["name"] for r in listed}
    path = "/apis/resource.k8s.io/v1alpha3/namespaces/default/podschedulingcontexts"
    context = {"metadata": {"name": "p"}, "spec": {"selectedNode": "n", "potentialNodes": ["n"]}}
    made = (await client.request("POST", path, body=context)).object
    assert (made["apiVersion"], made["spec"]) == ("resource.k8s.io/v1alpha3", context["spec"])
    made["status"] = {"resourceClaims": [{"name": "c", "unsuitableNodes": ["n"]}]}
    assert (await client.request("PUT", f"{path}/p/status", body=made)).object["status"] == made["status"]
    stored = await server.api.store.get("/registry/podschedulingcontexts/default/p")
    assert stored is not None and b'"apiVersion":"resource.k8s.io/v1alpha3"' in stored.value


@pytest.mark.parametrize("release", ["1.32", "1.36"])
async def test_later_releases_serve_no_pod_scheduling_contexts(release: str) -> None:
    server = await make_server(version=EffectiveVersion.parse(release), served=None)
    groups = server.api.resources.groups()
    assert "podschedulingcontexts" not in {
        r.kind.plural for g in groups for resources in g.resources.values() for r in resources
    }


async def test_unknown_groups_and_versions_are_not_found_each_in_its_own_way():
    client = (await make_server()).as_user()
    with pytest.raises(NotFound, match="404 page not found"):
        await client.request("GET", "/apis/nosuch.example.com/v1")
    with pytest.raises(NotFound, match="the server could not find the requested resource"):
        await client.request("GET", "/apis/resource.k8s.io/v9")
    with pytest.raises(MethodNotAllowed):
        await client.request("PUT", "/apis/resource.k8s.io/v1", body={})


async def test_the_root_lists_the_paths():
    paths = (await (await make_server()).as_user().request("GET", "/")).object["paths"]
    assert {"/api/v1", "/apis/resource.k8s.io/v1", "/healthz", "/metrics", "/version"} <= set(paths)


async def test_the_version_says_which_release_it_stands_in_for():
    version = (await (await make_server()).as_user().request("GET", "/version")).object
    assert (version["major"], version["minor"], version["gitVersion"]) == ("1", "37", "v1.37.0")


async def test_health_is_checked_as_a_whole_and_in_parts():
    server = await make_server()
    client = server.as_user()
    for path in ("/healthz", "/livez", "/readyz", "/readyz/etcd", "/healthz/ping"):
        assert (await client.request("GET", path)).body == b"ok"
    verbose = (await client.request("GET", "/readyz", query={"verbose": ""})).body.decode()
    assert "[+]etcd ok" in verbose and verbose.endswith("readyz check passed\n")
    server.health.shutting_down = True
    with pytest.raises(InternalError, match=r"\[-\]shutdown failed"):
        await client.request("GET", "/readyz")
    assert (await client.request("GET", "/readyz", query={"exclude": "shutdown"})).status == 200
    assert (await client.request("GET", "/livez")).status == 200
    with pytest.raises(NotFound):
        await client.request("GET", "/healthz/nosuch")


async def test_a_server_that_cannot_write_is_alive_but_not_ready(tmp_path, monkeypatch, caplog):
    def full(connection, batch, *, suspect):
        raise sqlite3.OperationalError("database or disk is full")

    store = await SqliteStore.open(tmp_path / "s.db")
    server = await make_server(store=store)
    client = server.as_user()
    assert (await client.request("GET", "/readyz")).body == b"ok"
    with monkeypatch.context() as disk:
        disk.setattr(sqlite, "_commit", full)
        with pytest.raises(StoreUnavailable):
            await store.create("/a", b"1")
        for _ in range(2):
            with pytest.raises(InternalError, match=r"\[-\]etcd-readiness failed"):
                await client.request("GET", "/readyz")
        assert (await client.request("GET", "/livez")).body == b"ok"
    assert (await client.request("GET", "/readyz")).body == b"ok"
    await store.close()


async def test_metrics_are_prometheus_text():
    server = await make_server()
    server.api.metrics.requests.inc("200", "apiserver", "", "", "pods", "cluster", "", "LIST", "v1")
    server.api.metrics.durations.observe(0.03, "apiserver", "", "", "pods", "cluster", "", "LIST", "v1")
    text = (await server.as_user().request("GET", "/metrics")).body.decode()
    assert 'apiserver_request_total{code="200",component="apiserver",' in text
    assert 'verb="LIST",version="v1",le="0.025"} 0' in text and 'le="0.05"} 1' in text
    assert "apiserver_request_duration_seconds_sum" in text


async def test_metrics_tell_which_features_are_on():
    server = await make_server()
    server.api.gates = server.api.gates.with_changes({"DRAConsumableCapacity": False})
    text = (await server.as_user().request("GET", "/metrics")).body.decode()
    assert "# HELP kubernetes_feature_enabled [BETA] " in text
    assert 'kubernetes_feature_enabled{name="DynamicResourceAllocation",stage=""} 1' in text
    assert 'kubernetes_feature_enabled{name="DRAResourcePoolStatus",stage="ALPHA"} 1' in text
    assert 'kubernetes_feature_enabled{name="DRAConsumableCapacity",stage="BETA"} 0' in text
