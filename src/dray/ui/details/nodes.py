"""The page of a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dray.api import claims as resource_claims
from dray.api import pods
from dray.api.identity import ObjectKey, device_id
from dray.explain.allocated import claims_of
from dray.ui import rows
from dray.ui.details.elements import Atom, Cell, Chip, Code, Facts, Page, Section, Table, Tiles
from dray.ui.details.parts import conditions, device_link, metadata_facts, pod_link, yaml_text

if TYPE_CHECKING:
    from dray.ui.board import Board
    from dray.ui.cluster import LiveCluster


def node_page(board: Board, id: str) -> Page | None:
    cluster = board.cluster
    node = cluster.nodes.get(id)
    if node is None:
        return None
    spec, status = node.get("spec") or {}, node.get("status") or {}
    row = rows.node_row(id, node)
    allocatable: Mapping[str, str] = status.get("allocatable") or {}
    facts: list[tuple[str, Cell]] = [
        ("Allocatable", [Code(f"{name}={amount}") for name, amount in allocatable.items()]),
        ("Taints", [Code(one) for one in row.taints]),
        ("Cordoned", "yes" if spec.get("unschedulable") else ""),
        ("Kubelet", (status.get("nodeInfo") or {}).get("kubeletVersion") or ""),
        *metadata_facts(node),
    ]
    pools = [
        str(id_) for id_, counts in board.totals.pools.items() if any(name == id for name, _ in counts.nodes)
    ]
    here = sorted(
        key
        for key, pod in cluster.pods.items()
        if pods.node_name(pod) == id and any(True for _ in claims_of(cluster, pod))
    )
    lines: list[Sequence[Cell]] = [
        (pod_link(key), Chip(pods.phase(cluster.pods[key])), list(_given(cluster, key))) for key in here
    ]
    sections: list[Section] = [
        Tiles("Devices", sorted(pools)),
        Table("Pods with devices", ("Pod", "Phase", "Devices"), lines, "None."),
        Facts("What it is", [(label, cell) for label, cell in facts if cell]),
        *conditions("Conditions", status.get("conditions") or ()),
        yaml_text(node),
    ]
    state = "Ready" if row.ready else "Not ready"
    return Page("node", id, id, state, uid=node["metadata"].get("uid") or "", sections=sections)


def _given(cluster: LiveCluster, pod: ObjectKey) -> Iterator[Atom]:
    for name in claims_of(cluster, cluster.pods[pod]):
        claim = cluster.claims.get(ObjectKey(pod.namespace, name))
        for result in resource_claims.allocation_results(claim or {}):
            yield device_link(device_id(result))
