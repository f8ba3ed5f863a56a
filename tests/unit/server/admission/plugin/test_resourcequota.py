"""Quotas: what is charged, what is refused, and that nothing is spent twice."""

from __future__ import annotations

import asyncio

from dray.api.errors import StatusError
from dray.api.scheme.kinds import Object
from tests.support.admission import World, config_map, make_world, pod, refusal

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


async def quota(world: World, name: str = "q", **hard: str) -> None:
    """A quota whose status somebody has filled in."""
    amounts = {key.replace("__", "/").replace("_", "."): value for key, value in hard.items()}
    await world.post(QUOTAS, {"metadata": {"name": name}, "spec": {"hard": amounts}})
    status = {"hard": amounts, "used": dict.fromkeys(amounts, "0")}
    await world.patch(f"{QUOTAS}/{name}/status", {"status": status})


async def used(world: World, name: str = "q") -> Object:
    found: Object = (await world.get(f"{QUOTAS}/{name}"))["status"]["used"]
    return found


def claim(name: str, **exactly: object) -> Object:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


async def test_objects_are_counted_and_one_too_many_is_refused() -> None:
    world = await make_world("ResourceQuota")
    await quota(world, count__configmaps="2")
    await world.post(MAPS, config_map("a"))
    await world.post(MAPS, config_map("b"))
    assert await used(world) == {"count/configmaps": "2"}
    error = await refusal(world.post(MAPS, config_map("c")))
    assert error.message == (
        'configmaps "c" is forbidden: exceeded quota: q, requested: count/configmaps=1, '
        "used: count/configmaps=2, limited: count/configmaps=2"
    )


async def test_a_dry_run_is_checked_but_not_charged() -> None:
    world = await make_world("ResourceQuota")
    await quota(world, count__configmaps="1")
    await world.post(MAPS, config_map("a"), dryRun="All")
    assert await used(world) == {"count/configmaps": "0"}


async def test_many_at_once_do_not_spend_the_same_remainder() -> None:
    world = await make_world("ResourceQuota")
    await quota(world, count__configmaps="10")
    made = await asyncio.gather(
        *(world.post(MAPS, config_map(f"m{i}")) for i in range(30)), return_exceptions=True
    )
    assert sum(not isinstance(m, StatusError) for m in made) == 10
    assert await used(world) == {"count/configmaps": "10"}


async def test_another_servers_write_is_noticed_and_the_sum_made_anew() -> None:
    world = await make_world("ResourceQuota")
    await quota(world, count__configmaps="5")
    store, original, interfered = world.api.store, world.api.store.update, False

    async def update(key: str, value: bytes, **options: object) -> object:
        nonlocal interfered
        if key.endswith("/resourcequotas/default/q") and not interfered:
            interfered = True
            status = {"used": {"count/configmaps": "3"}}
            await world.patch(f"{QUOTAS}/q/status", {"status": status})
        return await original(key, value, **options)

    store.update = update
    await world.post(MAPS, config_map("a"))
    assert await used(world) == {"count/configmaps": "4"}


async def test_nothing_is_enforced_before_the_status_says_what_is_used() -> None:
    world = await make_world("ResourceQuota")
    await world.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "0"}}})
    await world.post(MAPS, config_map("a"))
    await world.patch(f"{QUOTAS}/q/status", {"status": {"hard": {"count/configmaps": "0"}}})
    error = await refusal(world.post(MAPS, config_map("b")))
    assert "status unknown for quota: q, resources: count/configmaps" in error.message


async def test_pods_must_say_what_they_want_of_what_is_rationed() -> None:
    world = await make_world("ResourceQuota")
    await quota(world, requests_cpu="1", pods="5")
    error = await refusal(world.post(PODS, pod()))
    assert error.message == 'pods "p" is forbidden: failed quota: q: must specify requests.cpu for: c'
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "700m"}}}
    await world.post(PODS, pod("a", containers=[container]))
    assert await used(world) == {"requests.cpu": "700m", "pods": "1"}
    error = await refusal(world.post(PODS, pod("b", containers=[container])))
    assert "requested: requests.cpu=700m, used: requests.cpu=700m, limited: requests.cpu=1" in error.message


async def test_devices_are_rationed_by_class() -> None:
    world = await make_world("ResourceQuota")
    hard = {"gpu.deviceclass.resource.k8s.io/devices": "4"}
    await world.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    await world.patch(f"{QUOTAS}/q/status", {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}})
    await world.post(CLAIMS, claim("three", count=3))
    error = await refusal(world.post(CLAIMS, claim("two", count=2)))
    assert "requested: gpu.deviceclass.resource.k8s.io/devices=2" in error.message
    error = await refusal(world.post(CLAIMS, claim("all", allocationMode="All")))
    assert "requested: gpu.deviceclass.resource.k8s.io/devices=32" in error.message
    assert await used(world) == {"gpu.deviceclass.resource.k8s.io/devices": "3"}


async def test_a_class_that_serves_an_extended_resource_is_rationed_by_that_name_too() -> None:
    world = await make_world("ResourceQuota")
    await world.post(
        "/apis/resource.k8s.io/v1/deviceclasses",
        {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}},
    )
    hard = {"requests.example.com/gpu": "1"}
    await world.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    await world.patch(f"{QUOTAS}/q/status", {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}})
    await world.post(CLAIMS, claim("one", count=1))
    error = await refusal(world.post(CLAIMS, claim("more", count=1)))
    assert "requests.example.com/gpu=1" in error.message


async def test_a_change_is_charged_for_what_it_adds() -> None:
    world = await make_world("ResourceQuota")
    await quota(world, services_nodeports="2", services="5")
    ports = [{"name": "a", "port": 1, "nodePort": 30001}, {"name": "b", "port": 2, "nodePort": 30002}]
    plain = {"ports": [{"name": "a", "port": 1}]}
    services = "/api/v1/namespaces/default/services"
    await world.post(services, {"metadata": {"name": "s"}, "spec": plain})
    assert await used(world) == {"services.nodeports": "0", "services": "1"}
    await world.patch(f"{services}/s", {"spec": {"type": "NodePort", "ports": ports}})
    assert await used(world) == {"services.nodeports": "2", "services": "1"}


async def test_a_quota_with_scopes_is_about_pods_in_them() -> None:
    world = await make_world("ResourceQuota")
    hard = {"pods": "0"}
    await world.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard, "scopes": ["BestEffort"]}})
    await world.patch(f"{QUOTAS}/q/status", {"status": {"hard": hard, "used": {"pods": "0"}}})
    assert (await refusal(world.post(PODS, pod("idle")))).http_code == 403
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    assert await world.post(PODS, pod("busy", containers=[container]))
