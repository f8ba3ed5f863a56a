"""Records and claims that do not match, and what is done about it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from dray.server.beyond_upstream import booking_repair
from dray.server.beyond_upstream.device_booking import repair as repair_module
from dray.server.beyond_upstream.device_booking.records import COUNTERS, DEVICES, PREFIX
from dray.server.beyond_upstream.device_booking.repair import BookingRepair
from dray.store.interface import Delete, Put
from tests.support.wait import wait_for
from tests.unit.server.beyond_upstream.device_booking.test_bookings import claims, give, publish

DEVICE = DEVICES + "d.example.com/p/gpu-0"


async def stored(client: Any) -> dict[str, Any]:
    page = await client._api.store.range(PREFIX)
    return {entry.key: json.loads(entry.value) for entry in page.entries}


async def found_by(client: Any) -> BookingRepair:
    repair = await booking_repair(client._api)
    assert repair is not None
    return repair


async def cluster_with_a_partition() -> Any:
    client = await claims("a")
    consumes = [{"counterSet": "gpu", "counters": {"memory": {"value": "4Gi"}}}]
    await publish(client, sharedCounters=[{"name": "gpu", "counters": {"memory": {"value": "8Gi"}}}])
    await publish(client, {"name": "gpu-0", "consumesCounters": consumes})
    await give(client, "a", "gpu-0")
    return client


async def test_nothing_is_found_where_claims_and_records_match():
    assert list((await found_by(await cluster_with_a_partition())).findings()) == []


async def test_records_that_are_missing_are_written_from_the_claims():
    client = await cluster_with_a_partition()
    right, store = await stored(client), client._api.store
    entries = (await store.range(PREFIX)).entries
    await store.transact([Delete(entry.key, entry.mod_revision) for entry in entries])
    repair = await found_by(client)
    assert [f.text for f in repair.findings()] == ["claim default/a has devices that are not booked"]
    assert await repair.repair() == 1
    assert await stored(client) == right


async def test_records_of_claims_that_are_gone_are_removed():
    client = await cluster_with_a_partition()
    right, store = await stored(client), client._api.store
    ghost = {"claims": {"default/ghost": {"uid": "x"}}, "counters": {"gpu": {"memory": "4Gi"}}}
    counters = await store.get(COUNTERS + "d.example.com/p/gpu")
    devices = json.loads(counters.value)["devices"] | {"gpu-7": {"memory": "4Gi"}}
    await store.transact(
        [
            Put(DEVICES + "d.example.com/p/gpu-7", json.dumps(ghost).encode()),
            Put(counters.key, json.dumps({"devices": devices}).encode(), counters.mod_revision),
        ]
    )
    repair = await found_by(client)
    assert [f.text for f in repair.findings()] == [
        "device d.example.com/p/gpu-7 is booked for claim default/ghost, which does not have it"
    ]
    assert await repair.repair() == 1
    assert await stored(client) == right


async def test_a_claim_of_the_same_name_is_another_claim():
    client = await cluster_with_a_partition()
    right, store = await stored(client), client._api.store
    entry = await store.get(DEVICE)
    wrong = {**right[DEVICE], "claims": {"default/a": {"uid": "of the one before"}}}
    await store.update(DEVICE, json.dumps(wrong).encode(), expected=entry.mod_revision)
    await (await found_by(client)).repair()
    assert await stored(client) == right


async def test_counters_that_do_not_match_the_devices_and_damaged_records_are_put_right():
    client = await cluster_with_a_partition()
    right, store = await stored(client), client._api.store
    counters = await store.get(COUNTERS + "d.example.com/p/gpu")
    await store.update(counters.key, b'{"devices":{}}', expected=counters.mod_revision)
    await store.create(DEVICES + "d.example.com/p/gpu-9", b"not a record")
    repair = await found_by(client)
    assert await repair.repair() == 2
    assert await stored(client) == right


async def test_repairs_of_a_large_counter_set_fit_into_transactions_of_etcd():
    client = await cluster_with_a_partition()
    right, store = await stored(client), client._api.store
    counters = await store.get(COUNTERS + "d.example.com/p/gpu")
    gone = {f"gone-{i}": {"memory": "1Ki"} for i in range(300)}
    devices = json.loads(counters.value)["devices"] | gone
    await store.update(
        counters.key, json.dumps({"devices": devices}).encode(), expected=counters.mod_revision
    )
    repair = await found_by(client)
    (finding,) = repair.findings()
    assert len(finding.operations) <= 128
    assert await repair.repair() == 3
    assert await stored(client) == right


async def test_a_device_that_two_claims_have_is_reported_and_left_alone(caplog):
    client = await claims("a", "b")
    await give(client, "a", "gpu-0")
    await give(client, "b", "gpu-1")
    store = client._api.store
    key = "/registry/resourceclaims/default/b"
    claim = await store.get(key)
    await store.update(key, claim.value.replace(b"gpu-1", b"gpu-0"), expected=claim.mod_revision)
    await (await found_by(client)).repair()
    assert "claim default/b: device d.example.com/p/gpu-0 is allocated to claim default/a" in caplog.text
    assert list(await stored(client)) == [DEVICE], "the device that b no longer has is free"


async def test_claims_that_others_write_on_a_shared_store_are_booked_soon(monkeypatch):
    monkeypatch.setattr(repair_module, "SETTLE", 0.001)
    client = await claims("a", "b")
    store = client._api.store
    monkeypatch.setattr(type(store), "shared", property(lambda self: True))
    await give(client, "a", "gpu-0")
    entry, claim = await store.get(DEVICE), await store.get("/registry/resourceclaims/default/a")
    running = asyncio.create_task((await found_by(client)).run())
    await asyncio.sleep(0)
    # As a kube-apiserver does it: the claim alone.
    await store.delete("/registry/resourceclaims/default/a", expected=claim.mod_revision)
    await wait_for("the stray record to go", lambda: _gone(store))
    await store.create("/registry/resourceclaims/default/a", claim.value)
    assert json.loads((await wait_for("the record to come", lambda: store.get(DEVICE))).value) == json.loads(
        entry.value
    )
    running.cancel()


async def _gone(store: Any) -> bool:
    return await store.get(DEVICE) is None
