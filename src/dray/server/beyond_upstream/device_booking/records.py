"""Booking records: who has which device, and what is drawn from which counter set.

They live under a prefix of their own in the store, beside the layout that is upstream's:
``/dray/bookings/devices/DRIVER/POOL/DEVICE`` and ``/dray/bookings/counters/DRIVER/POOL/COUNTERSET``. A pool's name may
contain slashes, the other names cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from dray.api.identity import DeviceID
from dray.server.storage.keycache import KeyCache
from dray.store.interface import Delete, Operation, Put, Unchanged

PREFIX: Final = "/dray/bookings/"
DEVICES: Final = PREFIX + "devices/"
COUNTERS: Final = PREFIX + "counters/"

#: Amounts of capacity or counters by name, as quantities are written.
Amounts = dict[str, str]


class Share(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one claim has of a device: all of it, or a share with consumed capacity."""

    uid: str  # the claim's
    shared: bool = False
    consumed: Amounts = {}


class DeviceRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The claims that have a device, and what the device drew from counter sets when it was first booked."""

    claims: dict[str, Share] = {}
    counters: dict[str, Amounts] = {}


class CounterSetRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the booked devices of a pool draw from one of its counter sets."""

    devices: dict[str, Amounts] = {}


Record = DeviceRecord | CounterSetRecord
_Kind = TypeVar("_Kind", DeviceRecord, CounterSetRecord)

_encode = msgspec.json.Encoder().encode
_decoders: Final[Mapping[type[Record], msgspec.json.Decoder[Record]]] = {
    DeviceRecord: msgspec.json.Decoder(DeviceRecord),
    CounterSetRecord: msgspec.json.Decoder(CounterSetRecord),
}


class DamagedRecord(Exception):
    """A record that cannot be read: something else wrote under our prefix."""


def device_key(device: DeviceID) -> str:
    return f"{DEVICES}{device.driver}/{device.pool}/{device.device}"


def device_of(key: str) -> DeviceID:
    driver, _, rest = key.removeprefix(DEVICES).partition("/")
    pool, _, device = rest.rpartition("/")
    return DeviceID(driver, pool, device)


def counter_set_key(driver: str, pool: str, counter_set: str) -> str:
    return f"{COUNTERS}{driver}/{pool}/{counter_set}"


def read(kind: type[_Kind], value: bytes, key: str) -> _Kind:
    try:
        found = _decoders[kind].decode(value)
    except msgspec.MsgspecError as e:
        raise DamagedRecord(f"the booking record {key} cannot be read: {e}") from e
    assert isinstance(found, kind)
    return found


def plain_record(claim: str, uid: str) -> bytes:
    """The record of a device that draws on no counters and that one claim has as a whole."""
    return _encode(DeviceRecord({claim: Share(uid)}))


class Draft:
    """Changes of several records, which become the operations of one transaction."""

    __slots__ = ("_records", "_written")

    def __init__(self, records: KeyCache) -> None:
        self._records = records
        self._written: dict[str, tuple[int, Record | None]] = {}  # None: it was read and stays as it is

    def get(self, kind: type[_Kind], key: str) -> _Kind:
        """A record as this draft has it; an empty one if there is none."""
        if (written := self._written.get(key)) is not None and written[1] is not None:
            assert isinstance(written[1], kind)
            return written[1]
        entry = self._records.get(key)
        self._written[key] = (0 if entry is None else entry.mod_revision, None)
        return kind() if entry is None else read(kind, entry.value, key)

    def set(self, key: str, record: Record) -> None:
        """Replace a record that ``get`` was called for."""
        self._written[key] = (self._written[key][0], record)

    def operations(self) -> list[Operation]:
        """What to write, on condition that every record that was read is still the same."""
        operations: list[Operation] = []
        for key, (revision, record) in self._written.items():
            if record is None:
                operations.append(Unchanged(key, revision))
            elif _is_empty(record):
                operations.append(Delete(key, revision) if revision else Unchanged(key, 0))
            else:
                operations.append(Put(key, _encode(record), revision))
        return operations


def _is_empty(record: Record) -> bool:
    return not (record.claims if isinstance(record, DeviceRecord) else record.devices)
