"""Measures the simulator: the published experiment, the cost of a pod as the cluster grows, and pods that come and go.

Each measurement runs in a process of its own, on one core.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from dray.simulate import (
    Cluster,
    Experiment,
    Generator,
    NodeGroups,
    NodeList,
    Options,
    PodList,
    simulate,
    summarize,
)


def alone(work: Callable[..., Any], *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        return executor.submit(work, *arguments).result()


def experiment(nodes: Path, pods: Path, policy: str) -> tuple[float, int]:
    gc.disable()
    began = time.perf_counter()
    figures = Experiment(nodes, pods, policy, 42).run()
    return time.perf_counter() - began, figures.pods


def copies(nodes: Path, pods: Path, policy: str, times: int) -> float:
    """Microseconds for each pod, on a cluster so many times as large."""
    gc.disable()
    one = NodeList(nodes).cluster()
    cluster = Cluster(
        nodes=[_renamed(node, number) for number in range(times) for node in one.nodes],
        slices=[_moved(slice_, number) for number in range(times) for slice_ in one.slices],
        classes=one.classes,
    )
    listed = PodList(pods)
    began = time.process_time()
    result = Experiment(nodes, pods, policy, 42).simulate(cluster, listed, units=6_212_000)
    return (time.process_time() - began) / len(result.pods) * 1e6


def _renamed(node: Any, number: int) -> Any:
    name = f"{node['metadata']['name']}-{number}"
    return {**node, "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}


def _moved(slice_: Any, number: int) -> Any:
    spec = slice_["spec"]
    name = f"{spec['nodeName']}-{number}"
    return {
        **slice_,
        "metadata": {"name": f"{name}-gpu"},
        "spec": {**spec, "nodeName": name, "pool": {**spec["pool"], "name": name}},
    }


def churn(nodes: int, pods: int) -> tuple[float, float, Any]:
    """Pods that come and go on nodes with eight devices, about nine tenths of which are in use."""
    gc.freeze()
    gc.disable()
    slices = [{"driver": "gpu.example.com", "count": 8, "device": {"attributes": {"model": {"string": "A"}}}}]
    group = {"name": "n", "count": nodes, "allocatable": {"cpu": "96", "memory": "768Gi"}, "slices": slices}
    classes = [{"metadata": {"name": "gpu"}, "spec": {}}]
    cluster = NodeGroups.parse({"groups": [group], "classes": classes}).cluster()
    hour = {"distribution": "exponential", "mean": 3600}
    mix = [
        {"weight": 6, "cpu": "8", "memory": "32Gi", "count": 1, "deviceClass": "gpu", "duration": hour},
        {"weight": 3, "cpu": "16", "memory": "64Gi", "count": 2, "deviceClass": "gpu", "duration": hour},
        {"weight": 1, "cpu": "64", "memory": "256Gi", "count": 8, "deviceClass": "gpu", "duration": hour},
    ]
    rate = 0.9 * nodes * 8 / 2.0 / 3600  # two devices for each pod, on average
    workload = Generator.parse({"pods": pods, "arrivals": {"rate": rate}, "mix": mix})
    options = Options(policy="bestfit", seed=1, sample_every=60)
    began = time.perf_counter()
    result = simulate(cluster, workload.events(1), options)
    seconds = time.perf_counter() - began
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, summarize(result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="folder with the openb lists")
    parser.add_argument("--nodes", type=int, default=12_500)
    parser.add_argument("--pods", type=int, default=200_000)
    args = parser.parse_args()
    nodes = args.traces / "openb_node_list_gpu_node.csv.gz"
    pods = args.traces / "openb_pod_list_default.csv.gz"
    if nodes.exists():
        for policy in ("default", "bestfit", "fgd"):
            seconds, number = alone(experiment, nodes, pods, policy)
            print(f"  {f'experiment, {policy}':<44} {seconds:8.1f} s   {number / seconds:7,.0f} pods/s")
        for policy in ("default", "bestfit", "fgd"):
            one, ten = (alone(copies, nodes, pods, policy, times) for times in (1, 10))
            print(
                f"  {f'a pod at 1,213 and 12,130 nodes, {policy}':<44} {one:6.0f} µs {ten:6.0f} µs ({ten / one:.2f} times)"
            )
    seconds, megabytes, summary = alone(churn, args.nodes, args.pods)
    print(
        f"  {f'{args.nodes:,} nodes, {args.pods:,} pods come and go':<44} {seconds:8.1f} s   "
        f"{args.pods / seconds:7,.0f} pods/s   {megabytes:,.0f} MB   at most {summary.highest_allocated_percent:.0f} % allocated"
    )


if __name__ == "__main__":
    main()
