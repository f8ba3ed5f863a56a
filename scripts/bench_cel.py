"""How fast device selectors compile and run. ``python scripts/bench_cel.py``"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from dray.cel.environment import devices

SELECTOR = (
    'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == "A100" && '
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'
)
GPU = {"attributes": {"model": {"string": "A100"}}, "capacity": {"memory": {"value": "80Gi"}}}


def rate(run: Callable[[], object], times: int) -> float:
    """Runs a second, the best of five."""
    best = 0.0
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(times):
            run()
        best = max(best, times / (time.perf_counter() - start))
    return best


def compile_milliseconds() -> float:
    spent = []
    for i in range(300):
        text = SELECTOR.replace("A100", f"A{i}")
        start = time.perf_counter()
        devices.compile(text)
        spent.append(time.perf_counter() - start)
    return median(spent) * 1000


def main() -> None:
    selector = devices.compile(SELECTOR)
    device = devices.Device.of("gpu.example.com", GPU)
    assert selector.matches(device)
    matches = selector.matches
    print(f"compile, median                {compile_milliseconds():8.2f} ms")
    print(f"an empty call, for comparison  {rate(lambda: None, 1_000_000) / 1e6:8.2f} M/s")
    print(f"match, compiled                {rate(lambda: matches(device), 300_000) / 1e6:8.2f} M/s")
    print(f"match, exact and counted       {rate(lambda: selector.outcome(device), 20_000) / 1e3:8.0f} k/s")
    fresh = rate(lambda: matches(devices.Device.of("gpu.example.com", GPU)), 50_000)
    print(f"match, device seen first       {fresh / 1e3:8.0f} k/s")


if __name__ == "__main__":
    main()
