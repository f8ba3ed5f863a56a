"""The file in which a driver remembers, over a crash, which claims it has prepared or was just preparing.

The file carries a checksum, is replaced as a whole, and is read anew by every call: during a rolling update two
instances of a driver share it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from dray import atomicfile
from dray.driver.model import ClaimRef, DeviceID
from dray.kubelet_api import checkpoint
from dray.kubelet_api.checkpoint import CorruptCheckpoint

if TYPE_CHECKING:
    from dray.kubelet_api.cdi import Spec


class _DeviceState(TypedDict):
    id: Sequence[str]
    requests: Sequence[str]
    cdi_ids: Sequence[str]
    admin: bool


class _EntryState(TypedDict):
    ref: Sequence[str]
    devices: Sequence[_DeviceState]
    done: bool
    spec: Spec | None
    data: Mapping[str, Any]  # whatever the driver keeps


class _CheckpointState(TypedDict):
    version: int
    boot: str
    claims: Sequence[_EntryState]


class _CheckpointFile(TypedDict):
    data: str
    checksum: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedDevice:
    """A device as it is answered to the kubelet, with all that is needed to restore its CDI spec."""

    id: DeviceID
    requests: tuple[str, ...]
    cdi_ids: tuple[str, ...] = ()
    admin: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One claim. ``done`` is False between the intent to prepare it and its completion."""

    ref: ClaimRef
    devices: tuple[PreparedDevice, ...]
    done: bool
    spec: Spec | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


class Checkpoint:
    def __init__(self, path: Path) -> None:
        self.path = path

    def is_foreign(self) -> bool:
        """Whether another program of the same driver name wrote the file. Ours is never half written, so what is JSON
        without our fields is no damage."""
        try:
            found = json.loads(self.path.read_bytes())
        except (OSError, ValueError):
            return False
        return isinstance(found, dict) and "data" not in cast("_CheckpointFile", found)

    def set_aside(self) -> Path:
        """Renames the file, so that this driver begins with none; returns its new name."""
        aside = self.path.with_name(f"{self.path.name}.foreign")
        return self.path.rename(aside)

    def read(self) -> dict[str, Entry]:
        """The entries by claim uid. Those from before a reboot are not done, whatever they say."""
        try:
            outer: _CheckpointFile = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except ValueError as e:
            raise CorruptCheckpoint(f"{self.path}: {e}") from e
        try:
            text, checksum = outer["data"], outer["checksum"]
            if zlib.crc32(text.encode()) != checksum:
                raise CorruptCheckpoint(f"{self.path}: checksum does not match")
            inner: _CheckpointState = json.loads(text)
            same_boot = inner["boot"] == checkpoint.boot_id()
            return {e["ref"][2]: _entry(e, same_boot=same_boot) for e in inner["claims"]}
        except (KeyError, TypeError, ValueError) as e:
            raise CorruptCheckpoint(f"{self.path}: {e!r}") from e

    def write(self, entries: Mapping[str, Entry], *, wait: bool = True) -> None:
        """After a loss of power nothing counts as done: that something is need not ``wait`` for the disk."""
        inner: _CheckpointState = {
            "version": 1,
            "boot": checkpoint.boot_id(),
            "claims": [cast("_EntryState", asdict(e)) for e in entries.values()],
        }
        text = json.dumps(inner)
        written: _CheckpointFile = {"data": text, "checksum": zlib.crc32(text.encode())}
        atomicfile.write(self.path, json.dumps(written).encode(), mode=0o600, durable=True, wait=wait)


def _entry(e: _EntryState, *, same_boot: bool) -> Entry:
    return Entry(
        ref=ClaimRef(*e["ref"]),
        devices=tuple(
            PreparedDevice(
                id=DeviceID(*d["id"]),
                requests=tuple(d["requests"]),
                cdi_ids=tuple(d["cdi_ids"]),
                admin=d["admin"],
            )
            for d in e["devices"]
        ),
        done=e["done"] and same_boot,
        spec=e["spec"],
        data=e["data"],
    )
