"""On a terminal the tools show colours and progress; into a pipe they write plain text."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from dray.explain.model import snapshot
from tests.support.explain import claim, cluster, device, device_class, node, pod, slice_
from tests.support.paths import DRAY


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough nodes for a progress bar."""
    nodes = [d for i in range(1000) for d in (node(f"n{i}"), slice_(f"n{i}", device("a")))]
    found = cluster(*nodes, device_class(), claim("c", count=2), pod("p", "c"))
    path = tmp_path_factory.mktemp("world") / "cluster.json"
    snapshot.save(found.snapshot, path)
    return path


def on_terminal(*arguments: str, stream: str) -> tuple[str, str]:
    """What is written to the terminal, which is one of the streams, and what to the other, which is a pipe."""
    leader, follower = pty.openpty()
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: follower}
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"}
    process = subprocess.Popen([DRAY, *arguments], **streams, env=environment)  # type: ignore[call-overload]
    os.close(follower)
    shown = b""
    try:
        while piece := os.read(leader, 65536):
            shown += piece
    except OSError:  # the other side is closed
        pass
    os.close(leader)
    piped = b"".join(process.communicate(timeout=60)[i] or b"" for i in range(2))
    return shown.decode(), piped.decode()


def test_progress_is_shown_on_the_terminal_and_the_answer_stays_plain(world: Path) -> None:
    shown, piped = on_terminal("explain", "pod", "p", "--snapshot", str(world), stream="stderr")
    assert "asking nodes" in shown
    assert "\x1b" not in piped
    assert piped.startswith(
        "pod default/p is pending: request r of claim default/c wants 2 devices on one node"
    )


def test_answer_is_coloured_on_the_terminal_only(world: Path) -> None:
    shown, piped = on_terminal("devices", "--snapshot", str(world), "--node", "n1", stream="stdout")
    assert "\x1b[32mfree" in shown
    assert piped == ""


def test_the_prompt_of_cel_completes_words_and_keeps_a_history(tmp_path: Path) -> None:
    found = cluster(node("n"), slice_("n", device("a", model="x"), device("b", model="y")), device_class())
    snapshot.save(found.snapshot, tmp_path / "cluster.json")
    leader, follower = pty.openpty()
    environment = {**os.environ, "DRAY_DATA": str(tmp_path / "data"), "TERM": "dumb", "NO_COLOR": "1"}
    command = [DRAY, "cel", "--snapshot", str(tmp_path / "cluster.json")]
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    shown = ""

    def read_until(words: str) -> None:
        nonlocal shown
        while words not in shown:
            shown += os.read(leader, 65536).decode()

    read_until("cel> ")
    os.write(leader, b'device.attributes["gpu.example.com"].mo\t== "x"\n')
    read_until("1 of 2 devices match")
    os.write(leader, b"\n")
    assert process.wait(30) == 0
    os.close(leader)
    history = (tmp_path / "data" / "cel-history").read_text()
    assert history.strip() == 'device.attributes["gpu.example.com"].model== "x"'
