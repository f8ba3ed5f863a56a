from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dray.client.client import Client
from dray.client.resources import (
    CLASSIC_RESOURCE_CLAIMS,
    CLASSIC_RESOURCE_CLASSES,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    ROLE_BINDINGS,
    ROLES,
)
from dray.ui.board import Board
from dray.ui.cluster import LiveCluster
from dray.ui.informers import COUNTED, informed, readable
from dray.ui.metrics import Metrics
from tests.support import explain as given
from tests.support.dashboard import Served, served
from tests.support.wait import wait_for

RESULT = {"request": "r", "driver": given.DRIVER, "pool": "n1", "device": "a"}
ALLOCATION = {"status": {"allocation": {"devices": {"results": [RESULT]}}}}


def made(document: dict[str, Any]) -> Any:
    """As a client sends it: without a uid."""
    return {**document, "metadata": {k: v for k, v in document["metadata"].items() if k != "uid"}}


async def fill(admin: Client) -> None:
    await admin.create(NODES, "", made(given.node("n1")))
    await admin.create(DEVICE_CLASSES, "", made(given.device_class()))
    await admin.create(RESOURCE_SLICES, "", made(given.slice_("n1", given.device("a"), given.device("b"))))


@pytest.mark.parametrize(
    ("path", "change", "expected"),
    [
        ("/", {"token": ""}, 401),
        ("/app.js", {"token": ""}, 401),
        ("/metrics", {"token": ""}, 401),
        ("/api/stream", {"token": "wrong"}, 401),
        ("/", {"host": "evil.example"}, 403),
        ("/api/stream", {"origin": "http://evil.example"}, 403),
        ("/../../etc/passwd", {}, 400),
        ("/%2e%2e/%2e%2e/etc/passwd", {}, 400),
        ("/page/index.html", {}, 404),
        ("/server.py", {}, 404),
        ("/", {"method": "POST"}, 405),
        ("/api/whatif", {}, 405),
        ("/api/object?kind=pod&id=default/none", {}, 404),
        ("/api/object?kind=secret&id=default/none", {}, 404),
        ("/healthz", {"token": ""}, 200),
        ("/", {}, 200),
    ],
)
async def test_who_is_answered(tmp_path: Path, path: str, change: dict[str, str], expected: int):
    async with served(tmp_path) as page:
        code, headers, _ = await page.ask(path, **change)
    assert code == expected
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["cache-control"] == "no-store"


async def test_the_token_in_the_address_becomes_a_cookie_that_opens_everything(tmp_path: Path):
    async with served(tmp_path) as page:
        code, headers, _ = await page.ask("/?token=a-token-for-tests", token="")
        assert code == 200
        cookie = headers["set-cookie"].partition(";")[0]
        assert (await page.ask("/metrics", token="", cookie=cookie))[0] == 200


async def test_changes_are_sent_to_those_who_look(tmp_path: Path):
    async with served(tmp_path) as page:
        await fill(page.admin)
        async with page.events() as events:
            seen: dict[str, Any] = {}
            async for name, content in events:
                if name == "hello":
                    assert content["unread"] == []
                elif name == "ready":
                    await page.admin.create(RESOURCE_CLAIMS, "default", made(given.claim("c")))
                    await page.admin.patch_status(RESOURCE_CLAIMS, "default", "c", ALLOCATION)
                elif name == "rows":
                    seen |= {f"{content['of']}/{row['id']}": row for row in content["set"]}
                    if seen.get("claims/default/c", {}).get("state") == "allocated":
                        break
            pool = seen[f"pools/{given.DRIVER}/n1"]
            assert [(one["n"], one["s"], one.get("h")) for one in pool["devices"]] == [
                ("a", 1, [["default/c"]]),
                ("b", 0, None),
            ]
        assert (await page.json("/api/object?kind=claim&id=default/c"))["state"] == "allocated"
        await page.admin.delete(RESOURCE_CLAIMS, "default", "c")
        gone = await wait_for("the claim to be gone", lambda: _state(page, "claim", "default/c", "gone"))
        states = [state for _, state, _ in gone["sections"][0]["moments"]]
        assert states[-2:] == ["allocated", "gone"]


async def _state(page: Served, kind: str, id: str, state: str) -> Any:
    found = await page.json(f"/api/object?kind={kind}&id={id}")
    return found if found.get("state") == state else None


async def test_a_mistake_in_a_row_does_not_end_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fails(*arguments: object) -> None:
        raise KeyError("a field that nobody thought of")

    async with served(tmp_path) as page:
        await fill(page.admin)
        monkeypatch.setattr("dray.ui.rows.node_row", fails)
        monkeypatch.setattr("dray.ui.reasons.explain_pod", fails)
        async with page.events() as events:
            async for name, _ in events:
                if name == "ready":
                    break
            await page.admin.create(RESOURCE_CLAIMS, "default", made(given.claim("c")))
            async for name, content in events:
                if name == "rows" and content["of"] == "claims":
                    break


async def test_a_change_that_no_row_shows_is_told_too(tmp_path: Path):
    """What is said of an object may depend on anything, such as a label of a node."""
    async with served(tmp_path) as page:
        await fill(page.admin)
        async with page.events() as events:
            async for name, _ in events:
                if name == "ready":
                    break
            await page.admin.patch(NODES, "", "n1", {"metadata": {"labels": {"zone": "z"}}})
            seen = set()
            async for name, _ in events:
                seen.add(name)
                if name == "changed":
                    break
            assert "rows" not in seen
        assert '"zone=z"' in json.dumps(await page.json("/api/object?kind=node&id=n1"))


async def test_nothing_is_worked_out_while_nobody_looks(tmp_path: Path):
    async with served(tmp_path) as page:
        await wait_for("the first refresh", lambda: page.dashboard.board.history.samples)
        before = page.dashboard.board.rows["pools"].copy()
        await fill(page.admin)
        await wait_for("the slice to be heard of", lambda: page.dashboard.cluster.touched.pools)
        assert page.dashboard.board.rows["pools"] == before


async def test_one_namespace_is_enough_and_the_rest_is_said(tmp_path: Path):
    """The identity may read one namespace; what it may not read is left out and named."""
    async with served(tmp_path) as page:
        admin = page.admin
        for name in ("team-a", "team-b"):
            await admin.create(NAMESPACES, "", {"metadata": {"name": name}})
            pod: Any = {**given.pod("p", "c"), "metadata": {"name": "p"}}
            pod["spec"]["containers"][0]["image"] = "none"
            await admin.create(PODS, name, pod)
            await admin.create(RESOURCE_CLAIMS, name, {**given.claim("c"), "metadata": {"name": "c"}})
        await fill(admin)
        rules = [
            {
                "apiGroups": ["", "resource.k8s.io"],
                "resources": ["pods", "resourceclaims"],
                "verbs": ["list", "watch"],
            }
        ]
        await admin.create(ROLES, "team-a", {"metadata": {"name": "reads"}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads"}
        who = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}
        binding: Any = {"metadata": {"name": "reads"}, "roleRef": role, "subjects": [who]}
        await admin.create(ROLE_BINDINGS, "team-a", binding)
        async with page.of_user("jane", namespace="team-a") as limited:
            found = limited.dashboard
            assert set(found.board.rows["pods"]) == {"team-a/p"}
            assert set(found.board.rows["claims"]) == {"team-a/c"}
            assert not found.board.rows["pools"]
            async with limited.events() as events:
                _, hello = await anext(events)
            assert {"Node", "ResourceSlice", "DeviceClass", "Pod"} <= set(hello["unread"])
            assert set(hello["limited"]) == {"Pod", "ResourceClaim"}
            why = await limited.json("/api/why?kind=pod&id=team-a/p")
            assert why["headline"].startswith("why cannot be told, as you may not read Node")
            shown = await limited.json("/api/object?kind=pod&id=team-a/p")
            events_table = next(one for one in shown["sections"] if one["title"] == "Events")
            assert events_table["empty"] == "You may not read events here."


async def test_selectors_and_pods_are_tried_against_the_cluster(tmp_path: Path):
    async with served(tmp_path) as page:
        await fill(page.admin)
        await wait_for(
            "the slice", lambda: page.dashboard.cluster.nodes and page.dashboard.cluster.objects["slices"]
        )
        found = await page.json("/api/cel?expression=device.driver%20==%20%22gpu.example.com%22")
        assert (found["matches"], found["devices"], found["errors"]) == (2, 2, [])
        assert found["cost"]["actual"] > 0
        assert "problem" in await page.json("/api/cel?expression=device.")
        wish = {"class": "gpu", "devices": 1, "copies": 10}
        _, _, body = await page.ask("/api/whatif", method="POST", body=json.dumps(wish).encode())
        answer = json.loads(body)
        assert (answer["fit"], answer["wanted"], answer["nodes"]) == (2, 10, [["n1", 2]])
        assert answer["why"]["headline"].endswith("2 already allocated")
        _, _, body = await page.ask(
            "/api/whatif", method="POST", body=json.dumps(wish | {"copies": 0}).encode()
        )
        answer = json.loads(body)
        assert (answer["fit"], answer["wanted"], bool(answer["why"])) == (2, 0, True)
        for wrong in (
            b"{",
            b"[]",
            b'{"class": "none"}',
            b'{"class": "gpu", "copies": -1}',
            b'{"class": "gpu", "copies": 1001}',
            b'{"manifest": "a: ["}',
            b'{"manifest": "apiVersion: v1\\nkind: Pod\\nspec: x"}',
            b'{"manifest": "apiVersion: x/v1\\nkind: Train\\nspec: {template: {spec: x}}"}',
        ):
            code, _, body = await page.ask("/api/whatif", method="POST", body=wrong)
            assert code in (400, 422), body
            assert json.loads(body)["problem"]


async def test_the_exporter_counts_what_the_dashboard_counts(tmp_path: Path):
    """It reads fewer kinds, but all that tell why a pod waits."""
    async with served(tmp_path) as page:
        admin = page.admin
        await fill(admin)
        admins: Any = {
            "metadata": {"name": "admins", "labels": {"resource.kubernetes.io/admin-access": "true"}}
        }
        await admin.create(NAMESPACES, "", admins)
        await admin.create(
            CLASSIC_RESOURCE_CLASSES, "", {"metadata": {"name": "cat"}, "driverName": "d.example"}
        )
        classic: Any = {"metadata": {"name": "classic"}, "spec": {"resourceClassName": "cat"}}
        await admin.create(CLASSIC_RESOURCE_CLAIMS, "default", classic)
        watching: Any = {"metadata": {"name": "watching"}, "spec": given.claim("c")["spec"]}
        watching["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
        await admin.create(RESOURCE_CLAIMS, "admins", watching)
        for namespace, claim in (("default", "classic"), ("admins", "watching"), ("default", "not-there")):
            pod: Any = {**given.pod("p", claim), "metadata": {"name": claim}}
            pod["spec"]["containers"][0]["image"] = "none"
            await admin.create(PODS, namespace, pod)
        found = await readable(admin, namespace="default", fields=COUNTED)
        cluster = LiveCluster(release=found.release, gates=found.gates, unread=found.unread)
        async with informed(admin, cluster, found):
            metrics = Metrics(Board(cluster))

            async def both_count(waiting: int) -> bool:
                shown = (await page.ask("/metrics"))[2].decode()
                expected = f'dray_pods_pending{{cause="waiting"}} {waiting}\n'
                return expected in shown and _without_ages(shown) == _without_ages(metrics.text())

            await wait_for("both to count two pods as not tried yet", lambda: both_count(2))


def _without_ages(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("dray_claim_pending_seconds{")]
