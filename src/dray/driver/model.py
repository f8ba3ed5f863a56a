"""What a driver publishes and what it is asked to prepare, as plain frozen data.

Published: ``Device`` in ``Slice`` in ``Pool``. Asked for: a ``Claim`` with the ``Allocated`` devices that belong to
this driver. Answered: one ``Prepared`` per device. Field names follow Python; ``document()`` gives the API's form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from dray.api.claims import base_request
from dray.api.quantity import Quantity

if TYPE_CHECKING:
    pass

if TYPE_CHECKING:
    from dray.api.types import core, resource, resource_v1alpha2
    from dray.kubelet_api import cdi

T = TypeVar("T")
_NO_CLAIM: resource.ResourceClaim = {}

#: Devices that fit into one ResourceSlice, plain and with taints, counters or list attributes.
DEVICES_PER_SLICE = 128
DEVICES_PER_RICH_SLICE = 64


class Version(str):
    """An attribute value that is a semantic version rather than a string."""


Attribute = bool | int | str | Version | Sequence[bool] | Sequence[int] | Sequence[str] | Sequence[Version]


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """An amount of something; with a policy it can be consumed in portions by several claims."""

    value: str
    default: str = ""
    valid_values: Sequence[str] = ()
    minimum: str = ""
    maximum: str = ""
    step: str = ""

    def document(self) -> resource.DeviceCapacity:
        out: resource.DeviceCapacity = {"value": _quantity(self.value)}
        policy: resource.CapacityRequestPolicy = {}
        if self.default:
            policy["default"] = _quantity(self.default)
        if self.valid_values:
            policy["validValues"] = [_quantity(v) for v in self.valid_values]
        span: resource.CapacityRequestPolicyRange = {}
        if self.minimum:
            span["min"] = _quantity(self.minimum)
        if self.maximum:
            span["max"] = _quantity(self.maximum)
        if self.step:
            span["step"] = _quantity(self.step)
        if span:
            policy["validRange"] = span
        if policy:
            out["requestPolicy"] = policy
        return out


class Taint(NamedTuple):
    key: str
    effect: str  # NoSchedule, NoExecute or None
    value: str = ""
    time_added: str = ""

    def document(self) -> resource.DeviceTaint:
        out: resource.DeviceTaint = {
            "key": self.key,
            "value": self.value,
            "effect": self.effect,
            "timeAdded": self.time_added,
        }
        return _without_empty(out)


class Counters(NamedTuple):
    """Named amounts: a counter set that a slice offers, or what a device takes from one."""

    name: str
    values: Mapping[str, str]

    def offered(self) -> resource.CounterSet:
        """The counter set, as a slice offers it."""
        return {"name": self.name, "counters": self._counters()}

    def consumed(self) -> resource.DeviceCounterConsumption:
        """What a device takes from the counter set."""
        return {"counterSet": self.name, "counters": self._counters()}

    def _counters(self) -> Mapping[str, resource.Counter]:
        return {name: {"value": _quantity(value)} for name, value in self.values.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """A device as the scheduler sees it. ``extra`` takes fields that this class has no name for."""

    name: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, str | Capacity] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    consumes: Sequence[Counters] = ()
    many_allocations: bool = False
    node_name: str = ""
    node_selector: core.NodeSelector | None = None
    all_nodes: bool = False
    binds_to_node: bool = False
    binding_conditions: Sequence[str] = ()
    binding_failure_conditions: Sequence[str] = ()
    extra: Mapping[str, object] = field(default_factory=dict)  # fields of newer releases, by their names

    @property
    def rich(self) -> bool:
        """Whether the smaller limit of devices per slice applies."""
        listed = any(isinstance(v, Sequence) and not isinstance(v, str) for v in self.attributes.values())
        return bool(self.taints or self.consumes or listed)

    def document(self) -> resource.Device:
        out: resource.Device = {
            "name": self.name,
            "attributes": {k: attribute(v) for k, v in self.attributes.items()},
            "capacity": {k: _capacity(v) for k, v in self.capacity.items()},
            "consumesCounters": [c.consumed() for c in self.consumes],
            "nodeName": self.node_name,
            "nodeSelector": self.node_selector or {},
            "allNodes": self.all_nodes,
            "taints": [t.document() for t in self.taints],
            "bindsToNode": self.binds_to_node,
            "bindingConditions": list(self.binding_conditions),
            "bindingFailureConditions": list(self.binding_failure_conditions),
            "allowMultipleAllocations": self.many_allocations,
        }
        return _without_empty(cast("resource.Device", {**out, **self.extra}))


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """What goes into one ResourceSlice: devices, or the counters they share, never both."""

    devices: Sequence[Device] = ()
    counters: Sequence[Counters] = ()
    per_device_nodes: bool = False

    def document(self) -> resource.ResourceSliceSpec:
        out: resource.ResourceSliceSpec = {
            "perDeviceNodeSelection": self.per_device_nodes,
            "devices": [d.document() for d in self.devices],
            "sharedCounters": [c.offered() for c in self.counters],
        }
        return _without_empty(out)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """Devices that belong together. Without a node selector and ``all_nodes`` they are the publishing node's.

    The order of slices and devices is the order in which the scheduler tries them.
    """

    slices: Sequence[Slice] = ()
    node_selector: core.NodeSelector | None = None
    all_nodes: bool = False
    generation: int = 0

    @classmethod
    def of(
        cls,
        devices: Iterable[Device],
        *,
        counters: Iterable[Counters] = (),
        node_selector: core.NodeSelector | None = None,
        all_nodes: bool = False,
    ) -> Pool:
        """A pool with its devices spread over as many slices as the limits ask for; counters come first."""
        devices, counters = list(devices), list(counters)
        size = DEVICES_PER_RICH_SLICE if any(d.rich for d in devices) else DEVICES_PER_SLICE
        slices = [Slice(counters=counters[i : i + 8]) for i in range(0, len(counters), 8)]
        slices += [Slice(devices=devices[i : i + size]) for i in range(0, len(devices), size)]
        return cls(slices=slices or [Slice()], node_selector=node_selector, all_nodes=all_nodes)


class ClaimRef(NamedTuple):
    """All that is known of a claim when it is unprepared: the object may be gone by then."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class DeviceID(NamedTuple):
    """One device, or one share of it, within a driver."""

    pool: str
    device: str
    share: str = ""

    @property
    def unique(self) -> str:
        """A name for it within a claim."""
        return f"{self.device}-{self.share}" if self.share else self.device


@dataclass(frozen=True, kw_only=True, slots=True)
class Allocated:
    """One device that a claim was given, with the configuration meant for it, weakest first."""

    id: DeviceID
    request: str
    admin: bool = False
    consumed: Mapping[str, str] = field(default_factory=dict)
    config: Sequence[Mapping[str, Any]] = ()  # opaque parameters
    binding_conditions: Sequence[str] = ()

    @property
    def name(self) -> str:
        return self.id.device


@dataclass(frozen=True, kw_only=True, slots=True)
class Handle:
    """What the allocation of a classic claim (Kubernetes 1.26 to 1.30) says to a driver.

    ``data`` are the words of the driver's own controller. With structured parameters the scheduler allocated, and
    ``structured`` says which resources of which node, with the vendor's parameters.
    """

    data: str = ""
    structured: resource_v1alpha2.StructuredResourceHandle | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """An allocated claim as one driver sees it. Classic ones come with handles and without a document."""

    ref: ClaimRef
    devices: Sequence[Allocated]
    handles: Sequence[Handle] = ()
    pod_claim_name: str = ""
    document: resource.ResourceClaim = field(default_factory=lambda: _NO_CLAIM, repr=False)

    @classmethod
    def of(cls, document: resource.ResourceClaim, driver: str) -> Claim:
        """Reads a ResourceClaim (v1 or any version with the same status)."""
        metadata = document["metadata"]
        allocation = document["status"]["allocation"]["devices"]
        configs = allocation.get("config") or ()
        devices = [
            Allocated(
                id=DeviceID(r["pool"], r["device"], r.get("shareID") or ""),
                request=r["request"],
                admin=bool(r.get("adminAccess")),
                consumed=r.get("consumedCapacity") or {},
                config=_config_for(r["request"], configs, driver),
                binding_conditions=r.get("bindingConditions") or (),
            )
            for r in allocation.get("results") or []
            if r["driver"] == driver
        ]
        annotations = metadata.get("annotations") or {}
        return cls(
            ref=ClaimRef(metadata["namespace"], metadata["name"], metadata["uid"]),
            devices=devices,
            pod_claim_name=annotations.get("resource.kubernetes.io/pod-claim-name", ""),
            document=document,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Edits:
    """What a container that uses a device gets: environment, device nodes, mounts, hooks (CDI's container edits).

    Nodes, mounts and hooks are CDI objects as they stand in a spec.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    device_nodes: Sequence[cdi.DeviceNode] = ()
    mounts: Sequence[cdi.Mount] = ()
    hooks: Sequence[cdi.Hook] = ()
    gids: Sequence[int] = ()

    def document(self) -> cdi.ContainerEdits:
        out: cdi.ContainerEdits = {
            "env": [f"{k}={v}" for k, v in self.env.items()],
            "deviceNodes": list(self.device_nodes),
            "mounts": list(self.mounts),
            "hooks": list(self.hooks),
            "additionalGids": list(self.gids),
        }
        return _without_empty(out)


@dataclass(frozen=True, kw_only=True, slots=True)
class Metadata:
    """What a container may read about its device in a file."""

    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    network: resource.NetworkDeviceData | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A device made ready. No edits and no ids means: nothing has to reach the container."""

    device: Allocated
    edits: Edits | None = None
    cdi_ids: Sequence[str] = ()  # devices of CDI specs that exist already
    metadata: Metadata | None = None


def attribute(value: Attribute) -> resource.DeviceAttribute:
    """The API's tagged form of an attribute value."""
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    if isinstance(value, Version):
        return {"version": str(value)}
    if isinstance(value, str):
        return {"string": value}
    items: list[Any] = list(value)
    tag = next(iter(attribute(items[0]))) if items else "string"
    return cast("resource.DeviceAttribute", {f"{tag}s": items})


def _config_for(
    request: str, configs: Sequence[resource.DeviceAllocationConfiguration], driver: str
) -> list[Mapping[str, Any]]:
    # Class before claim, each in its order: the last one wins.
    ordered = sorted(configs, key=lambda c: c.get("source") != "FromClass")
    names = {request, base_request(request)}
    return [
        c["opaque"]["parameters"]
        for c in ordered
        if (c.get("opaque") or {}).get("driver") == driver
        and (not c.get("requests") or names & set(c["requests"]))
    ]


def _capacity(value: str | Capacity) -> resource.DeviceCapacity:
    return value.document() if isinstance(value, Capacity) else {"value": _quantity(value)}


def _without_empty(document: T) -> T:
    """The document without fields that say nothing."""
    return cast("T", {k: v for k, v in cast("Mapping[str, object]", document).items() if v})


def _quantity(text: str) -> str:
    return str(Quantity.parse(text))
