"""What the node remembers about claims: who uses them, whether they are prepared, and which devices came of it.

The checkpoint file has the kubelet's name and form, so that either can take over from the other; beside it stands
whether a claim is known to be prepared since this machine was started, which saves asking the driver again.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

from dray.kubelet_api import files
from dray.node.dra.claims import ResourceHandle, base_request

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


class CorruptCheckpoint(Exception):
    """The file is not what was written. Nothing is guessed: the node must be drained and the file removed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedDevice:
    """A prepared device, as its driver described it. No requests means: all of them."""

    pool: str
    name: str
    requests: tuple[str, ...] = ()
    cdi_ids: tuple[str, ...] = ()
    share: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimInfo:
    namespace: str
    name: str
    uid: str
    pods: frozenset[str] = frozenset()
    drivers: Mapping[str, tuple[PreparedDevice, ...]] = field(default_factory=dict)
    prepared: bool = False
    handles: tuple[
        ResourceHandle, ...
    ] = ()  # of classic claims: their drivers are told again when they unprepare
    class_name: str = ""  # of classic claims

    def with_pod(self, uid: str) -> ClaimInfo:
        return replace(self, pods=self.pods | {uid})

    def without_pod(self, uid: str) -> ClaimInfo:
        return replace(self, pods=self.pods - {uid})

    def with_devices(self, driver: str, devices: Iterable[PreparedDevice]) -> ClaimInfo:
        return replace(self, drivers={**self.drivers, driver: tuple(devices)})

    def devices_for(self, request: str) -> list[tuple[str, PreparedDevice]]:
        """The devices that serve a request, with their drivers; an empty request stands for all."""
        base = base_request(request)
        return [
            (driver, device)
            for driver, devices in self.drivers.items()
            for device in devices
            if not request or not device.requests or base in device.requests
        ]


class ClaimInfoCache:
    """The claims in use on this node, in memory and on disk."""

    def __init__(self, directory: Path | None) -> None:
        self._path = directory / FILE_NAME if directory else None
        self._claims: dict[tuple[str, str], ClaimInfo] = self._read()
        if self._path and not self._path.exists():
            self.save()

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        return self._claims.get((namespace, name))

    def put(self, info: ClaimInfo) -> None:
        self._claims[info.namespace, info.name] = info

    def remove(self, namespace: str, name: str) -> None:
        self._claims.pop((namespace, name), None)

    def all(self) -> list[ClaimInfo]:
        return list(self._claims.values())

    def used_by(self, pod_uid: str) -> list[ClaimInfo]:
        return [c for c in self._claims.values() if pod_uid in c.pods]

    def save(self, *, wait: bool = True) -> None:
        """To disk. What counts only until the machine is started anew need not ``wait`` for the disk."""
        if self._path is None:
            return
        checkpoint: _Checkpoint = {
            "kind": "DRACheckpoint",
            "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1",
            "BootID": files.boot_id(),
            "ClaimInfoStateList": [_encode(c) for c in self._claims.values()],
        }
        data = json.dumps(checkpoint)
        outer: _CheckpointFile = {"Data": data, "Checksum": zlib.crc32(data.encode())}
        files.write(self._path, json.dumps(outer).encode(), mode=0o600, durable=True, wait=wait)

    def _read(self) -> dict[tuple[str, str], ClaimInfo]:
        if self._path is None:
            return {}
        try:
            outer: _CheckpointFile = json.loads(self._path.read_bytes())
            data = outer["Data"]
            if zlib.crc32(data.encode()) != outer["Checksum"]:
                raise CorruptCheckpoint(f"{self._path}: checksum does not match")
            inner: _Checkpoint = json.loads(data)
            same_boot = inner.get("BootID") == files.boot_id()
            claims = [_decode(c, same_boot=same_boot) for c in inner.get("ClaimInfoStateList") or []]
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError) as e:
            raise CorruptCheckpoint(f"{self._path}: {e!r}") from e
        return {(c.namespace, c.name): c for c in claims}


def _encode(c: ClaimInfo) -> _ClaimInfoState:
    state: _ClaimInfoState = {
        "ClaimUID": c.uid,
        "ClaimName": c.name,
        "Namespace": c.namespace,
        "PodUIDs": {uid: {} for uid in sorted(c.pods)},
        "DriverState": {
            driver: {
                "Devices": [
                    {
                        "PoolName": d.pool,
                        "DeviceName": d.name,
                        "ShareID": d.share,
                        "RequestNames": list(d.requests),
                        "CDIDeviceIDs": list(d.cdi_ids),
                    }
                    for d in devices
                ]
            }
            for driver, devices in c.drivers.items()
        },
        "Prepared": c.prepared,
    }
    if c.handles:
        state["ClassName"] = c.class_name
        state["ResourceHandles"] = [_encode_handle(h) for h in c.handles]
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
    )
