"""Several API servers on one etcd: what one of them promises holds through the others too."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dray.api.claims import FINALIZER
from dray.api.errors import AlreadyExists, Conflict, Forbidden, StatusError, Unauthorized
from dray.app.options import OptionError
from dray.app.server import RunningServer
from dray.client import resources
from dray.client.client import Client
from dray.client.http import HttpTransport
from dray.client.leaderelection import LeaderElector
from dray.server.endpoints import watch
from dray.server.routes import healthz
from tests.support import several_servers
from tests.support.etcd import Etcd
from tests.support.several_servers import servers
from tests.support.tls_server import reached
from tests.support.wait import wait_for

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
MERGE = "application/merge-patch+json"


def claim(name: str) -> dict[str, Any]:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    return {
        "metadata": {"name": name, "finalizers": [FINALIZER]},
        "spec": {"devices": {"requests": [request]}},
    }


async def allocate(client: Client, name: str, device: str) -> None:
    result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": device}
    body = {"status": {"allocation": {"devices": {"results": [result]}}}}
    await client.transport.request("PATCH", f"{CLAIMS}/{name}/status", body=body, content_type=MERGE)


async def test_servers_that_start_at_once_are_one_cluster(fresh_etcd: Etcd, tmp_path: Path):
    async with servers(tmp_path, f"etcd://{fresh_etcd.endpoint}") as (one, two), AsyncExitStack() as stack:
        assert one.pki.ca.read_bytes() == two.pki.ca.read_bytes()
        admin = await stack.enter_async_context(several_servers.client(one))
        await admin.transport.request(
            "POST", "/api/v1/namespaces/default/serviceaccounts", body={"metadata": {"name": "robot"}}
        )
        review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        for issuer, reader in ((one, two), (two, one)):
            issuing = await stack.enter_async_context(several_servers.client(issuer))
            path = "/api/v1/namespaces/default/serviceaccounts/robot/token"
            token = (await issuing.transport.request("POST", path, body={"spec": {}})).object["status"][
                "token"
            ]
            robot = await stack.enter_async_context(several_servers.client(reader, token=token))
            answer = (await robot.transport.request("POST", review, body={})).object
            assert answer["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
            leaf = issuer.pki.leaf("admin")
            certified = Client(
                HttpTransport(
                    replace(
                        several_servers.config(reader, token=""),
                        certificate=leaf.certificate.read_bytes(),
                        key=leaf.key.read_bytes(),
                    )
                )
            )
            stack.push_async_callback(certified.close)
            answer = (await certified.transport.request("POST", review, body={})).object
            assert "system:masters" in answer["status"]["userInfo"]["groups"]
        await admin.transport.request("DELETE", "/api/v1/namespaces/default/serviceaccounts/robot")

        async def refused() -> bool:
            try:
                await robot.transport.request("POST", review, body={})
            except Unauthorized:
                return True
            return False

        await wait_for("the token of an account that is gone to be refused", refused)


async def test_a_data_directory_of_another_cluster_is_refused(fresh_etcd: Etcd, tmp_path: Path):
    store = f"etcd://{fresh_etcd.endpoint}"
    async with servers(tmp_path / "other", "memory", count=1):
        pass
    async with servers(tmp_path / "first", store, count=1):
        pass
    with pytest.raises(OptionError, match=r"ca.crt is not that of the cluster in the store: move"):
        async with reached(tmp_path / "other" / "server-0", store=store):
            pass


async def test_a_device_is_booked_once_and_a_name_is_one_claim_through_any_server(
    fresh_etcd: Etcd, tmp_path: Path
):
    async with (
        servers(tmp_path, f"etcd://{fresh_etcd.endpoint}") as (one, two),
        several_servers.client(one) as first,
        several_servers.client(two) as second,
    ):
        for name in "ab":
            await first.transport.request("POST", CLAIMS, body=claim(name))
        for round in range(5):
            outcomes = await asyncio.gather(
                allocate(first, "a", f"gpu-{round}"),
                allocate(second, "b", f"gpu-{round}"),
                return_exceptions=True,
            )
            refusals = [str(outcome) for outcome in outcomes if isinstance(outcome, Conflict)]
            assert len(refusals) == 1, outcomes
            [refused] = refusals
            winner = "a" if outcomes[0] is None else "b"
            assert f"gpu-{round} is allocated to claim default/{winner}" in refused
            body = {"status": {"allocation": None}}
            path = f"{CLAIMS}/{winner}/status"
            await second.transport.request("PATCH", path, body=body, content_type=MERGE)
        classic = "/apis/resource.k8s.io/v1alpha2/namespaces/default/resourceclaims"
        for name in ("x", "y", "z"):
            made = await asyncio.gather(
                first.transport.request("POST", CLAIMS, body=claim(name)),
                second.transport.request(
                    "POST",
                    classic,
                    body={"metadata": {"name": name}, "spec": {"resourceClassName": "c"}},
                ),
                return_exceptions=True,
            )
            assert [isinstance(outcome, AlreadyExists) for outcome in made].count(True) == 1, made


def delay_feed(server: RunningServer, seconds: float) -> None:
    """Let a server hear late of what is written to etcd, its own writes included."""
    store: Any = server.api.store
    receive = store._receive
    store._receive = lambda events: asyncio.get_running_loop().call_later(seconds, receive, events)


async def test_a_server_that_hears_late_of_slices_and_claims_books_as_any_other(
    fresh_etcd: Etcd, tmp_path: Path
):
    async with (
        servers(tmp_path, f"etcd://{fresh_etcd.endpoint}") as (one, two),
        several_servers.client(one) as first,
        several_servers.client(two) as second,
    ):
        for name in "abcd":
            await first.transport.request("POST", CLAIMS, body=claim(name))
        delay_feed(one, 0.3)
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
        of_node = {"driver": "d.example.com", "nodeName": "n", "pool": pool}
        drawn = [{"counterSet": "gpu", "counters": {"memory": {"value": "4Gi"}}}]
        for name, content in {
            "counters": {"sharedCounters": [{"name": "gpu", "counters": {"memory": {"value": "8Gi"}}}]},
            "devices": {"devices": [{"name": f"gpu-{n}", "consumesCounters": drawn} for n in range(3)]},
        }.items():
            body = {"metadata": {"name": name}, "spec": {**of_node, **content}}
            await second.transport.request("POST", "/apis/resource.k8s.io/v1/resourceslices", body=body)
        await allocate(first, "a", "gpu-0")
        await allocate(first, "b", "gpu-1")
        with pytest.raises(Conflict, match="not enough of counter memory"):
            await allocate(second, "c", "gpu-2")
        freed = {"status": {"allocation": None}}
        await second.transport.request("PATCH", f"{CLAIMS}/a/status", body=freed, content_type=MERGE)
        await allocate(first, "d", "gpu-0")


async def test_a_server_that_hears_late_sends_no_bookmark_older_than_what_its_client_knows(
    fresh_etcd: Etcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(watch, "_BOOKMARK_SECONDS", 0.05)
    maps = "/api/v1/namespaces/default/configmaps"
    async with (
        servers(tmp_path, f"etcd://{fresh_etcd.endpoint}") as (one, two),
        several_servers.client(one) as first,
        several_servers.client(two) as second,
    ):
        delay_feed(two, 1)
        for number in range(3):
            made = await first.transport.request("POST", maps, body={"metadata": {"name": f"m{number}"}})
        known = made.object["metadata"]["resourceVersion"]
        query = {"watch": "true", "resourceVersion": known, "allowWatchBookmarks": "true"}
        async with second.transport.watch(maps, query=query) as stream:
            [event, *_] = await anext(aiter(stream))
        assert event.type == "BOOKMARK" and int(event.object["metadata"]["resourceVersion"]) >= int(known)


async def test_two_servers_at_once_do_not_overshoot_a_quota(fresh_etcd: Etcd, tmp_path: Path):
    async with (
        servers(tmp_path, f"etcd://{fresh_etcd.endpoint}") as (one, two),
        several_servers.client(one) as first,
        several_servers.client(two) as second,
    ):
        quotas = "/api/v1/namespaces/default/resourcequotas"
        await first.transport.request(
            "POST", quotas, body={"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "5"}}}
        )
        status = {"status": {"hard": {"configmaps": "5"}, "used": {"configmaps": "0"}}}
        await first.transport.request("PATCH", f"{quotas}/q/status", body=status, content_type=MERGE)
        path = "/api/v1/namespaces/default/configmaps"
        outcomes = await asyncio.gather(
            *(
                client.transport.request("POST", path, body={"metadata": {"name": f"{i}-{n}"}})
                for i, client in enumerate((first, second))
                for n in range(6)
            ),
            return_exceptions=True,
        )
        refused = [outcome for outcome in outcomes if isinstance(outcome, Forbidden)]
        assert len(refused) == 7 and "exceeded quota: q" in str(refused[0])


async def test_two_services_made_at_once_never_share_an_address_or_port(fresh_etcd: Etcd, tmp_path: Path):
    async with (
        servers(tmp_path, f"etcd://{fresh_etcd.endpoint}") as (one, two),
        several_servers.client(one) as first,
        several_servers.client(two) as second,
    ):
        path = "/api/v1/namespaces/default/services"

        def service(name: str, number: int) -> dict[str, Any]:
            ports = [{"port": 80, "nodePort": 30000 + number}]
            spec = {"type": "NodePort", "clusterIP": f"10.96.7.{number}", "ports": ports}
            return {"metadata": {"name": name}, "spec": spec}

        for number in range(1, 6):
            outcomes = await asyncio.gather(
                first.transport.request("POST", path, body=service(f"a{number}", number)),
                second.transport.request("POST", path, body=service(f"b{number}", number)),
                return_exceptions=True,
            )
            assert [isinstance(outcome, StatusError) for outcome in outcomes].count(True) == 1, outcomes
        # What is given back through one server can be had again through the other, at once.
        for item in (await first.transport.request("GET", path)).object["items"]:
            if (name := item["metadata"]["name"]) != "kubernetes":
                await second.transport.request("DELETE", f"{path}/{name}")
                await first.transport.request("POST", path, body=service(f"{name}-again", int(name[1:])))


async def test_a_leader_that_was_away_cannot_write_once_another_leads(fresh_etcd: Etcd, tmp_path: Path):
    async with (
        servers(tmp_path, f"etcd://{fresh_etcd.endpoint}") as (one, two),
        several_servers.client(one) as first,
        several_servers.client(two) as second,
    ):
        old, new = (
            LeaderElector(
                client, namespace="kube-system", name="test", identity=identity, ended=lambda holder: True
            )
            for client, identity in ((first, "old"), (second, "new"))
        )
        maps = "/api/v1/namespaces/default/configmaps"
        asleep = asyncio.Event()

        async def lead() -> None:
            await first.transport.request("POST", maps, body={"metadata": {"name": "by-the-leader"}})
            asleep.set()
            await asyncio.Event().wait()

        leading = asyncio.create_task(old.run(lead))
        await asleep.wait()
        assert await new.try_acquire_or_renew()
        second.transport.leads_by = "kube-system/test=new"
        await second.transport.request("POST", maps, body={"metadata": {"name": "by-the-next"}})
        # The one before has heard nothing yet; its server may not have, either.
        with pytest.raises(Conflict, match="old no longer leads"):
            await first.transport.request("POST", maps, body={"metadata": {"name": "too-late"}})
        with pytest.raises(Conflict, match="old no longer leads"):
            await first.transport.request("DELETE", f"{maps}/by-the-leader")
        leading.cancel()
        await asyncio.wait([leading])


async def test_a_client_goes_on_with_the_next_server_when_its_own_is_gone(fresh_etcd: Etcd, tmp_path: Path):
    store = f"etcd://{fresh_etcd.endpoint}"
    async with servers(tmp_path / "staying", store, count=1) as (staying,):
        async with servers(tmp_path / "going", store, count=1) as (going,):
            used = Client(_starting_at(going, staying))
            await used.list(resources.NAMESPACES)
        try:

            async def answered() -> bool:
                try:
                    return bool((await used.list(resources.NAMESPACES)).items)
                except StatusError:
                    return False

            assert await wait_for("an answer of the other server", answered)
        finally:
            await used.close()


async def test_a_server_tells_how_its_etcd_is_and_recovers_by_itself(
    fresh_etcd: Etcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(healthz, "_STORE_SECONDS", 0.3)
    async with reached(tmp_path, store=f"etcd://{fresh_etcd.endpoint}") as it:
        checks = "/readyz?verbose"
        code, said = await it.call("GET", checks)
        assert code == 200
        for name in ("etcd", "etcd-readiness", "informer-sync"):
            assert f"[+]{name} ok" in said.decode()
        fresh_etcd.stop()
        code, said = await it.call("GET", checks)
        assert code == 500 and "[-]etcd failed" in said.decode()
        code, said = await it.call("GET", "/readyz/etcd")
        assert code == 500 and b"the store gave no answer within 0.3 s" in said
        fresh_etcd.start()

        async def ready() -> bool:
            return (await it.call("GET", "/readyz"))[0] == 200

        await wait_for("the server to be ready again", ready)
        body = {"metadata": {"name": "after"}}
        assert (await it.call("POST", "/api/v1/namespaces/default/configmaps", json=body))[0] == 201


def _starting_at(first: Any, second: Any) -> Any:
    transport = HttpTransport(several_servers.config(first, second))
    transport._current = 0
    return transport
