"""The pages of a device, a pool and a slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dray.allocation import PoolID
from dray.api import claims as resource_claims
from dray.api.identity import DeviceID, ObjectKey, device_id
from dray.explain.devices.states import DeviceView, in_class, readable, taint_text
from dray.ui import rows
from dray.ui.details.elements import (
    NONE,
    Atom,
    Bars,
    Cell,
    Code,
    Facts,
    Link,
    Page,
    Section,
    Table,
    Text,
    Tiles,
    Time,
)
from dray.ui.details.parts import (
    claim_link,
    class_link,
    conditions,
    metadata_facts,
    node_cell,
    pod_link,
    yaml_text,
)

if TYPE_CHECKING:
    from dray.api.types import resource
    from dray.ui.board import Board
    from dray.ui.cluster import LiveCluster


def device_page(board: Board, id: str) -> Page | None:
    cluster = board.cluster
    driver, _, rest = id.partition("/")
    pool_name, _, name = rest.rpartition("/")
    pool = cluster.pools.get(PoolID(driver, pool_name))
    if pool is None:
        return None
    view = next((one for one in cluster.devices(pool) if one.id.device == name), None)
    device = next((one for one in (*pool.devices, *pool.withheld) if one.name == name), None)
    if view is None or device is None:
        return None
    document = view.document
    part = cluster.usage.of(pool.id)
    facts: list[tuple[str, Cell]] = [
        ("Node", node_cell(board, view.node)),
        ("Driver", driver),
        ("Pool", Link(pool_name, "pool", str(pool.id))),
        (
            "Classes that select it",
            [class_link(board, c) for c in cluster.classes if in_class(cluster, c)(device)] or NONE,
        ),
    ]
    if document.get("allowMultipleAllocations"):
        facts.append(("Shared", "several claims may have it at once"))
    if document.get("bindsToNode"):
        facts.append(("Binds to node", "yes"))
    if conditions := document.get("bindingConditions"):
        facts.append(("Binding conditions", [Code(one) for one in conditions]))
    sections: list[Section] = [
        Facts("Where it is", facts),
        Table("Who has it", ("Claim", "Pods", "Request", "Share"), list(_uses(cluster, view)), "Nobody."),
        Table("Attributes", ("Name", "Value"), list(_attributes(document)), "None."),
    ]
    if document.get("capacity"):
        consumed = part.consumed.get(name) or {}
        bars = {bar.name: bar for bar in rows.capacity_bars(view, consumed)}
        taken = name in part.taken
        lines: list[Sequence[Cell]] = [
            (c, readable(str(one.get("value"))), "all of it" if taken else Bars((bars[c],)))
            for c, one in (document.get("capacity") or {}).items()
        ]
        sections.append(Table("Capacity", ("Name", "Total", "Used"), lines))
    if device.consumes_counters:
        lines = [
            (one.counter_set, counter, readable(str(value.get("value"))))
            for one, consumption in zip(
                device.consumes_counters, document.get("consumesCounters") or (), strict=True
            )
            for counter, value in (consumption.get("counters") or {}).items()
        ]
        sections.append(Table("Counters it consumes", ("Counter set", "Counter", "Amount"), lines))
    taints: list[Sequence[Cell]] = [
        (Code(taint_text(one)), Time(one.get("timeAdded") or "")) for one in device.taints
    ]
    if taints:
        sections.append(Table("Taints", ("Taint", "Since"), taints))
    sections += _device_status(cluster, view)
    sections.append(yaml_text(document))
    return Page("device", id, name, view.state.value, view.note or "", sections=sections)


def _uses(cluster: LiveCluster, view: DeviceView) -> Iterator[Sequence[Cell]]:
    for holder in view.holders:
        claim = cluster.claims.get(holder.claim)
        given = [r for r in resource_claims.allocation_results(claim or {}) if device_id(r) == view.id]
        yield (
            claim_link(holder.claim),
            [pod_link(pod) for pod in holder.pods] or NONE,
            ", ".join(one["request"] for one in given),
            ", ".join(share_text(one) for one in given) or NONE,
        )


def share_text(result: resource.DeviceRequestAllocationResult) -> str:
    parts = [f"{name} {amount}" for name, amount in (result.get("consumedCapacity") or {}).items()]
    if result.get("adminAccess"):
        parts.append("admin access")
    return ", ".join(parts) or ("a share" if result.get("shareID") else "the whole device")


def _attributes(document: resource.Device) -> Iterator[Sequence[Cell]]:
    for name, value in (document.get("attributes") or {}).items():
        for kind, content in value.items():
            yield Code(name), f"{content} ({kind})" if kind == "version" else str(content)


def _device_status(cluster: LiveCluster, view: DeviceView) -> Iterator[Section]:
    """What the driver reports about the device in the status of claims."""
    for holder in view.holders:
        claim = cluster.claims.get(holder.claim)
        for one in ((claim or {}).get("status") or {}).get("devices") or ():
            if (one["driver"], one["pool"], one["device"]) == view.id:
                yield from reported_status(str(holder.claim), one)


def reported_status(of: str, one: resource.AllocatedDeviceStatus) -> Iterator[Section]:
    yield from conditions(f"What the driver reports ({of})", one.get("conditions") or ())
    network = one.get("networkData") or {}
    facts: list[tuple[str, Cell]] = [
        ("Interface", network.get("interfaceName") or ""),
        ("Addresses", [Code(ip) for ip in network.get("ips") or ()]),
        ("Hardware address", network.get("hardwareAddress") or ""),
    ]
    if network:
        yield Facts(f"Network ({of})", [(label, value) for label, value in facts if value])
    if one.get("data"):
        import yaml

        yield Text(
            f"Data of the driver ({of})", yaml.safe_dump(one["data"], sort_keys=False, allow_unicode=True)
        )


def pool_page(board: Board, id: str) -> Page | None:
    cluster = board.cluster
    driver, _, name = id.partition("/")
    pool = cluster.pools.get(PoolID(driver, name))
    if pool is None:
        return None
    slices = cluster.slices_of(pool.id)
    older = [one for one in cluster.inventory.slices_of(pool.id) if one not in slices]
    expected = slices[0].expected if slices else 0
    facts: list[tuple[str, Cell]] = [
        ("Driver", driver),
        ("Generation", str(slices[0].generation) if slices else NONE),
        ("Slices", f"{len(slices)} of {expected}"),
        ("Devices", str(len(pool.devices or pool.withheld))),
    ]
    summary = ""
    if pool.incomplete:
        missing = expected - len(slices)
        words = "1 slice is" if missing == 1 else f"{missing} slices are"
        summary = f"{words} missing of generation {slices[0].generation}; no device of the pool is offered before the pool is complete."
    elif pool.invalid:
        summary = f"The pool is invalid: {pool.invalid}. None of its devices is offered."
    if older:
        facts.append(("Older slices", f"{len(older)} of earlier generations, which do not count"))
    lines: list[Sequence[Cell]] = [
        (
            Link(one.name, "slice", one.name),
            str(one.generation),
            node_cell(board, one.local),
            str(len(one.devices)),
            ", ".join(counter["name"] for counter in one.counter_sets) or NONE,
        )
        for one in (*slices, *older)
    ]
    sections: list[Section] = [
        Facts("What it is", facts),
        Tiles("Devices", [id]),
        Table("Slices", ("Slice", "Generation", "Node", "Devices", "Counter sets"), lines),
    ]
    state = "incomplete" if pool.incomplete else "invalid" if pool.invalid else "complete"
    return Page("pool", id, name, state, summary, sections=sections)


def slice_page(board: Board, id: str) -> Page | None:
    document = board.cluster.slices.get(id)
    if document is None:
        return None
    written = board.cluster.objects["classic_slices"].get(ObjectKey("", id), document)
    spec = document["spec"]
    pool = PoolID(spec["driver"], spec["pool"]["name"])
    where: Atom = node_cell(board, spec.get("nodeName") or "")
    if spec.get("allNodes"):
        where = "all nodes"
    elif spec.get("nodeSelector"):
        where = "selected nodes"
    elif spec.get("perDeviceNodeSelection"):
        where = "each device says for itself"
    names = [str(DeviceID(*pool, one["name"])) for one in spec.get("devices") or ()]
    sections: list[Section] = [
        Facts(
            "What it is",
            [
                ("Driver", spec["driver"]),
                ("Pool", Link(pool.pool, "pool", str(pool))),
                ("Generation", str(spec["pool"].get("generation"))),
                ("Slices of the pool", str(spec["pool"].get("resourceSliceCount"))),
                ("Nodes", where),
                ("Devices", str(len(names))),
                *metadata_facts(document),
            ],
        ),
    ]
    if names:
        sections.append(Tiles("Devices", [str(pool)], names))
    if spec.get("sharedCounters"):
        lines: list[Sequence[Cell]] = [
            (one["name"], counter, readable(str(value.get("value"))))
            for one in spec["sharedCounters"]
            for counter, value in (one.get("counters") or {}).items()
        ]
        sections.append(Table("Counters", ("Counter set", "Counter", "Amount"), lines))
    sections.append(yaml_text(written))
    return Page("slice", id, id, uid=document["metadata"].get("uid") or "", sections=sections)
