from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from dray.api.claims import FINALIZER
from dray.api.errors import Conflict
from dray.server.beyond_upstream.device_booking.bookings import shares
from dray.server.beyond_upstream.device_booking.records import PREFIX
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


def test_a_device_that_a_claim_may_only_look_at_is_not_held():
    claim: Any = {"metadata": {}, **given("gpu-0", adminAccess=True)}
    assert shares(claim, claim["status"]["allocation"]) == {}


async def publish(client: Any, *devices: dict[str, Any], **spec: Any) -> None:
    name = "counters" if spec else "devices"
    body = {
        "metadata": {"name": name},
        "spec": {
            "driver": "d.example.com",
            "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 2},
            **({"devices": list(devices)} if devices else {}),
            **spec,
        },
    }
    await client.request("POST", "/apis/resource.k8s.io/v1/resourceslices", body=body)


async def test_shares_of_a_device_are_refused_beyond_its_capacity():
    client = await claims(*(f"c{i}" for i in range(6)))
    await publish(
        client,
        {
            "name": "gpu-0",
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": "10Gi"}},
        },
    )

    async def share(i: int, memory: str) -> None:
        uid = f"00000000-0000-4000-8000-00000000000{i}"
        await give(client, f"c{i}", "gpu-0", shareID=uid, consumedCapacity={"memory": memory})

    outcomes = await asyncio.gather(*(share(i, "4Gi") for i in range(5)), return_exceptions=True)
    refused = [o for o in outcomes if isinstance(o, Conflict)]
    assert len(refused) == 3 and "has not enough memory left for another share" in str(refused[0])
    await share(5, "2Gi")
    with pytest.raises(Conflict, match="is allocated to claim"):
        await give(client, next(f"c{i}" for i, o in enumerate(outcomes) if o), "gpu-0")  # the whole device


async def test_partitions_are_refused_beyond_the_counters_of_their_pool():
    client = await claims("a", "b", "c")
    consumes = [{"counterSet": "gpu", "counters": {"memory": {"value": "4Gi"}}}]
    await publish(client, sharedCounters=[{"name": "gpu", "counters": {"memory": {"value": "8Gi"}}}])
    await publish(client, *({"name": f"part-{i}", "consumesCounters": consumes} for i in range(3)))
    outcomes = await asyncio.gather(
        *(give(client, name, f"part-{i}") for i, name in enumerate("abc")), return_exceptions=True
    )
    (refused,) = [o for o in outcomes if isinstance(o, Conflict)]
    assert "pool d.example.com/p has not enough of counter memory of counter set gpu left" in str(refused)


async def test_a_finalizer_that_comes_after_the_allocation_hides_nothing():
    client = await claims("a", "b", protected=False)
    await give(client, "a", "gpu-0")
    await give(client, "b", "gpu-0")
    for name, other in (("a", "b"), ("b", "a")):
        with pytest.raises(Conflict, match=f"gpu-0 is allocated to claim default/{other}"):
            await client.request(
                "PATCH",
                f"{CLAIMS}/{name}",
                body={"metadata": {"finalizers": [FINALIZER]}},
                content_type="application/merge-patch+json",
            )


async def test_what_two_unchecked_claims_have_is_free_only_after_both():
    client = await claims("a", "b", protected=False)
    await client.request(
        "POST", CLAIMS, body={"metadata": {"name": "c", "finalizers": [FINALIZER]}, "spec": spec()}
    )
    await give(client, "a", "gpu-0")
    await give(client, "b", "gpu-0")
    await client.request("DELETE", f"{CLAIMS}/b")
    with pytest.raises(Conflict, match="gpu-0 is allocated to claim default/a"):
        await give(client, "c", "gpu-0")


async def records(client: Any) -> dict[str, Any]:
    """What is stored, by what follows the prefix."""
    page = await client._api.store.range(PREFIX)
    return {entry.key.removeprefix(PREFIX): json.loads(entry.value) for entry in page.entries}


async def test_records_come_and_go_with_the_allocation():
    client = await claims("a")
    await give(client, "a", "gpu-0")
    (key, record), *others = (await records(client)).items()
    assert key == "devices/d.example.com/p/gpu-0" and not others
    assert list(record["claims"]) == ["default/a"]
    await client.request(
        "PATCH",
        f"{CLAIMS}/a",
        body={"metadata": {"finalizers": None}},
        content_type="application/merge-patch+json",
    )
    assert await records(client), "the device is still the claim's"
    await client.request("DELETE", f"{CLAIMS}/a")
    assert await records(client) == {}


async def test_a_partition_that_is_given_back_frees_its_counters_although_nobody_publishes_it_any_more():
    client = await claims("a", "b")
    consumes = [{"counterSet": "gpu", "counters": {"memory": {"value": "8Gi"}}}]
    await publish(client, sharedCounters=[{"name": "gpu", "counters": {"memory": {"value": "8Gi"}}}])
    await publish(client, {"name": "part-0", "consumesCounters": consumes})
    await give(client, "a", "part-0")
    assert (await records(client))["counters/d.example.com/p/gpu"] == {
        "devices": {"part-0": {"memory": "8Gi"}}
    }
    await client.request("DELETE", "/apis/resource.k8s.io/v1/resourceslices/devices")
    await client.request(
        "PATCH",
        f"{CLAIMS}/a/status",
        body={"status": {"allocation": None}},
        content_type="application/merge-patch+json",
    )
    assert await records(client) == {}


async def test_a_share_beyond_the_capacity_names_the_claims_that_have_the_rest():
    client = await claims("a", "b")
    await publish(
        client,
        {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}},
    )
    uid = "00000000-0000-4000-8000-000000000000"
    await give(client, "a", "gpu-0", shareID=uid, consumedCapacity={"memory": "6Gi"})
    with pytest.raises(Conflict, match="not enough memory left for another share beside claim default/a"):
        await give(client, "b", "gpu-0", shareID=uid[:-1] + "1", consumedCapacity={"memory": "6Gi"})


async def test_a_dry_run_is_refused_as_the_write_would_be_and_books_nothing():
    client = await claims("a", "b")
    await give(client, "a", "gpu-0")
    for device, refused in (("gpu-0", True), ("gpu-1", False)):
        attempt = client.request(
            "PATCH",
            f"{CLAIMS}/b/status",
            query={"dryRun": "All"},
            body=given(device),
            content_type="application/merge-patch+json",
        )
        if refused:
            with pytest.raises(Conflict, match="default/a"):
                await attempt
        else:
            await attempt
    assert list(await records(client)) == ["devices/d.example.com/p/gpu-0"]


async def test_a_share_of_a_device_that_can_only_be_had_whole_is_refused():
    client = await claims("a", "b")
    await publish(client, {"name": "gpu-0"})
    uids = [f"00000000-0000-4000-8000-00000000000{i}" for i in range(2)]
    await give(client, "a", "gpu-0", shareID=uids[0])
    with pytest.raises(Conflict, match="gpu-0 is allocated to claim default/a"):
        await give(client, "b", "gpu-0", shareID=uids[1])


async def test_counters_are_drawn_while_a_driver_replaces_the_slices_of_its_pool_one_by_one():
    """The scheduler has allocated by the generation that is complete, and half of the next one is there already."""
    client = await claims("a", "b", "c")
    consumes = [{"counterSet": "gpu", "counters": {"memory": {"value": "4Gi"}}}]
    await publish(client, sharedCounters=[{"name": "gpu", "counters": {"memory": {"value": "8Gi"}}}])
    await publish(client, *({"name": f"part-{i}", "consumesCounters": consumes} for i in range(3)))
    await client.request(
        "PATCH",
        "/apis/resource.k8s.io/v1/resourceslices/counters",
        body={"spec": {"pool": {"generation": 2}}},
        content_type="application/merge-patch+json",
    )
    await give(client, "a", "part-0")
    await give(client, "b", "part-1")
    with pytest.raises(Conflict, match="not enough of counter memory"):
        await give(client, "c", "part-2")


async def test_a_booked_device_counts_with_what_its_pool_says_today():
    client = await claims("a", "b", "c")

    async def devices(memory: str, method: str, path: str = "") -> None:
        consumes = [{"counterSet": "gpu", "counters": {"memory": {"value": memory}}}]
        body: dict[str, Any] = {
            "metadata": {"name": "devices"},
            "spec": {
                "driver": "d.example.com",
                "nodeName": "n",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 2},
                "devices": [{"name": f"part-{i}", "consumesCounters": consumes} for i in range(3)],
            },
        }
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        await client.request(
            method, f"/apis/resource.k8s.io/v1/resourceslices{path}", body=body, content_type=content
        )

    await publish(client, sharedCounters=[{"name": "gpu", "counters": {"memory": {"value": "8Gi"}}}])
    await devices("6Gi", "POST")
    await give(client, "a", "part-0")
    await devices("2Gi", "PATCH", "/devices")  # a scheduler counts 2Gi for part-0 from now on
    await give(client, "b", "part-1")
    await give(client, "c", "part-2")
