"""The plan by which the ResourceSlices of a pool become what the driver publishes: creations, updates, deletions. Pure.

The rules are those of upstream's slice controller: the pool's generation grows only when more than one write is
needed, so that a scheduler never mixes old and new slices of a pool; slices whose place or generation is wrong are
deleted first; a slice that already has the right content is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from dray.api.quantity import Quantity
from dray.driver.model import Pool

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta, OwnerReference
    from dray.api.types.resource import Device, DeviceTaint, ResourcePool, ResourceSlice, ResourceSliceSpec

#: Digits of the index in the name of a slice that is one of several.
INDEX_DIGITS = 5


class Owner(NamedTuple):
    """The object that slices are deleted with, usually the node."""

    api_version: str
    kind: str
    name: str
    uid: str

    def reference(self) -> OwnerReference:
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
        }


class Write(NamedTuple):
    """A slice to be created or updated: which of the pool's slices it is, and what it shall say."""

    position: int
    document: ResourceSlice


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Writes that make the slices of one pool right, in the order in which they must happen."""

    delete: Sequence[ResourceSlice] = ()
    update: Sequence[Write] = ()
    create: Sequence[Write] = ()

    def __bool__(self) -> bool:
        return bool(self.delete or self.update or self.create)


def name_prefix(driver: str, owner: Owner | None, *, index: int, count: int) -> str:
    """The start of a slice's name. Names order the slices of a pool, and so the scheduler's choice."""
    stem = f"{owner.name}-{driver}-" if owner else f"{driver}-"
    return stem if count == 1 else f"{stem}{index:0{INDEX_DIGITS}x}-"


def plan(
    *,
    driver: str,
    name: str,
    pool: Pool | None,
    existing: Sequence[ResourceSlice],
    owner: Owner | None = None,
    accepted: Mapping[int, tuple[object, object]] | None = None,
) -> Plan:
    """Compares the slices of pool ``name`` with what is wanted; ``pool=None`` means: no longer published.

    ``accepted`` holds, per index, the content that was last asked for and what the server made of it (it drops the
    fields of features that are off): asking for the same again would change nothing.
    """
    if pool is None:
        return Plan(delete=existing)
    count = len(pool.slices)
    generation = max((s["spec"]["pool"]["generation"] for s in existing), default=0)
    current, obsolete = _match(existing, driver=driver, owner=owner, count=count, generation=generation)

    wanted = [wanted_spec(pool, i) for i in range(count)]
    same_pool: ResourcePool = {"name": name, "generation": generation, "resourceSliceCount": count}
    changed = {
        i
        for i, found in current.items()
        if found["spec"]["pool"] != same_pool
        or not _has_content(found["spec"], wanted[i], (accepted or {}).get(i))
    }
    bumped = pool.generation > generation or len(current) < count or len(changed) > 1
    if bumped:
        generation = max(pool.generation, generation + 1)
    ours: ResourcePool = {"name": name, "generation": generation, "resourceSliceCount": count}

    update = []
    for i, found in sorted(current.items()):
        if bumped or i in changed:
            spec: ResourceSliceSpec = {**_identity(found["spec"]), "pool": ours, **wanted[i]}
            update.append(Write(i, {**found, "spec": _keep_taint_times(found["spec"], spec)}))
    local = owner is not None and owner.kind == "Node" and pool.node_selector is None and not pool.all_nodes
    create = []
    for i in range(count):
        if i in current:
            continue
        spec = {"driver": driver, "pool": ours, **wanted[i]}
        if local and owner and not spec.get("perDeviceNodeSelection"):
            spec["nodeName"] = owner.name
        metadata: ObjectMeta = {"generateName": name_prefix(driver, owner, index=i, count=count)}
        if owner:
            metadata["ownerReferences"] = [owner.reference()]
        create.append(Write(i, {"metadata": metadata, "spec": spec}))
    return Plan(delete=obsolete, update=update, create=create)


def content(spec: ResourceSliceSpec) -> object:
    """What a slice says about its devices, in a form that compares equal when the meaning is equal."""
    return _canonical({k: v for k, v in spec.items() if k not in ("driver", "pool", "nodeName")})


def equal_except_times(one: object, other: object) -> bool:
    """Whether contents agree apart from the times that a server adds to taints."""
    return bool(_without_times(one) == _without_times(other))


def dropped_features(wanted: ResourceSliceSpec, stored: ResourceSliceSpec) -> list[str]:
    """Gates that are probably off, judging by what the server did not keep."""
    gates = []
    pairs = list(zip(wanted.get("devices") or [], stored.get("devices") or [], strict=False))

    def lost(field: Callable[[Device], object]) -> bool:
        return any(bool(field(w)) and not field(s) for w, s in pairs)

    if lost(lambda device: device.get("taints")):
        gates.append("DRADeviceTaints")
    if (
        lost(lambda device: device.get("consumesCounters"))
        or (wanted.get("perDeviceNodeSelection") and not stored.get("perDeviceNodeSelection"))
        or (wanted.get("sharedCounters") and not stored.get("sharedCounters"))
    ):
        gates.append("DRAPartitionableDevices")
    if lost(lambda device: device.get("bindingConditions")) or lost(
        lambda device: device.get("bindingFailureConditions")
    ):
        gates.append("DRADeviceBindingConditions")
    if lost(lambda device: device.get("allowMultipleAllocations")):
        gates.append("DRAConsumableCapacity")
    return gates


def _match(
    existing: Sequence[ResourceSlice], *, driver: str, owner: Owner | None, count: int, generation: int
) -> tuple[dict[int, ResourceSlice], list[ResourceSlice]]:
    current: dict[int, ResourceSlice] = {}
    obsolete = []
    for found in existing:
        index = _index(found["metadata"]["name"], driver=driver, owner=owner, count=count)
        if found["spec"]["pool"]["generation"] < generation or index is None or index in current:
            obsolete.append(found)
        else:
            current[index] = found
    return current, obsolete


def _index(name: str, *, driver: str, owner: Owner | None, count: int) -> int | None:
    stem = name_prefix(driver, owner, index=0, count=1)
    if not name.startswith(stem):
        return None
    rest = name.removeprefix(stem)
    if count == 1:
        return 0 if "-" not in rest else None
    digits, dash, _ = rest.partition("-")
    if not dash or len(digits) != INDEX_DIGITS:
        return None
    try:
        index = int(digits, 16)
    except ValueError:
        return None
    return index if index < count else None


def wanted_spec(pool: Pool, index: int) -> ResourceSliceSpec:
    """What the driver wants one slice of a pool to say."""
    out = pool.slices[index].document()
    if pool.node_selector is not None:
        out["nodeSelector"] = pool.node_selector
    if pool.all_nodes:
        out["allNodes"] = True
    return out


def _identity(spec: ResourceSliceSpec) -> ResourceSliceSpec:
    out: ResourceSliceSpec = {"driver": spec["driver"]}
    if "nodeName" in spec:
        out["nodeName"] = spec["nodeName"]
    return out


def _has_content(
    found: ResourceSliceSpec, wanted: ResourceSliceSpec, accepted: tuple[object, object] | None
) -> bool:
    have, want = content(found), content(_keep_taint_times(found, wanted))
    if have == want:
        return True
    return accepted is not None and accepted[0] == content(wanted) and accepted[1] == have


def _keep_taint_times(found: ResourceSliceSpec, wanted: ResourceSliceSpec) -> ResourceSliceSpec:
    """The wanted spec with the time of every taint that stands already, unless the driver gives one itself."""
    if not any(d.get("taints") for d in wanted.get("devices") or []):
        return wanted
    times = {
        (d["name"], t["key"], t.get("value", ""), t["effect"]): t["timeAdded"]
        for d in found.get("devices") or []
        for t in d.get("taints") or []
        if "timeAdded" in t
    }
    devices: list[Device] = []
    for d in wanted["devices"]:
        taints: list[DeviceTaint] = [
            t
            if "timeAdded" in t
            or (when := times.get((d["name"], t["key"], t.get("value", ""), t["effect"]))) is None
            else {**t, "timeAdded": when}
            for t in d.get("taints") or []
        ]
        devices.append({**d, "taints": taints} if taints else d)
    return {**wanted, "devices": devices}


def _canonical(value: Any, *, amounts: bool = False) -> Any:
    """Without empty fields, and with amounts in one spelling."""
    if isinstance(value, dict):
        return {
            k: v if k == "attributes" else _canonical(v, amounts=amounts or k in ("capacity", "counters"))
            for k, v in value.items()
            if v is not None and v is not False and v != {} and v != []
        }
    if isinstance(value, list):
        return [_canonical(v, amounts=amounts) for v in value]
    if amounts and isinstance(value, str):
        return Quantity.parse(value)
    return value


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_times(v) for k, v in value.items() if k != "timeAdded"}
    if isinstance(value, list):
        return [_without_times(v) for v in value]
    return value
