"""Executes a page as a reader would: the console blocks of a Markdown file, typed one by one into a real shell.

``$ command`` is typed, a line that ends with ``\\`` goes on in the next one. What the page shows below a command must be
what the command prints: ``...`` (or ``…``) stands for anything, on a line of its own for any number of lines, and ages
such as ``2s`` are not compared. A block after "Save this as `NAME`" is saved under that name first.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support.paths import DRAY, ROOT, TOOLS

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SAVE_AS = re.compile(r"Save\s+this\s+as `([\w.-]+)`[^`]*$")
_AGE = re.compile(r"^\d+[smhd](\d+[smhd])?$")
_ELISION = re.compile(r"\.\.\.|…")
_COMMAND_SECONDS = 90.0
_LOOK_SECONDS = 20.0


class File(NamedTuple):
    """A file that the reader saves."""

    name: str
    text: str


class Command(NamedTuple):
    """What the reader types, and what the page shows below it."""

    typed: str
    shown: str


def steps(page: str) -> list[File | Command]:
    found: list[File | Command] = []
    for block in _FENCE.finditer(page):
        language, text = block.groups()
        if language == "console":
            found += _commands(text)
        elif saved := _SAVE_AS.search(page[: block.start()]):
            found.append(File(saved.group(1), text))
    return found


def starts_a_cluster(page: str) -> bool:
    """Whether the reader is told to start one; otherwise one is expected to run."""
    return any(isinstance(step, Command) and step.typed.startswith("dray up") for step in steps(page))


def _commands(block: str) -> Iterator[Command]:
    typed, shown, goes_on = "", [], False
    for line in block.splitlines():
        if goes_on:
            typed += "\n" + line
        elif line.startswith("$ "):
            if typed:
                yield Command(typed, "\n".join(shown))
            typed, shown = line[2:], []
        else:
            shown.append(line)
            continue
        goes_on = line.endswith("\\")
    if typed:
        yield Command(typed, "\n".join(shown))


def matches(shown: str, printed: str) -> bool:
    """Whether the page shows what was printed, columns of any width."""
    pattern = ""
    for line in shown.strip().splitlines():
        if _ELISION.fullmatch(line.strip()):
            pattern += r"(?:.*\n)*?"
            continue
        words = [r"\S+" if _AGE.match(word) else _words(word) for word in line.split()]
        pattern += r"[ \t]*" + r"\s+".join(words) + r"\s*\n"
    return re.fullmatch(pattern, printed.strip() + "\n") is not None


def _words(word: str) -> str:
    return ".*?".join(map(re.escape, _ELISION.split(word)))


class Shell:
    """One bash for a whole page: variables, background jobs and the working directory stay from command to command."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._printed: list[str] = []
        self._directory = directory
        self._typed = 0
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=directory, env=dict(environment), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._bash.stdout is not None
        for line in self._bash.stdout:
            self._printed.append(line)

    def type(self, command: str) -> tuple[int, str]:
        """The exit code and everything that the command printed until it ended; what jobs in the background print
        later goes to the file of the command that started them."""
        assert self._bash.stdin is not None
        self._typed += 1
        output, code = (self._directory / f".{kind}-{self._typed}" for kind in ("output", "code"))
        line = f"eval {shlex.quote(command)} </dev/null >{output} 2>&1; echo $? >{code}.new; mv {code}.new {code}\n"
        self._bash.stdin.write(line)
        self._bash.stdin.flush()
        deadline = time.monotonic() + _COMMAND_SECONDS
        while not code.exists():
            if time.monotonic() > deadline or self._bash.poll() is not None:
                raise AssertionError(
                    f"$ {command}\n{output.read_text()}\ndid not end {''.join(self._printed)}"
                )
            time.sleep(0.01)
        return int(code.read_text()), output.read_text()

    def close(self) -> list[str]:
        """End the shell and its background jobs. Returns the jobs that the page had forgotten to stop."""
        _, jobs = self.type("sleep 0.2; jobs -r")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGTERM)
        self._bash.wait(10)
        return jobs.splitlines()


def execute(*pages: Path, kubeconfig: Path | None = None, kubectl: str, before: str = "") -> None:
    """Do what the pages say, clean-up included. Without a kubeconfig each starts a cluster of its own, unless the
    command ``before`` it has done so.

    The working directory looks like the repository and the home directory is empty; both are gone afterwards.
    """
    home = Path(tempfile.mkdtemp(prefix="page-", dir="/tmp"))  # short, for the sake of unix sockets
    work, bin_dir = home / "work", home / "bin"
    work.mkdir()
    bin_dir.mkdir()
    for name in ("examples", "charts", "docs"):
        (work / name).symlink_to(ROOT / name)
    (bin_dir / "kubectl").symlink_to(kubectl)
    path = f"{bin_dir}:{Path(sys.executable).parent}:{TOOLS}:{os.environ['PATH']}"
    environment = {
        k: v for k, v in os.environ.items() if k not in ("KUBECONFIG", "DRAY_DATA", "XDG_DATA_HOME")
    }
    environment |= {"HOME": str(home), "NO_COLOR": "1", "PATH": path}
    if kubeconfig is not None:
        environment["KUBECONFIG"] = str(kubeconfig)
    shell = Shell(work, environment)
    try:
        for page in pages:
            if before:
                _type(shell, Command(before, ""))
            for step in steps(page.read_text()):
                if isinstance(step, File):
                    (work / step.name).write_text(step.text)
                else:
                    _type(shell, step)
        left = shell.close()
    finally:
        subprocess.run([DRAY, "down"], env=environment, capture_output=True, check=False)
        with contextlib.suppress(AssertionError, OSError, ValueError):
            shell.close()
        shutil.rmtree(home, ignore_errors=True)
    assert not left, f"{', '.join(map(str, pages))}: the clean-up leaves {left}"


def _type(shell: Shell, command: Command) -> None:
    deadline = time.monotonic() + _LOOK_SECONDS
    while True:
        code, printed = shell.type(command.typed)
        print(f"$ {command.typed}\n{printed}", end="")
        assert code == 0, f"$ {command.typed}\n{printed}\nexit code {code}"
        if not command.shown.strip() or matches(command.shown, printed):
            return
        # A reader looks again after a moment.
        if not command.typed.startswith(("kubectl get", "kubectl logs")) or time.monotonic() > deadline:
            raise AssertionError(f"$ {command.typed}\n{printed}\nthe page shows\n{command.shown}")
        time.sleep(0.2)
