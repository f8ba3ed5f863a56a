"""What storage drivers say about themselves, about nodes and about the space that is left: CSI's three kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.quantity import Quantity
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import SPEC, Context, SubdomainStrategy, immutable, update_generation
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.storage import CSIDriver, CSINode, CSINodeDriver, CSIStorageCapacity, TokenRequest

_GROUP: Final = "storage.k8s.io"
_FS_GROUP: Final = ("File", "None", "ReadWriteOnceWithFSType")
_MODES: Final = ("Persistent", "Ephemeral")
_LONGEST_NODE_ID: Final = 256
_SHORTEST_TOKEN: Final = 600
_LONGEST_TOKEN: Final = 1 << 32
_SHORTEST_PERIOD: Final = 10
_DRIVERS: Final = SPEC.child("drivers")


def check_driver_name(name: str, path: Path) -> list[FieldError]:
    if not name:
        return [field.required(path)]
    found = [field.too_long(path, 63)] if len(name) > 63 else []
    return found + checks.each(name, path, names.dns1123_subdomain(name.lower()))


# -- drivers


def _default_driver(obj: CSIDriver) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("storageCapacity", False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]
    spec.setdefault("requiresRepublish", False)
    spec.setdefault("seLinuxMount", False)


def _check_tokens(requests: Sequence[TokenRequest], path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for i, request in enumerate(requests):
        audience, seconds = request.get("audience", ""), request.get("expirationSeconds")
        if audience in seen:
            found.append(field.duplicate(path.index(i).child("audience"), audience))
            continue
        seen.add(audience)
        at = path.index(i).child("expirationSeconds")
        if seconds is not None and seconds < _SHORTEST_TOKEN:
            found.append(field.invalid(at, seconds, "may not specify a duration less than 10 minutes"))
        if seconds is not None and seconds > _LONGEST_TOKEN:
            found.append(field.invalid(at, seconds, "may not specify a duration larger than 2^32 seconds"))
    return found


class CSIDriverStrategy(SubdomainStrategy["CSIDriver"]):
    unconditional_update = False
    delete_returns_object = True

    def validate(self, obj: CSIDriver, ctx: Context) -> Sequence[FieldError]:
        spec = obj["spec"]
        found: list[FieldError] = []
        if (policy := spec.get("fsGroupPolicy")) is not None and policy not in _FS_GROUP:
            found.append(field.not_supported(SPEC.child("fsGroupPolicy"), policy, _FS_GROUP))
        requests = spec.get("tokenRequests") or ()
        found += _check_tokens(requests, SPEC.child("tokenRequests"))
        for mode in spec.get("volumeLifecycleModes") or ():
            if mode not in _MODES:
                found.append(field.not_supported(SPEC.child("volumeLifecycleModes"), mode, _MODES))
        period, path = spec.get("nodeAllocatableUpdatePeriodSeconds"), "nodeAllocatableUpdatePeriodSeconds"
        if period is not None and period < _SHORTEST_PERIOD:
            words = "must be greater than or equal to 10 seconds"
            found.append(field.invalid(SPEC.child(path), period, words))
        in_secrets = spec.get("serviceAccountTokenInSecrets")
        if in_secrets is not None and not requests:
            words = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            found.append(field.invalid(SPEC.child("serviceAccountTokenInSecrets"), in_secrets, words))
        return found

    def prepare_update(self, new: CSIDriver, old: CSIDriver, ctx: Context) -> None:
        update_generation(new, old, changed=new["spec"] != old["spec"])

    def validate_update(self, new: CSIDriver, old: CSIDriver, ctx: Context) -> Sequence[FieldError]:
        spec, before = new["spec"], old["spec"]
        attach = (spec.get("attachRequired"), before.get("attachRequired"))
        modes = (spec.get("volumeLifecycleModes"), before.get("volumeLifecycleModes"))
        return [
            *self.validate(new, ctx),
            *immutable(*attach, SPEC.child("attachedRequired")),  # upstream's word
            *immutable(*modes, SPEC.child("volumeLifecycleModes")),
        ]


def _driver_cells(obj: CSIDriver, now: float) -> Sequence[object]:
    spec = obj["spec"]
    requests = spec.get("tokenRequests")
    return (
        printers.name(obj),
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        "<unset>" if requests is None else ",".join(r.get("audience", "") for r in requests),
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or ()) or "<none>",
        printers.age(obj, now),
    )


CSI_DRIVER = Kind(
    group=_GROUP,
    kind="CSIDriver",
    plural="csidrivers",
    namespaced=False,
    versions=(Version(name="v1", type="storage/v1.CSIDriver", default=_default_driver),),
    storage="v1",
    strategy=CSIDriverStrategy(),
    printer=printers.printer(
        (
            printers.NAME,
            Column(
                "AttachRequired", type="boolean", description="Whether volumes are attached to nodes first."
            ),
            Column("PodInfoOnMount", type="boolean", description="Whether mounting needs to know the pod."),
            Column(
                "StorageCapacity", type="boolean", description="Whether the space that is left is published."
            ),
            Column("TokenRequests", description="The audiences of tokens that the driver gets."),
            Column(
                "RequiresRepublish",
                type="boolean",
                description="Whether volumes are mounted again and again.",
            ),
            Column("Modes", description="How long volumes live."),
            printers.AGE,
        ),
        _driver_cells,
    ),
)


# -- nodes


def _check_node_driver(driver: CSINodeDriver, seen: set[str], path: Path) -> list[FieldError]:
    name, node_id = driver.get("name", ""), driver.get("nodeID", "")
    found = check_driver_name(name, path.child("name"))
    if not node_id:
        found.append(field.required(path.child("nodeID")))
    if names.size(node_id) > _LONGEST_NODE_ID:
        words = f"must be {_LONGEST_NODE_ID} characters or less"
        found.append(field.invalid(path.child("nodeID"), node_id, words))
    count = (driver.get("allocatable") or {}).get("count")
    found += checks.not_negative(count, path.child("allocatable", "count"))
    if name in seen:
        found.append(field.duplicate(path.child("name"), name))
    seen.add(name)
    keys: set[str] = set()
    for key in driver.get("topologyKeys") or ():
        found += [field.required(path)] if not key else []
        found += [field.duplicate(path, key)] if key in keys else []
        keys.add(key)
        found += checks.qualified_name(key, path)
    return found


class CSINodeStrategy(SubdomainStrategy["CSINode"]):
    unconditional_update = False
    delete_returns_object = True

    def validate(self, obj: CSINode, ctx: Context) -> Sequence[FieldError]:
        seen: set[str] = set()
        drivers = obj["spec"].get("drivers") or ()
        return [p for i, d in enumerate(drivers) for p in _check_node_driver(d, seen, _DRIVERS.index(i))]

    def validate_update(self, new: CSINode, old: CSINode, ctx: Context) -> Sequence[FieldError]:
        """How many volumes a node takes may change; what else a driver says about a node may not."""
        before = {driver["name"]: driver for driver in old["spec"].get("drivers") or ()}
        found = [*self.validate(new, ctx)]
        for driver in new["spec"].get("drivers") or ():
            if (known := before.get(driver.get("name", ""))) is not None:
                found += immutable(_fixed(driver), _fixed(known), _DRIVERS)
        return found


def _fixed(driver: CSINodeDriver) -> dict[str, Any]:
    return {name: value for name, value in driver.items() if name != "allocatable"}


CSI_NODE = Kind(
    group=_GROUP,
    kind="CSINode",
    plural="csinodes",
    namespaced=False,
    versions=(Version(name="v1", type="storage/v1.CSINode"),),
    storage="v1",
    strategy=CSINodeStrategy(),
    printer=printers.printer(
        (
            printers.NAME,
            Column("Drivers", type="integer", description="How many drivers the node has."),
            printers.AGE,
        ),
        lambda obj, now: (
            printers.name(obj),
            len(obj.get("spec", {}).get("drivers") or ()),
            printers.age(obj, now),
        ),
    ),
)


# -- the space that is left


class CSIStorageCapacityStrategy(SubdomainStrategy["CSIStorageCapacity"]):
    unconditional_update = False

    def validate(self, obj: CSIStorageCapacity, ctx: Context) -> Sequence[FieldError]:
        found = checks.label_selector(obj.get("nodeTopology"), Path("nodeTopology"))
        name = obj.get("storageClassName", "")
        found += checks.dns_subdomain(name, Path("storageClassName"))
        capacity = obj.get("capacity")
        if capacity is not None and Quantity.parse(capacity) < Quantity.parse("0"):
            found.append(field.invalid(Path("capacity"), capacity, checks.NOT_NEGATIVE))
        return found

    def validate_update(
        self, new: CSIStorageCapacity, old: CSIStorageCapacity, ctx: Context
    ) -> Sequence[FieldError]:
        topology = (new.get("nodeTopology"), old.get("nodeTopology"))
        return [
            *immutable(*topology, Path("nodeTopology"), type_name="meta/v1.LabelSelector"),
            *immutable(new.get("storageClassName"), old.get("storageClassName"), Path("storageClassName")),
        ]


CSI_STORAGE_CAPACITY = Kind(
    group=_GROUP,
    kind="CSIStorageCapacity",
    plural="csistoragecapacities",
    versions=(Version(name="v1", type="storage/v1.CSIStorageCapacity"),),
    storage="v1",
    strategy=CSIStorageCapacityStrategy(),
    printer=printers.printer(
        (
            printers.NAME,
            Column("StorageClassName", description="The class that the space is for."),
            Column("Capacity", description="The space that is left."),
        ),
        lambda obj, now: (
            printers.name(obj),
            obj.get("storageClassName", ""),
            obj.get("capacity", "<unset>"),
        ),
    ),
)
