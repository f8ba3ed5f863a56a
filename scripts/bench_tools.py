"""How long ``dray explain`` and ``dray devices`` take over a large cluster, from typing the command to its last line.

Every kind of puzzle has its own way to be slow: what a selector removes is soon said, what single devices allow but
not several together has to be searched for on every node.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

DRAY = Path(sys.executable).parent / "dray"
DRIVER = "gpu.example.com"
Doc = dict[str, Any]


def device(node: int, number: int) -> Doc:
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "model": {"string": ("A100", "H100", "L4")[node % 3]},
            "uuid": {"string": f"GPU-{node:05}-{number}"},
            "index": {"int": number},
            "driverVersion": {"version": "1.2.3"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number // 2:02}"},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    }


def partitioned(number: int) -> Doc:
    """A partition of one of two cards."""
    return {
        **device(0, number),
        "consumesCounters": [
            {"counterSet": f"card-{number // 4}", "counters": {"memory": {"value": "40Gi"}}}
        ],
    }


def cluster(nodes: int, devices: int, kind: str) -> list[Doc]:
    made: list[Doc] = []
    taken: Sequence[int]
    for n in range(nodes):
        name = f"node-{n:05}"
        pool: Doc = {"name": name, "generation": 1, "resourceSliceCount": 1}
        offered = [device(n, d) for d in range(devices)]
        spec: Doc = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": offered}
        if kind == "counters":
            pool["resourceSliceCount"] = 2
            spec["devices"] = [partitioned(d) for d in range(devices)]
            counters = [
                {"name": f"card-{card}", "counters": {"memory": {"value": "80Gi"}}}
                for card in range(devices // 4)
            ]
            shared = {"driver": DRIVER, "nodeName": name, "pool": pool, "sharedCounters": counters}
            made.append({"kind": "ResourceSlice", "metadata": {"name": f"{name}-counters"}, "spec": shared})
        elif kind == "taints":
            for one in offered:
                one["taints"] = [{"key": "example.com/hot", "effect": "NoSchedule"}]
        elif kind == "incomplete":
            pool["resourceSliceCount"] = 2
        elif kind == "error":
            del offered[1]["attributes"]["model"]
        made.append({"kind": "ResourceSlice", "metadata": {"name": f"{name}-slice"}, "spec": spec})
        allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110"}
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{n % 3}"}
        made.append(
            {
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "status": {"allocatable": allocatable},
            }
        )
        cpu = "63500m" if kind == "cpu" else "8"
        made.append(pod(f"busy-{n}", name=name, cpu=cpu))
        match kind:
            case "taken":
                taken = range(devices)
            case "mixed":  # any of a node's devices, so that few nodes are alike
                taken = [d for d in range(devices) if (n * 2654435761 >> d + 8) & 1]
            case _:
                taken = range(1)
        made += [taken_claim(n, d) for d in taken]
    return made


def taken_claim(node: int, number: int) -> Doc:
    result = {"request": "gpu", "driver": DRIVER, "pool": f"node-{node:05}", "device": f"gpu-{number}"}
    request = {
        "name": "gpu",
        "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
    }
    return {
        "kind": "ResourceClaim",
        "metadata": {
            "name": f"busy-{node}-{number}",
            "namespace": "default",
            "uid": f"claim-{node}-{number}",
        },
        "spec": {"devices": {"requests": [request]}},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": f"busy-{node}", "uid": f"uid-busy-{node}"}],
        },
    }


def pod(pod_name: str, *, name: str = "", cpu: str = "1", claim: str = "", **more: Any) -> Doc:
    spec: Doc = {
        "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}],
        **more,
    }
    if name:
        spec["nodeName"] = name
    if claim:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    return {
        "kind": "Pod",
        "metadata": {
            "name": pod_name, "namespace": "default", "uid": f"uid-{pod_name}", "labels": {"app": pod_name[:4]},
        },
        "spec": spec,
        "status": {"phase": "Running" if name else "Pending"},
    }  # fmt: skip


def wish(*selectors: str, count: int = 1) -> Doc:
    return {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": one}} for one in selectors],
    }


_MODEL = f'device.attributes["{DRIVER}"].model'
_ROOT = "resource.kubernetes.io/pcieRoot"
#: puzzle → what its claim asks for, what is special about its pod, and the constraints of the claim
PUZZLES: dict[str, tuple[Doc, Doc, list[Doc]]] = {
    "fits": (wish(), {}, []),
    "selector": (wish(f'{_MODEL} == "H200"'), {}, []),
    "error": (wish(f'{_MODEL} == "A100"'), {}, []),
    "taints": (wish(), {}, []),
    "taken": (wish(), {}, []),
    "constraint": (wish(count=4), {}, [{"matchAttribute": _ROOT}]),
    "mixed": (wish(count=4), {}, [{"matchAttribute": _ROOT}]),
    "counters": (wish(count=6), {}, []),
    "incomplete": (wish(), {}, []),
    "cpu": (wish(), {}, []),
    "count": (wish(count=9), {}, []),
    "affinity": (
        wish(),
        {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "busy"}}}
                    ]
                }
            }
        },
        [],
    ),
}  # fmt: skip


def snapshot(kind: str, nodes: int, devices: int, path: Path) -> None:
    request, more, constraints = PUZZLES[kind]
    wanted: Doc = {"requests": [{"name": "gpu", "exactly": request}], "constraints": constraints}
    documents = cluster(nodes, devices, kind)
    documents.append(
        {
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
        }
    )
    documents.append(
        {
            "kind": "ResourceClaim",
            "metadata": {"name": "train", "namespace": "default", "uid": "claim-train"},
            "spec": {"devices": wanted},
        }
    )
    documents.append(pod("train", cpu="2", claim="train", **more))
    from dray.explain import Snapshot
    from dray.explain.model.snapshot import save

    save(Snapshot(release="1.36").with_objects(documents), path)


def timed(*arguments: str) -> tuple[float, float, int]:
    """Seconds by the clock on the wall and of the processor, and the exit code."""
    before, began = _work(), time.perf_counter()
    done = subprocess.run([DRAY, *arguments], stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - began, _work() - before, done.returncode


def _work() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--puzzle", choices=PUZZLES, action="append", help="only these")
    parser.add_argument("--keep", type=Path, help="a folder for the snapshots, which are used again")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dray-bench-") as folder:
        kept = args.keep or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        print(f"  {f'{args.nodes} nodes x {args.devices} devices':38} {'seconds':>12} {'of work':>12}")
        for kind in args.puzzle or PUZZLES:
            path = kept / f"{kind}-{args.nodes}.json"
            if not path.exists():
                snapshot(kind, args.nodes, args.devices, path)
            show(f"explain, {kind}", path, "explain", "pod", "train", code=0 if kind == "fits" else 3)
            if kind in ("taken", "counters"):
                show(f"devices, {kind}", path, "devices")
                show(f"devices by class, {kind}", path, "devices", "--by", "class")


def show(what: str, path: Path, *arguments: str, code: int = 0) -> None:
    seconds, work, found = timed(*arguments, "--snapshot", str(path))
    if found != code:
        raise SystemExit(f"{what}: exit code {found}")
    print(f"  {what:38} {seconds:12,.2f} {work:12,.2f}", flush=True)


if __name__ == "__main__":
    main()
