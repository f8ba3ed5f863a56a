"""Batch forms: cases from a file, one JSON line each, and their answers, one JSON line each."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec


def read(path: Path) -> Iterator[Any]:
    """The cases of a file, which may be compressed; ``-`` is standard input."""
    with _open(path) as lines:
        for line in lines:
            if line.strip():
                yield msgspec.json.decode(line)


def answer_all(path: Path, answer: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
    encode = msgspec.json.Encoder().encode
    out = sys.stdout.buffer
    for case in read(path):
        out.write(encode(answer(case)) + b"\n")
    out.flush()


def _open(path: Path) -> IO[bytes]:
    if str(path) == "-":
        return sys.stdin.buffer
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")
