"""Power cuts: after a kill, any of the writes that no sync had made durable are taken back, as a disk might lose them."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("powerloss.c")


def unavailable() -> str:
    return (
        "" if shutil.which("cc") else "there is no C compiler to build the layer that knows what was synced"
    )


def build(directory: Path) -> Path:
    library = directory / "powerloss.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl", "-lpthread"], check=True)
    return library


@dataclass(frozen=True, slots=True)
class Write:
    """One write to one file, or (``truncates``) one truncation."""

    path: str
    offset: int
    old: bytes
    new: bytes
    size: int  # of the file before it
    truncates: bool = False


def unsynced(journal: bytes) -> dict[str, list[Write]]:
    """The writes after the last sync of each file, in order. What was being written down at the end never took place."""
    pending: defaultdict[str, list[Write]] = defaultdict(list)
    for kind, write in _records(journal):
        if kind == "S":
            pending[write.path].clear()
        else:
            pending[write.path].append(write)
    return dict(pending)


def _records(journal: bytes) -> Iterator[tuple[str, Write]]:
    position = 0
    while (end := journal.find(b"\n", position)) >= 0:
        kind, offset, old, new, size, path = journal[position:end].decode().split(" ", 5)
        start = end + 1
        middle, position = start + int(old), start + int(old) + int(new)
        if position > len(journal):
            return
        yield (
            kind,
            Write(path, int(offset), journal[start:middle], journal[middle:position], int(size), kind == "T"),
        )


def lose(journal: Path, rng: random.Random) -> int:
    """Take back some of the unsynced writes: none, all, the last ones, or any. Returns how many were lost."""
    lost = 0
    for path, writes in unsynced(journal.read_bytes()).items():
        if not writes or not Path(path).exists():
            continue
        fate = rng.choice(("all", "none", "the last", "any"))
        kept = {
            "all": [],
            "none": writes,
            "the last": writes[: rng.randrange(len(writes) + 1)],
            "any": [write for write in writes if rng.random() < 0.5],
        }[fate]
        lost += len(writes) - len(kept)
        with Path(path).open("r+b") as file:
            for write in reversed(writes):
                file.seek(write.offset)
                file.write(write.old)
                file.truncate(write.size)
            for write in kept:
                if write.truncates:
                    file.truncate(write.offset)
                else:
                    file.seek(write.offset)
                    file.write(write.new)
    for memory in {Path(path).parent for path in unsynced(journal.read_bytes())}:
        for shared in memory.glob("*-shm"):
            shared.unlink()
    journal.write_bytes(b"")
    return lost
