"""Who makes keys and certificates: this process, or a child that ends when it has made them.

The library that makes them takes 12 MB of a process for good, and only the first start of a cluster needs it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from dray.app import pki

_log = logging.getLogger(__name__)

_END_SECONDS: Final = 10.0


class Child:
    """Has a process of its own make them, which is started when the first is wanted."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._here = pki.InProcess()

    def start(self) -> None:
        """Start the process already, so that it gets ready while this one does something else."""
        if self._process is None:
            with contextlib.suppress(OSError):
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "dray.app.keymaker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )

    def new_ca(self) -> tuple[bytes, bytes]:
        made = self._ask("new_ca")
        return self._here.new_ca() if made is None else (made[0].encode(), made[1].encode())

    def new_account_key(self) -> bytes:
        made = self._ask("new_account_key")
        return self._here.new_account_key() if made is None else made[0].encode()

    def sign(self, folder: Path, name: str, user: str, groups: Sequence[str], names: Sequence[str]) -> None:
        if self._ask("sign", str(folder), name, user, list(groups), list(names)) is None:
            self._here.sign(folder, name, user, groups, names)

    def _ask(self, what: str, *arguments: Any) -> list[str] | None:
        """What the child has made; None if it cannot, and then it must be made here, where errors are told."""
        self.start()
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None
        try:
            process.stdin.write(json.dumps([what, *arguments]) + "\n")
            process.stdin.flush()
            made: list[str] = json.loads(process.stdout.readline())
        except (OSError, ValueError) as error:
            _log.debug("keys are made in this process: %s", error)
            return None
        return made

    def end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def in_child(folder: Path) -> Iterator[pki.KeyMaker]:
    """A child makes what is missing in ``folder``. It has ended when the block has.

    Where the library is loaded already, a child would only take time.
    """
    if _is_loaded():
        yield pki.InProcess()
        return
    child = Child()
    try:
        if not pki.Pki(folder).leaf("apiserver").certificate.exists():
            child.start()
        yield child
    finally:
        child.end()


def _is_loaded() -> bool:
    return "cryptography" in sys.modules


def _serve() -> None:
    """What the child does: make what each line asks for, until there are no more."""
    here = pki.InProcess()
    for line in sys.stdin:
        what, *arguments = json.loads(line)
        made: list[str] = []
        if what == "new_ca":
            made = [part.decode() for part in here.new_ca()]
        elif what == "new_account_key":
            made = [here.new_account_key().decode()]
        else:
            folder, name, user, groups, names = arguments
            here.sign(Path(folder), name, user, groups, names)
        print(json.dumps(made), flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):  # which the terminal sends to this process too
        _serve()
