"""How fast devices are allocated when nothing but allocation is done.

Fills a cluster with one-device claims, at two sizes: the time per allocation must not grow with the cluster.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time
from collections import OrderedDict, defaultdict
from typing import Any

from dray.allocation import Features, Inventory, Plan, Usage, allocate
from dray.allocation.requests import demand_key
from dray.api.release import V1_36

DRIVER = "gpu.example.com"
FEATURES = Features.named(
    V1_36,
    [
        "DRAAdminAccess",
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus",
        "DRADeviceTaints",
        "DRAPartitionableDevices",
        "DRAPrioritizedList",
    ],
)


def a_slice(node: str, devices: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{node}-{DRIVER}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{index}",
                    "attributes": {
                        "index": {"int": index},
                        "uuid": {"string": f"{node}-{index}"},
                        "model": {"string": "LATEST-GPU-MODEL"},
                        "driverVersion": {"version": "1.0.0"},
                    },
                    "capacity": {"memory": {"value": "80Gi"}},
                }
                for index in range(devices)
            ],
        },
    }


def a_claim(number: int) -> dict[str, Any]:
    selector = f'device.attributes["{DRIVER}"].model.startsWith("LATEST") && device.driver == "{DRIVER}"'
    request = {
        "name": "gpu",
        "exactly": {
            "deviceClassName": DRIVER,
            "allocationMode": "ExactCount",
            "count": 1,
            "selectors": [{"cel": {"expression": selector}}],
        },
    }
    return {
        "metadata": {"name": f"claim-{number}", "namespace": "default", "uid": str(number)},
        "spec": {"devices": {"requests": [request]}},
    }


def fill(nodes: int, devices: int) -> float:
    """Allocations per second until the cluster is full."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    inventory = Inventory(classes=[{"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}])
    documents = {
        f"node-{i}": {"metadata": {"name": f"node-{i}", "labels": {"zone": str(i % 3)}}} for i in range(nodes)
    }
    for node in documents:
        inventory.add_slice(a_slice(node, devices))
    usage = Usage()
    # For each demand, the nodes that have not failed for it: taking devices never makes room.
    feasible: defaultdict[bytes, OrderedDict[str, None]] = defaultdict(
        lambda: OrderedDict.fromkeys(documents)
    )
    claims = [a_claim(number) for number in range(nodes * devices)]
    share_ids = map(str, itertools.count())
    started = time.perf_counter()
    for claim in claims:
        candidates = feasible[demand_key(claim)]
        while (node := next(iter(candidates), None)) is not None:
            outcome = allocate(
                inventory, usage, documents[node], [claim], features=FEATURES, new_share_id=share_ids.__next__
            )
            if isinstance(outcome, Plan):
                usage.add(claim, outcome.results[0])
                break
            del candidates[node]
        else:
            raise SystemExit("the cluster is full too early")
    return len(claims) / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3, help="the best of so many runs counts")
    options = parser.parse_args()
    small = max(fill(max(options.nodes // 10, 1), options.devices) for _ in range(options.repeat))
    large = max(fill(options.nodes, options.devices) for _ in range(options.repeat))
    print(f"allocations/s, {options.nodes // 10:>6} nodes x {options.devices} devices  {small:>10,.0f}")
    print(f"allocations/s, {options.nodes:>6} nodes x {options.devices} devices  {large:>10,.0f}")
    print(f"time per allocation, large to small cluster  {small / large:>10.2f}")
    print(f"resident memory, MB  {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:>10.0f}")


if __name__ == "__main__":
    main()
