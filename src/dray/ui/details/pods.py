"""The page of a pod."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dray.api import claims as resource_claims
from dray.api import pods
from dray.api.groups.resource.printers import claim_state
from dray.api.identity import ObjectKey, device_id
from dray.ui import rows
from dray.ui.details.elements import NONE, Atom, Cell, Chip, Code, Facts, Page, Section, Table
from dray.ui.details.parts import (
    claim_link,
    conditions,
    device_link,
    metadata_facts,
    node_cell,
    split_key,
    timeline,
    yaml_text,
)

if TYPE_CHECKING:
    from dray.api.types.core import Container, ContainerState, ContainerStatus, Pod
    from dray.api.types.resource_v1alpha2 import PodSchedulingContext
    from dray.ui.board import Board


def pod_page(board: Board, id: str) -> Page | None:
    cluster, key = board.cluster, split_key(id)
    pod = cluster.pods.get(key)
    if pod is None:
        return None
    spec, status = pod["spec"], pod.get("status") or {}
    facts: list[tuple[str, Cell]] = [
        ("Node", node_cell(board, pods.node_name(pod))),
        ("Address", status.get("podIP") or ""),
        ("Service account", spec.get("serviceAccountName") or ""),
        ("Scheduler", spec.get("schedulerName") or ""),
        ("Priority", spec.get("priorityClassName") or str(spec.get("priority") or "")),
        ("Pod group", (spec.get("schedulingGroup") or {}).get("podGroupName") or ""),
        ("Node selector", [Code(f"{k}={v}") for k, v in (spec.get("nodeSelector") or {}).items()]),
        ("Scheduling gates", [Code(one["name"]) for one in spec.get("schedulingGates") or ()]),
        *metadata_facts(pod),
    ]
    sections: list[Section] = [
        timeline(board, "pod", id, pod),
        Table("Claims", ("Entry", "Claim", "State", "Devices"), list(_pod_claims(board, key, pod)), "None."),
        Facts("What it is", [(label, cell) for label, cell in facts if cell]),
        Table("Containers", ("Name", "Image", "State", "Restarts", "Claims"), list(_containers(pod))),
        *conditions("Conditions", status.get("conditions") or ()),
    ]
    if (context := cluster.scheduling_contexts.get(key)) is not None:
        sections += _scheduling_context(board, context)
    sections.append(yaml_text(pod))
    row = rows.pod_row(cluster, key, pod, board.reasons.known(key) if board.reasons is not None else "")
    return Page(
        "pod",
        id,
        id,
        row.phase,
        row.reason,
        why=True,
        uid=pod["metadata"].get("uid") or "",
        sections=sections,
    )


def _pod_claims(board: Board, key: ObjectKey, pod: Pod) -> Iterator[Sequence[Cell]]:
    cluster = board.cluster
    known = {one.entry: one for one in resource_claims.references(pod, fixed_names=cluster.fixed_names)}
    for entry in pod["spec"].get("resourceClaims") or ():
        _, template = resource_claims.claim_and_template_names(entry)
        found = known.get(entry["name"])
        name = found.claim if found is not None else None
        yield from _claim_line(
            board, f"{entry['name']}{f' (template {template})' if template else ''}", key, name
        )
    extended = pods.extended_resource_claim(pod)
    if extended is not None:
        yield from _claim_line(board, "extended resources", key, extended.get("resourceClaimName"))


def _claim_line(board: Board, entry: str, pod: ObjectKey, name: str | None) -> Iterator[Sequence[Cell]]:
    claim_key = ObjectKey(pod.namespace, name or "")
    claim = board.cluster.claims.get(claim_key)
    if claim is None:
        yield entry, name or "not made yet", NONE, NONE
        return
    devices: list[Atom] = [device_link(device_id(one)) for one in resource_claims.allocation_results(claim)]
    yield entry, claim_link(claim_key), Chip(claim_state(claim)), devices or NONE


def _containers(pod: Pod) -> Iterator[Sequence[Cell]]:
    status = pod.get("status") or {}
    found: dict[str, ContainerStatus] = {}
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        found[one["name"]] = one
    for container in pods.containers(pod["spec"]):
        yield (
            container["name"],
            container.get("image") or "",
            _container_state(found.get(container["name"])),
            str(found[container["name"]].get("restartCount") or 0) if container["name"] in found else "0",
            ", ".join(_used_claims(container)) or NONE,
        )


def _container_state(status: ContainerStatus | None) -> str:
    state: ContainerState = (status.get("state") if status is not None else None) or {}
    if "running" in state:
        return "running"
    name, detail = (
        ("terminated", state["terminated"]) if "terminated" in state else ("waiting", state.get("waiting"))
    )
    reason = (detail or {}).get("reason")
    return f"{name}: {reason}" if reason else name


def _used_claims(container: Container) -> Iterator[str]:
    for one in (container.get("resources") or {}).get("claims") or ():
        yield f"{one['name']}/{one['request']}" if one.get("request") else one["name"]


def _scheduling_context(board: Board, context: PodSchedulingContext) -> Iterator[Section]:
    spec, status = context.get("spec") or {}, context.get("status") or {}
    yield Facts(
        "Negotiation with drivers (PodSchedulingContext)",
        [
            ("Selected node", node_cell(board, spec.get("selectedNode") or "")),
            (
                "Potential nodes",
                [node_cell(board, one) for one in spec.get("potentialNodes") or ()] or NONE,
            ),
        ],
    )
    lines: list[Sequence[Cell]] = [
        (
            one.get("name") or "",
            [node_cell(board, name) for name in one.get("unsuitableNodes") or ()] or NONE,
        )
        for one in status.get("resourceClaims") or ()
    ]
    yield Table("What drivers answered", ("Claim", "Unsuitable nodes"), lines, "No driver has answered yet.")
