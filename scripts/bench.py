"""Measures the hot paths and prints the figures, each beside what upstream Kubernetes 1.36 did on two such cores.

Machines are noisy: read the ratios of one run, not the absolute numbers of several.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DRAY = Path(sys.executable).parent / "dray"
TOKEN = "bench-token"

#: etcd, kube-apiserver, kube-scheduler and kube-controller-manager 1.36.4 on two cores
UPSTREAM = {
    "create_per_s": 666,
    "get_per_s": 2219,
    "list_objects_per_s": 46_000,
    "patch_per_s": 532,
    "delete_per_s": 538,
    "watch_events_per_s": 6660,
    "pods_per_s": 45,
    "ready_s": 3.4,
    "resident_mb": 1180,
}


@contextlib.contextmanager
def running(*command: str, program: Sequence[object] = (DRAY,)) -> Iterator[tuple[str, int, float]]:
    """dray, freshly started: where it listens, its process id, and how long it took."""
    with tempfile.TemporaryDirectory(prefix="dray-bench-") as data:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            url = f"https://127.0.0.1:{s.getsockname()[1]}"
        line = [*map(str, program), *command, "--listen", url[8:], "--data", data, "--admin-token", TOKEN]
        began = time.monotonic()
        with (Path(data) / "log").open("wb") as log:
            process = subprocess.Popen(line, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_ready(url, process)
            yield url, process.pid, time.monotonic() - began
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            if process.poll() is None:
                process.kill()


def wait_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    request = urllib.request.Request(f"{url}/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
    context = ssl._create_unverified_context()
    for _ in range(6000):
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), urllib.request.urlopen(request, context=context, timeout=2):
            return
        time.sleep(0.02)
    raise SystemExit("dray did not start")


def resident_mb(pid: int) -> float:
    """The resident memory of a process and everything it started."""
    total = 0
    children: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                stat = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                children.setdefault(int(stat[1]), []).append(int(folder.name))
                sizes[int(folder.name)] = int((folder / "statm").read_text().split()[1]) * os.sysconf(
                    "SC_PAGE_SIZE"
                )
    todo = [pid]
    while todo:
        one = todo.pop()
        total += sizes.get(one, 0)
        todo += children.get(one, [])
    return total / 1e6


def load(script: Path, url: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(script), "--server", url, "--token", TOKEN, *arguments],
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{script.name}: {done.stderr.strip()[-500:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def show(what: str, value: float, upstream: float | None = None, *, less_is_better: bool = False) -> None:
    text = f"  {what:38} {value:12,.1f}"
    if upstream:
        ratio = upstream / value if less_is_better else value / upstream
        text += f"   upstream {upstream:10,.1f}   {ratio:6.1f} ×"
    print(text, flush=True)


def api(data: Path) -> None:
    print("API over TLS, durable SQLite")
    with running("server") as (url, pid, took):
        show("ready after start, s", took)
        show("idle, MB", resident_mb(pid))
        figures = load(data / "bench" / "api.py", url, "--objects", "2000")
    for name in (
        "create_per_s",
        "get_per_s",
        "list_objects_per_s",
        "patch_per_s",
        "delete_per_s",
        "watch_events_per_s",
    ):
        show(name, figures[name], UPSTREAM[name])


def cluster(data: Path, nodes: int) -> None:
    print(f"Pods with claims, {nodes} nodes × 10 devices")
    quiet = ("--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition")
    with running("up", "--nodes", "0", *quiet) as (url, pid, took):
        show("ready after start, s", took, UPSTREAM["ready_s"], less_is_better=True)
        script = data / "bench" / "throughput.py"
        figures = load(
            script, url, "--nodes", str(nodes), "--devices", "10", "--init", "1000", "--pods", "1000"
        )
        show("pods_per_s", figures["measure_pods_per_s"], UPSTREAM["pods_per_s"])
        show("resident afterwards, MB", resident_mb(pid), UPSTREAM["resident_mb"], less_is_better=True)


def latency() -> None:
    print(
        "Latency while 500 pods with claims a second are created, 500 nodes; ms at the 50th, 95th, 99th of 100"
    )
    quiet = ("--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition")
    with running("up", "--nodes", "0", *quiet) as (url, _, _):
        figures = load(ROOT / "scripts" / "bench_latency.py", url)
    show("scheduled meanwhile, pods_per_s", figures["pods_per_s"])
    names = {"get": "GET", "list": "LIST of 500", "patch": "PATCH", "watch": "from PATCH to watch event"}
    for name, what in names.items():
        print(f"  {f'{what}, ms':38}" + "".join(f" {value:12,.1f}" for value in figures[name]), flush=True)


def generations() -> None:
    print("Pods with claims of each generation, 10 nodes, 3 × 100 pods")
    quiet = ("--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition")
    with running("up", "--nodes", "0", *quiet) as (url, _, _):
        figures = load(ROOT / "scripts" / "bench_classic.py", url)
    slowest = figures["classic"]
    show("classic negotiation, pods_per_s", slowest)
    for name, what in (("structured", "1.30's structured parameters"), ("today", "today's devices")):
        print(
            f"  {f'{what}, pods_per_s':38} {figures[name]:12,.1f}   {figures[name] / slowest:6.1f} × classic"
        )


def gangs() -> None:
    print("Pods with claims in gangs, 500 nodes × 10 devices, 3 × 512 pods")
    quiet = ("--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition")
    with running("up", "--nodes", "0", *quiet) as (url, pid, _):
        figures = load(ROOT / "scripts" / "bench_gangs.py", url, "--pid", str(pid))
    alone = figures["1"]["processor_ms"]
    for size, what in (("1", "without gangs"), ("8", "gangs of 8"), ("64", "gangs of 64")):
        rate, cost = figures[size]["pods_per_s"], figures[size]["processor_ms"]
        print(
            f"  {f'{what}, pods_per_s':38} {rate:12,.1f}   {cost:6.2f} ms of processor per pod   "
            f"{cost / alone:5.2f} × without gangs"
        )


def booking() -> None:
    print("Device booking on SQLite, processor time per life of a pod with a claim, on and off in turns")
    quiet = ("--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition")
    bench = ROOT / "scripts" / "bench_booking.py"
    with running("up", "--nodes", "0", *quiet, program=(sys.executable, bench, "--serve")) as (url, pid, _):
        figures = load(bench, url, "--pid", str(pid))
    show("without booking, µs", figures["off_us"])
    show("with booking, µs", figures["on_us"])
    cost, error = 100 * figures["share"], 100 * figures["error"]
    print(f"  {'booking costs, % (at most 5)':38} {cost:12.1f} ± {error:.1f}")


def node() -> None:
    print("A pod with a claim on a node: process runtime, a driver over gRPC, one after the other")
    with running("up") as (url, _, _):
        figures = load(ROOT / "scripts" / "bench_node.py", url, "--pods", "50")
    show("bound to Running, ms (median)", figures["bound_to_running_ms"])
    show("bound to Running, ms (95th of 100)", figures["p95_ms"])


def simulated() -> None:
    print("1,000 simulated nodes in one process")
    began = time.monotonic()
    with running("up", "--nodes", "1000", "--runtime", "simulated") as (url, pid, _):
        load(ROOT / "scripts" / "bench_node.py", url, "--ready-nodes", "1000")
        show("all nodes Ready after start, s", time.monotonic() - began)
        show("resident, MB", resident_mb(pid))
        figures = load(ROOT / "scripts" / "bench_node.py", url, "--pods", "1000", "--at-once")
        show("1,000 pods with claims Running, s", figures["all_running_s"])
        show("resident afterwards, MB", resident_mb(pid))


def script(name: str, *arguments: str) -> None:
    print(name.removeprefix("bench_").removesuffix(".py").capitalize(), flush=True)
    subprocess.run([sys.executable, str(ROOT / "scripts" / name), *arguments], check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared", help="where bench/*.py are")
    parser.add_argument(
        "--only",
        choices=[
            "api",
            "auth",
            "booking",
            "cluster",
            "cluster-5000",
            "far-larger",
            "gangs",
            "generations",
            "latency",
            "node",
            "pure",
            "several",
            "simulate",
            "simulated",
            "writes",
        ],
        help="one part only",
    )
    args = parser.parse_args()
    parts = {
        "node": node,
        "simulated": simulated,
        "pure": lambda: [
            script(f"bench_{n}.py") for n in ("cel", "allocation", "validation", "store", "tools")
        ],
        "writes": lambda: script("bench_writes.py"),
        "api": lambda: api(args.data),
        "auth": lambda: script("bench_auth.py"),
        "booking": booking,
        "latency": latency,
        "generations": generations,
        "gangs": gangs,
        "cluster": lambda: cluster(args.data, 500),
        "cluster-5000": lambda: cluster(args.data, 5000),
        "far-larger": lambda: script("bench_large.py"),
        "simulate": lambda: script("bench_simulate.py", "--traces", str(args.data / "traces" / "openb")),
        "several": lambda: script("bench_several.py", "--data", str(args.data)),
    }
    for name, run in parts.items():
        if args.only in (None, name):
            if name in ("api", "cluster", "cluster-5000", "several") and not (args.data / "bench").is_dir():
                print(f"{name}: the load generators are not at {args.data / 'bench'}")
                continue
            run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
