"""The pretend GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.driver import Health
from dray.driver.model import Claim
from dray.drivers.gpu import CONFIG_API, GpuDriver, GpuOptions, InvalidConfig, gpu_uuid, read_health, sharing


def config(**sharing: Any) -> dict[str, Any]:
    return {"apiVersion": CONFIG_API, "kind": "GpuConfig", "sharing": sharing}


def claim(*devices: str, **result: Any) -> Claim:
    results = [
        {"request": "r", "driver": "gpu.example.com", "pool": "n", "device": d, **result} for d in devices
    ]
    document = {
        "metadata": {"namespace": "ns", "name": "c", "uid": "u"},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    return Claim.of(document, "gpu.example.com")


def test_a_node_has_eight_gpus_with_the_documented_attributes() -> None:
    [slice_] = GpuDriver().pools("las1")["las1"].slices
    documents = [d.document() for d in slice_.devices]
    assert len(documents) == 8
    assert documents[0] == {
        "name": "gpu-0",
        "attributes": {
            "driverVersion": {"version": "1.0.0"},
            "index": {"int": 0},
            "model": {"string": "LATEST-GPU-MODEL"},
            "uuid": {"string": gpu_uuid("las1", 0)},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    }


def test_uuids_are_stable_and_differ_between_cards_and_nodes() -> None:
    assert gpu_uuid("las1", 0) == gpu_uuid("las1", 0)
    assert len({gpu_uuid(n, i) for n in ("las1", "las2") for i in range(8)}) == 16


def test_partitions_consume_what_the_whole_card_does() -> None:
    pool = GpuDriver(GpuOptions(count=2, partitions=4)).pools("n")["n"]
    counters, devices = pool.slices
    assert [c.name for c in counters.counters] == ["gpu-0-counters", "gpu-1-counters"]
    taken = {d.name: d.consumes[0].values["memory"] for d in devices.devices if d.name.startswith("gpu-1")}
    assert taken == {**{f"gpu-1-partition-{i}": "20Gi" for i in range(4)}, "gpu-1-full": "80Gi"}


def test_shared_cards_are_given_out_by_the_gigabyte() -> None:
    [slice_] = GpuDriver(GpuOptions(shared=True)).pools("n")["n"].slices
    card = slice_.devices[0].document()
    assert card["allowMultipleAllocations"] is True
    assert card["capacity"]["memory"]["requestPolicy"]["validRange"] == {
        "min": "1Gi",
        "max": "80Gi",
        "step": "1Gi",
    }


def test_containers_see_their_cards_and_how_they_are_shared() -> None:
    driver, asked = GpuDriver(), claim("gpu-3")
    assert driver.edits(asked, asked.devices[0]).env == {
        "GPU_DEVICE_3": "gpu-3",
        "GPU_DEVICE_3_RESOURCE_CLAIM": "u",
        "GPU_DEVICE_3_SHARING_STRATEGY": "TimeSlicing",
        "GPU_DEVICE_3_TIMESLICE_INTERVAL": "Default",
        "DRA_ADMIN_ACCESS": "false",
    }


def test_names_of_partitions_make_good_variables_and_memory_is_told() -> None:
    driver, asked = GpuDriver(), claim("gpu-0-partition-1", consumedCapacity={"memory": "4Gi"})
    env = driver.edits(asked, asked.devices[0]).env
    assert env["GPU_DEVICE_0_PARTITION_1"] == "gpu-0-partition-1"
    assert env["GPU_DEVICE_0_PARTITION_1_MEMORY"] == "4Gi"


@pytest.mark.parametrize(
    ("given", "variables"),
    [
        ([], {"SHARING_STRATEGY": "TimeSlicing", "TIMESLICE_INTERVAL": "Default"}),
        (
            [config(strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"})],
            {"SHARING_STRATEGY": "TimeSlicing", "TIMESLICE_INTERVAL": "Long"},
        ),
        (
            [
                config(strategy="TimeSlicing"),
                config(strategy="SpacePartitioning", spacePartitioningConfig={"partitionCount": 10}),
            ],
            {"SHARING_STRATEGY": "SpacePartitioning", "PARTITION_COUNT": "10"},
        ),
        (
            [config(strategy="SpacePartitioning")],
            {"SHARING_STRATEGY": "SpacePartitioning", "PARTITION_COUNT": "1"},
        ),
    ],
)
def test_the_last_configuration_decides_about_sharing(given: list[Any], variables: dict[str, str]) -> None:
    assert sharing(given) == variables


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"apiVersion": "v1", "kind": "X"}, "expected gpu.resource.example.com/v1alpha1 GpuConfig"),
        (config(strategy="Magic"), "unknown GPU sharing strategy: Magic"),
        (
            config(strategy="TimeSlicing", timeSlicingConfig={"interval": "Eternal"}),
            "unknown time-slice interval",
        ),
        (config(strategy="TimeSlicing", spacePartitioningConfig={}), "cannot use SpacePartitioningConfig"),
        (
            config(strategy="SpacePartitioning", spacePartitioningConfig={"partitionCount": -1}),
            "invalid partition count",
        ),
    ],
)
def test_configurations_it_does_not_understand_are_refused(given: Any, problem: str) -> None:
    with pytest.raises(InvalidConfig, match=problem):
        sharing([given])


def test_a_gpu_has_the_health_that_its_file_says(tmp_path: Path) -> None:
    assert read_health(tmp_path / "gpu-0") == (Health.HEALTHY, "")
    (tmp_path / "gpu-0").write_text("too hot\n")
    assert read_health(tmp_path / "gpu-0") == (Health.UNHEALTHY, "too hot")
    (tmp_path / "gpu-0").write_text("unknown: no sensor")
    assert read_health(tmp_path / "gpu-0") == (Health.UNKNOWN, "unknown: no sensor")
