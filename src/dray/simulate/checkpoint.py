"""Results that are kept on disk, so that runs which were interrupted go on where they were.

A result is found again by what its task consists of: every value, the content of every file, and the version of dray.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

import dray
from dray import atomicfile
from dray.simulate.model import SimulationError

T = TypeVar("T")


class Checkpoint(Generic[T]):
    """A directory with a file for each result. ``type_``: what the results are."""

    def __init__(self, directory: Path, type_: type[T]) -> None:
        self._directory = directory
        self._decoder = msgspec.msgpack.Decoder(type_)
        self._known: dict[int, tuple[Any, bytes]] = {}  # values that many tasks share, such as a cluster
        directory.mkdir(parents=True, exist_ok=True)

    def load(self, task: Any) -> T | None:
        path = self._path(task)
        try:
            return self._decoder.decode(path.read_bytes())
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as problem:
            raise SimulationError(f"{path} is not a kept result: remove it ({problem})") from None

    def save(self, task: Any, result: T) -> None:
        atomicfile.write(self._path(task), msgspec.msgpack.encode(result))

    def _path(self, task: Any) -> Path:
        digest = hashlib.sha256(dray.__version__.encode())
        digest.update(type(task).__qualname__.encode())
        for field in fields(task):
            digest.update(self._digest(getattr(task, field.name)))
        return self._directory / f"{digest.hexdigest()}.msgpack"

    def _digest(self, value: Any) -> bytes:
        known = self._known.get(id(value))
        if known is None:
            digest = hashlib.sha256()
            for part in _parts(value):
                digest.update(part)
            # The value is kept beside, so that nothing else gets its id.
            known = self._known[id(value)] = (value, digest.digest())
        return known[1]


def _parts(value: Any) -> Iterator[bytes]:
    """What tells a value from any other one. Every part says how long it is, so that none runs into the next."""
    match value:
        case Path():
            content = value.read_bytes()
            yield b"file %d " % len(content)
            yield content
        case type():
            yield f"type {value.__module__}.{value.__qualname__};".encode()
        case None | bool() | int() | float() | str() | bytes():
            text = repr(value).encode()
            yield b"%s %d " % (type(value).__name__.encode(), len(text))
            yield text
        case Mapping():
            yield b"mapping %d " % len(value)
            for key in value:
                yield from _parts(key)
                yield from _parts(value[key])
        case Sequence():
            yield b"sequence %d " % len(value)
            for one in value:
                yield from _parts(one)
        case msgspec.Struct():
            yield f"{type(value).__qualname__} ".encode()
            for item in msgspec.structs.astuple(value):
                yield from _parts(item)
        case _ if is_dataclass(value):
            yield f"{type(value).__qualname__} ".encode()
            for field in fields(value):
                yield from _parts(getattr(value, field.name))
        case _:
            raise SimulationError(f"results of a task with {type(value).__qualname__} cannot be kept")
