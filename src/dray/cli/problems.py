"""Batch forms: cases from a file, one JSON line each, and their answers, one JSON line each."""

from __future__ import annotations

import gc
import gzip
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

import click
import msgspec


def read(path: Path) -> Iterator[Any]:
    """The cases of a file, which may be compressed; ``-`` is standard input."""
    with _open(path) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield msgspec.json.decode(line)
                except msgspec.DecodeError as problem:
                    raise click.ClickException(f"{path}:{number}: not JSON: {problem}") from None


def answer_all(path: Path, answer: Callable[[Any], Mapping[str, Any]]) -> None:
    """Write each answer as soon as it is there."""
    encode = msgspec.json.Encoder().encode
    out = sys.stdout.buffer
    # The code that is loaded by now stays: the collector need not walk it again during the cases.
    gc.freeze()
    for case in read(path):
        out.write(encode(answer(case)) + b"\n")
        out.flush()


def _open(path: Path) -> IO[bytes]:
    if str(path) == "-":
        return sys.stdin.buffer
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    return path.open("rb")
