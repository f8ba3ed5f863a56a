"""The page of a class, of today's kind or a classic one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.api.groups.resource.printers import claim_state
from dray.cel.environment.devices import MAX_COST
from dray.explain.devices.evaluation import evaluate
from dray.explain.devices.states import SHOWN
from dray.ui import rows
from dray.ui.details.claims import expressions
from dray.ui.details.elements import NONE, Cell, Chip, Code, Facts, Page, Section, Table
from dray.ui.details.parts import claim_link, metadata_facts, yaml_text

if TYPE_CHECKING:
    from dray.ui.board import Board


def class_page(board: Board, id: str) -> Page | None:
    cluster = board.cluster
    document = cluster.classes.get(id)
    if document is None:
        return _resource_class(board, id)
    spec = document.get("spec") or {}
    counts = board.totals.classes.get(id) or Counter()
    total = sum(counts.values())
    by_state = ", ".join(f"{counts[state]} {state.value}" for state in SHOWN if counts.get(state))
    wanting = [key for key, claim in cluster.claims.items() if id in rows.wanted_classes(cluster, key, claim)]
    facts: list[tuple[str, Cell]] = [
        ("Devices it selects", f"{total}: {by_state}" if total else "none"),
        ("Claims that ask for it", str(len(wanting))),
        ("Extended resource", spec.get("extendedResourceName") or ""),
        *metadata_facts(document),
    ]
    everything = [device for pool in cluster.pools.values() for device in pool.devices or pool.withheld]
    lines: list[Sequence[Cell]] = []
    for text in expressions(spec):
        found = evaluate(text, everything, cluster.features)
        errors = "; ".join(f"{count}: {message}" for message, count, _ in found.errors)
        cost = f"{found.cost} of {MAX_COST:,}"
        lines.append((Code(text), f"{len(found.matching)} of {len(everything)}", errors or NONE, cost))
    sections: list[Section] = [
        Facts("What it is", [(label, cell) for label, cell in facts if cell]),
        Table(
            "Selectors", ("Expression", "Devices", "Errors", "Cost"), lines, "None: it selects every device."
        ),
        Table(
            "Claims",
            ("Claim", "State"),
            [(claim_link(key), Chip(claim_state(cluster.claims[key]))) for key in wanting[:100]],
            "None.",
        ),
        yaml_text(document),
    ]
    return Page("class", id, id, uid=document["metadata"].get("uid") or "", sections=sections)


def _resource_class(board: Board, id: str) -> Page | None:
    """A class of the classic API, whose driver alone knows what it selects."""
    cluster = board.cluster
    document = cluster.resource_classes.get(id)
    if document is None:
        return None
    wanting = [key for key, claim in cluster.claims.items() if id in rows.wanted_classes(cluster, key, claim)]
    facts: list[tuple[str, Cell]] = [
        ("Driver", document.get("driverName") or ""),
        (
            "Allocated by",
            "the scheduler" if document.get("structuredParameters") else "the driver's controller",
        ),
        *metadata_facts(document),
    ]
    claims: list[Sequence[Cell]] = [
        (claim_link(key), Chip(claim_state(cluster.claims[key]))) for key in wanting[:100]
    ]
    sections: list[Section] = [
        Facts("ResourceClass", facts),
        Table("Claims", ("Claim", "State"), claims, "None."),
        yaml_text(document),
    ]
    return Page("class", id, id, uid=document["metadata"].get("uid") or "", sections=sections)
