"""Watches a dray process while it is attacked: does it answer its health check in time, and does its memory stay bounded?

A process of its own asks, so that it is not held up by the attacker. Time that the server waited for a processor does
not count, so the bound holds on a busy machine too.
"""

from __future__ import annotations

import http.client
import json
import resource
import select
import ssl
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.process import DrayProcess

#: Seconds within which ``/livez`` is answered.
LIVEZ_SECONDS = 0.2
#: Bytes of memory.
RSS = 400 << 20
_PAUSE = 0.01


class Watchdog:
    """``with Watchdog(server): attack`` fails if the server did not answer in time, or took too much memory."""

    def __init__(self, server: DrayProcess, *, livez_seconds: float = LIVEZ_SECONDS, rss: int = RSS) -> None:
        self._command = [sys.executable, __file__, server.url, str(server.process.pid)]
        self._livez_seconds, self._rss = livez_seconds, rss
        self.longest, self.peak = 0.0, 0

    def __enter__(self) -> Watchdog:
        self._probe = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._probe.stdout is not None
        assert self._probe.stdout.readline() == "watching\n"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        said, _ = self._probe.communicate(timeout=90)
        if error is not None:
            return
        found = json.loads(said)
        assert "problem" not in found, found
        self.longest, self.peak = found["longest"], found["peak"]
        assert self.longest < self._livez_seconds, f"/livez took {self.longest:.3f} s"
        assert self.peak < self._rss, f"the server took {self.peak >> 20} MB"


def watch(url: str, pid: int) -> dict[str, float | str]:
    """Ask until the standard input ends."""
    longest, peak = 0.0, 0
    host, _, port = url.removeprefix("https://").rpartition(":")
    tls = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection(host, int(port), context=tls, timeout=60)
    _ask(connection, pid)
    print("watching", flush=True)
    over = False
    while not over:
        over = bool(select.select([sys.stdin], [], [], _PAUSE)[0])
        longest = max(longest, _ask(connection, pid))
        peak = max(peak, resident(pid))
    return {"longest": longest, "peak": peak}


def resident(pid: int) -> int:
    """Bytes of memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def _ask(connection: http.client.HTTPSConnection, pid: int) -> float:
    """How long the answer took, but for the time that we or the server waited for a processor.

    Where many threads waited at the same time, that leaves too little. What the thread of the event loop was working
    meanwhile is what we waited for in any case, unless the answer was there and we were not.
    """
    waited, ran, started = _waited(pid), _schedule(f"{pid}/task/{pid}")[0], time.monotonic()
    late = _schedule("self")[1]
    connection.request("GET", "/livez")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"ok")
    took = time.monotonic() - started
    late = _schedule("self")[1] - late
    return max(took - (_waited(pid) - waited), _schedule(f"{pid}/task/{pid}")[0] - ran - late)


def _waited(pid: int) -> float:
    """The seconds that we and the server's threads, one of which has the interpreter, wanted a processor in vain."""
    total = 0.0
    for thread in ("self", *(f"{pid}/task/{task.name}" for task in Path(f"/proc/{pid}/task").iterdir())):
        with suppress(OSError):  # the thread has ended
            total += _schedule(thread)[1]
    return total


def _schedule(thread: str) -> tuple[float, float]:
    """The seconds that a thread ran, and those that it wanted to run in vain."""
    ran, waited = Path(f"/proc/{thread}/schedstat").read_text().split()[:2]
    return int(ran) / 1e9, int(waited) / 1e9


if __name__ == "__main__":
    try:
        print(json.dumps(watch(sys.argv[1], int(sys.argv[2]))))
    except (OSError, http.client.HTTPException, AssertionError) as e:
        print(json.dumps({"problem": f"/livez is not answered: {e!r}"}))
