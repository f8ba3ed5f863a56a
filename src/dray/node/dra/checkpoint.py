"""The file in which the node remembers its claims over a restart.

The file has the kubelet's name and form, so that either can take over from the other. Beside that, the file says whether
a claim is known to be prepared since this machine was started, which saves asking the driver again.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

from dray import atomicfile
from dray.kubelet_api import checkpoint
from dray.kubelet_api.checkpoint import CorruptCheckpoint
from dray.node.dra.claiminfo import ClaimInfo, PreparedDevice
from dray.node.dra.claims import operations
from dray.node.dra.classic.handles import ResourceHandle

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import ResourceHandle as HandleDocument

FILE_NAME = "dra_manager_state"


class _DeviceState(TypedDict):
    PoolName: str
    DeviceName: str
    ShareID: NotRequired[str | None]
    RequestNames: Sequence[str]
    CDIDeviceIDs: Sequence[str]


class _DriverState(TypedDict):
    Devices: Sequence[_DeviceState]
    skipNodeOperations: NotRequired[Sequence[str]]


class _ClaimInfoState(TypedDict):
    ClaimUID: str
    ClaimName: str
    Namespace: str
    PodUIDs: Mapping[str, Mapping[str, object]]
    DriverState: Mapping[str, _DriverState]
    Prepared: NotRequired[bool]
    ClassName: NotRequired[str]
    ResourceHandles: NotRequired[Sequence[HandleDocument]]


class _Checkpoint(TypedDict):
    kind: str
    apiVersion: str
    BootID: NotRequired[str]
    ClaimInfoStateList: Sequence[_ClaimInfoState]


class _CheckpointFile(TypedDict):
    Data: str
    Checksum: int


class Checkpoint:
    """The checkpoint file in a directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME

    def write(self, claims: Iterable[ClaimInfo], *, wait: bool) -> None:
        content: _Checkpoint = {
            "kind": "DRACheckpoint",
            "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1",
            "BootID": checkpoint.boot_id(),
            "ClaimInfoStateList": [_encode(c) for c in claims],
        }
        data = json.dumps(content)
        outer: _CheckpointFile = {"Data": data, "Checksum": zlib.crc32(data.encode())}
        atomicfile.write(self.path, json.dumps(outer).encode(), mode=0o600, durable=True, wait=wait)

    def read(self) -> list[ClaimInfo]:
        """The claims in the file, none if there is no file. Raises CorruptCheckpoint."""
        try:
            outer: _CheckpointFile = json.loads(self.path.read_bytes())
            data = outer["Data"]
            if zlib.crc32(data.encode()) != outer["Checksum"]:
                raise CorruptCheckpoint(f"{self.path}: checksum does not match")
            inner: _Checkpoint = json.loads(data)
            same_boot = inner.get("BootID") == checkpoint.boot_id()
            return [_decode(c, same_boot=same_boot) for c in inner.get("ClaimInfoStateList") or []]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError) as e:
            raise CorruptCheckpoint(f"{self.path}: {e!r}") from e


def _encode(c: ClaimInfo) -> _ClaimInfoState:
    state: _ClaimInfoState = {
        "ClaimUID": c.uid,
        "ClaimName": c.name,
        "Namespace": c.namespace,
        "PodUIDs": {uid: {} for uid in sorted(c.pods)},
        "DriverState": {driver: _encode_driver(c, driver) for driver in c.drivers},
        "Prepared": c.prepared,
    }
    if c.handles:
        state["ClassName"] = c.class_name
        state["ResourceHandles"] = [_encode_handle(h) for h in c.handles]
    return state


def _encode_driver(c: ClaimInfo, driver: str) -> _DriverState:
    state: _DriverState = {
        "Devices": [
            {
                "PoolName": d.pool,
                "DeviceName": d.name,
                "ShareID": d.share,
                "RequestNames": list(d.requests),
                "CDIDeviceIDs": list(d.cdi_ids),
            }
            for d in c.drivers[driver]
        ]
    }
    if driver in c.skips:
        state["skipNodeOperations"] = sorted(c.skips[driver])
    return state


def _encode_handle(handle: ResourceHandle) -> HandleDocument:
    out: HandleDocument = {"driverName": handle.driver, "data": handle.data}
    if handle.structured is not None:
        out["structuredData"] = handle.structured
    return out


def _decode(c: _ClaimInfoState, *, same_boot: bool) -> ClaimInfo:
    return ClaimInfo(
        namespace=c["Namespace"],
        name=c["ClaimName"],
        uid=c["ClaimUID"],
        pods=frozenset(c.get("PodUIDs") or ()),
        drivers={
            driver: tuple(
                PreparedDevice(
                    pool=d["PoolName"],
                    name=d["DeviceName"],
                    share=d.get("ShareID"),
                    requests=tuple(d.get("RequestNames") or ()),
                    cdi_ids=tuple(d.get("CDIDeviceIDs") or ()),
                )
                for d in state.get("Devices") or []
            )
            for driver, state in (c.get("DriverState") or {}).items()
        },
        prepared=bool(c.get("Prepared")) and same_boot,
        handles=tuple(
            ResourceHandle(h["driverName"], h.get("data") or "", h.get("structuredData"))
            for h in c.get("ResourceHandles") or ()
        ),
        class_name=c.get("ClassName") or "",
        skips={
            driver: operations(named)
            for driver, state in (c.get("DriverState") or {}).items()
            if (named := state.get("skipNodeOperations"))
        },
    )
