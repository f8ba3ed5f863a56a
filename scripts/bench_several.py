"""Pods with claims on a three-member etcd: through one API server, and through three that share the work.

Scheduler, controllers and API servers are processes of their own, as on several machines; here they share the cores of one,
so that the figures show what the processes cost each other, not what more machines bring.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DRAY = Path(sys.executable).parent / "dray"
TOKEN = "bench-token"
sys.path.insert(0, str(ROOT))

from tests.support.etcd import Etcd  # noqa: E402


@contextlib.contextmanager
def etcd_members(folder: Path) -> Iterator[str]:
    """Three members; what ``--store`` takes."""
    binary = shutil.which("etcd", path=f"{ROOT / '.tools' / 'bin'}:/usr/bin")
    if binary is None:
        raise SystemExit("there is no etcd: make tools")
    members = [Etcd(binary, folder, name=name) for name in ("one", "two", "three")]
    try:
        for member in members:
            member.launch(*(other for other in members if other is not member))
        for member in members:
            member.wait()
        yield "etcd://" + ",".join(member.endpoint for member in members)
    finally:
        for member in members:
            member.stop()


@contextlib.contextmanager
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    running: list[subprocess.Popen[bytes]] = []
    try:
        yield running
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(20)


def start(running: list[subprocess.Popen[bytes]], log: Path, *command: object) -> None:
    with log.open("ab") as output:
        line = [str(DRAY), *map(str, command)]
        running.append(subprocess.Popen(line, stdout=output, stderr=subprocess.STDOUT))


def pods_per_second(servers: int, script: Path, size: Sequence[str]) -> float:
    with (
        tempfile.TemporaryDirectory(prefix="dray-bench-") as name,
        etcd_members(Path(name)) as store,
        processes() as running,
    ):
        folder = Path(name)
        urls, configs = [], []
        for number in range(servers):
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                address = f"127.0.0.1:{s.getsockname()[1]}"
            config = folder / f"kubeconfig-{number}"
            start(
                running, folder / "log", "server", "--listen", address, "--data", folder / f"data-{number}",
                "--store", store, "--kubeconfig", config, "--admin-token", TOKEN,
                "--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition",
            )  # fmt: skip
            urls.append(f"https://{address}")
            configs.append(config)
            wait_ready(urls[-1])
        start(running, folder / "log", "scheduler", "--kubeconfig", configs[-1])
        start(running, folder / "log", "controllers", "--kubeconfig", configs[len(configs) // 2])
        done = subprocess.run(
            [sys.executable, str(script), "--server", urls[0], "--token", TOKEN, *size],
            capture_output=True, text=True, check=False, timeout=900,
        )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(f"{script.name}: {done.stderr.strip()[-500:]}")
        found: float = json.loads(done.stdout.strip().splitlines()[-1])["measure_pods_per_s"]
        return found


def wait_ready(url: str) -> None:
    context = ssl._create_unverified_context()
    for _ in range(1500):
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"{url}/readyz", context=context, timeout=2),
        ):
            return
        time.sleep(0.02)
    raise SystemExit("dray did not start")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared", help="where bench/*.py are")
    parser.add_argument("--nodes", default="500")
    parser.add_argument("--pods", default="500")
    args = parser.parse_args()
    size = ("--nodes", args.nodes, "--devices", "10", "--init", "200", "--pods", args.pods)
    for servers in (1, 3):
        found = pods_per_second(servers, args.data / "bench" / "throughput.py", size)
        what = f"three-member etcd, {servers} API server{'s' if servers > 1 else ''}"
        print(f"  {what:38} {found:12,.1f} pods_per_s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
