"""What a CDI spec says is what a container sees: as a process of the host, and on containerd."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import containerd
from tests.support.paths import ROOT, TOOLS
from tests.support.wait import wait_for_sync

SCRIPT = "echo device $DEVICE; stat -c 'node %F' /dev/dev-3; cat /firmware/version; touch /firmware/x || echo read-only; sleep 1000"


@pytest.fixture(scope="module")
def runc(tool: Callable[[str], str]) -> str:
    for name in ("containerd", "ctr", "busybox", "containerd-shim-runc-v2"):
        tool(name)
    if os.geteuid() != 0:
        pytest.skip("containerd needs root")
    return tool("runc")


@pytest.fixture
def socket(tmp_path: Path, runc: str) -> Iterator[Path]:
    # containerd's own sockets need short paths.
    directory = Path("/tmp") / f"dray-containerd-{os.getpid()}"
    with containerd.run_containerd(directory, cdi=tmp_path / "las1" / "cdi", tools=TOOLS, runc=runc) as path:
        yield path


def see(world: Any, **container: Any) -> None:
    world.start("driver")
    world.start("agent")
    world.pod_with_claim(f"pod-{world.runtime[:3]}", "dev-3", command=["sh", "-c", SCRIPT], **container)
    name = f"pod-{world.runtime[:3]}"
    wait_for_sync(f"pod {name} to run", lambda: world.phase(name) == "Running")

    def log() -> str:
        return "".join(p.read_text() for p in world.directory.glob("logs/*/main/0.log"))

    wait_for_sync("a read-only line in the log", lambda: "read-only" in log())
    text = log()
    assert "device dev-3" in text
    assert "node character special file" in text
    assert "1.2.3" in text
    world.delete(name)
    wait_for_sync(f"pod {name} to go", lambda: world.pod(name) is None)
    assert (world.in_use, world.specs) == ([], [])


def test_a_process_of_the_host_sees_its_device(make_node: Callable[..., Any]) -> None:
    see(make_node("las1"))


def test_a_container_on_containerd_sees_its_device(make_node: Callable[..., Any], socket: Path) -> None:
    world = make_node("las1", runtime=f"cri:{socket}")
    see(world, image=containerd.IMAGE, imagePullPolicy="Never")


def test_containerd_passes_the_suite_of_all_runtimes(socket: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-k", "cri", str(ROOT / "tests/integration/runtimes")],
        env={**os.environ, "DRAY_TEST_CRI": f"{socket},{containerd.IMAGE}"},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout or "100%" in done.stdout
