"""Worlds built in advance: they are used, they are thrown away when out of date, and they hold nobody up."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.runtimes.process import isolation
from dray.runtimes.process.children import Child, Spawner
from dray.runtimes.process.protocol import Mount


@pytest.fixture
def spawner(tmp_path: Path) -> Iterator[Spawner]:
    found = Spawner(str(tmp_path / "scratch"), ("root",))
    if found.mode != "root":
        pytest.skip("worlds are built in advance only where containers are kept apart as root")
    yield found
    found.discard_spare()


def config(*argv: str, **changes: Any) -> dict[str, Any]:
    defaults = {
        "id": "one", "argv": list(argv), "env": {"PATH": os.defpath}, "tty": False, "mounts": [], "devices": [],
        "hooks": [], "hostname": "spare", "read_only_root": False, "no_new_privileges": False, "user": None,
        "group": None, "groups": [], "working_dir": "",
        "privileged": False, "dropped_capabilities": [], "target": "", "seccomp": False, "first_user": 0,
    }  # fmt: skip
    return {**defaults, **changes}


def play(spawner: Spawner, wanted: dict[str, Any]) -> tuple[Child, bytes, bytes]:
    """The child, what it told on its way, and what it printed."""
    news, output = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    child = spawner.spawn(wanted, (-1, output[1], output[1]), news[1])
    os.close(news[1])
    os.close(output[1])
    with os.fdopen(news[0], "rb") as told, os.fdopen(output[0], "rb") as printed:
        result = told.read(), printed.read()
    child.reap()
    return child, *result


def test_a_spare_becomes_the_next_container(spawner: Spawner) -> None:
    spawner.prepare_spare()
    spare = spawner._spare
    assert spare is not None
    child, told, printed = play(spawner, config("sh", "-c", "hostname; echo $$"))
    assert child.pid == spare.pid
    assert (told, printed, child.exit_code) == (b"", b"spare\n1\n", 0)


def test_a_spare_sees_what_was_written_after_it_was_built(spawner: Spawner, tmp_path: Path) -> None:
    spawner.prepare_spare()
    (tmp_path / "late").write_text("here")
    mounts = [
        Mount(
            source=str(tmp_path),
            sub_path="",
            target="/mnt/late",
            read_only=True,
            kind="",
            options=[],
            of_pod=True,
        )
    ]
    _, _, printed = play(spawner, config("cat", "/mnt/late/late", str(tmp_path / "late"), mounts=mounts))
    assert printed == b"herehere"


def test_a_spare_that_is_out_of_date_is_not_used(spawner: Spawner, monkeypatch: pytest.MonkeyPatch) -> None:
    spawner.prepare_spare()
    spare = spawner._spare
    assert spare is not None
    known = isolation.fingerprint()
    monkeypatch.setattr(isolation, "fingerprint", lambda: (known, "another mount"))
    child, _, _ = play(spawner, config("true"))
    assert child.pid != spare.pid
    spawner.prepare_spare()
    assert spawner._spare is not None and spawner._spare.pid != spare.pid


def test_a_container_starts_without_a_spare_that_died(spawner: Spawner) -> None:
    spawner.prepare_spare()
    assert spawner._spare is not None
    os.kill(spawner._spare.pid, signal.SIGKILL)
    os.waitid(os.P_PID, spawner._spare.pid, os.WEXITED | os.WNOWAIT)
    _, told, printed = play(spawner, config("echo", "fine"))
    assert (told, printed) == (b"", b"fine\n")


def test_a_spare_keeps_no_pipe_of_other_containers_open(spawner: Spawner) -> None:
    read, write = os.pipe2(os.O_CLOEXEC)
    spawner.prepare_spare()
    play(spawner, config("true"))  # whoever is forked from here on may hold it, a spare that waits must not
    spawner.prepare_spare()
    os.close(write)
    os.set_blocking(read, True)
    with os.fdopen(read, "rb") as end:
        assert end.read() == b""


def test_a_spare_says_why_it_could_not_become_a_container(spawner: Spawner) -> None:
    spawner.prepare_spare()
    child, told, _ = play(spawner, config("no-such-program"))
    assert b"executable file not found" in told
    assert child.exit_code == 128
