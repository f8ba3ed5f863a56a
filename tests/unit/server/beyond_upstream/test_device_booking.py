from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dray.api.claims import FINALIZER
from dray.api.errors import Conflict
from dray.server.beyond_upstream.device_booking import exclusive_devices
from tests.support.apiserver import make_server

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


def spec(**more: Any) -> dict[str, Any]:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", **more}}]}}


def given(device: str, **more: Any) -> dict[str, Any]:
    result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": device, **more}
    return {"status": {"allocation": {"devices": {"results": [result]}}}}


async def claims(*names: str, protected: bool = True) -> Any:
    client = (await make_server()).as_user()
    for name in names:
        metadata = {"name": name, "finalizers": [FINALIZER] if protected else []}
        await client.request("POST", CLAIMS, body={"metadata": metadata, "spec": spec()})
    return client


async def give(client: Any, name: str, device: str, **more: Any) -> None:
    await client.request(
        "PATCH",
        f"{CLAIMS}/{name}/status",
        body=given(device, **more),
        content_type="application/merge-patch+json",
    )


async def test_a_device_that_another_claim_has_is_refused():
    client = await claims("a", "b")
    await give(client, "a", "gpu-0")
    with pytest.raises(Conflict, match=r"device d.example.com/p/gpu-0 is allocated to claim default/a"):
        await give(client, "b", "gpu-0")
    await give(client, "b", "gpu-1")
    await give(client, "a", "gpu-0")  # what it has it may keep


async def test_of_two_that_ask_at_the_same_time_one_is_refused():
    client = await claims(*(f"c{i}" for i in range(8)))
    outcomes = await asyncio.gather(
        *(give(client, f"c{i}", "gpu-0") for i in range(8)), return_exceptions=True
    )
    assert [type(o) for o in outcomes].count(Conflict) == 7


async def test_what_is_given_back_can_be_taken():
    client = await claims("a", "b", "c")
    await give(client, "a", "gpu-0")
    await client.request(
        "PATCH",
        f"{CLAIMS}/a/status",
        body={"status": {"allocation": None}},
        content_type="application/merge-patch+json",
    )
    await give(client, "b", "gpu-0")
    for patch in ({"status": {"allocation": None}}, {"metadata": {"finalizers": None}}):
        path = f"{CLAIMS}/b/status" if "status" in patch else f"{CLAIMS}/b"
        await client.request("PATCH", path, body=patch, content_type="application/merge-patch+json")
    await client.request("DELETE", f"{CLAIMS}/b")
    await give(client, "c", "gpu-0")


async def test_a_claim_without_the_finalizer_is_not_checked():
    client = await claims("a", "b", protected=False)
    await give(client, "a", "gpu-0")
    await give(client, "b", "gpu-0")


@pytest.mark.parametrize("more", [{"adminAccess": True}, {"shareID": "1"}])
def test_shared_devices_and_admin_access_are_not_exclusive(more: dict[str, Any]):
    assert exclusive_devices(given("gpu-0", **more)["status"]["allocation"]) == frozenset()
