"""The page of a claim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dray.api import claims as resource_claims
from dray.api.groups.resource.printers import claim_state
from dray.api.identity import ObjectKey, device_id
from dray.explain.allocated import matched_values
from dray.explain.pending import request_of
from dray.ui.details.devices import reported_status, share_text
from dray.ui.details.elements import NONE, Atom, Cell, Code, Facts, Link, Page, Section, Table
from dray.ui.details.parts import (
    class_link,
    device_link,
    metadata_facts,
    pod_link,
    split_key,
    timeline,
    yaml_text,
)

if TYPE_CHECKING:
    from dray.api.types import resource
    from dray.api.types.resource import DeviceClassSpec, DeviceSubRequest, ExactDeviceRequest, ResourceClaim
    from dray.ui.board import Board


def claim_page(board: Board, id: str) -> Page | None:
    cluster, key = board.cluster, split_key(id)
    claim = cluster.claims.get(key)
    if claim is None:
        return None
    users = cluster.users_of(key)
    waiting = sorted(cluster.pods_of_claim.get(key, set()) - set(users))
    facts: list[tuple[str, Cell]] = [
        ("Reserved for", [pod_link(pod) for pod in users] or NONE),
        ("Also used by", [pod_link(pod) for pod in waiting]),
        *metadata_facts(claim),
    ]
    sections: list[Section] = [
        timeline(board, "claim", id, claim),
        Facts("What it is", [(label, cell) for label, cell in facts if cell]),
    ]
    classic = cluster.classic_claims.get(key)
    if classic is not None:
        spec, status = classic["spec"], classic.get("status") or {}
        reference = spec.get("parametersRef") or {}
        wanted = spec.get("resourceClassName") or ""
        more: list[tuple[str, Cell]] = [
            (
                "Resource class",
                Link(wanted, "class", wanted) if wanted in cluster.resource_classes else wanted,
            ),
            ("Allocation", spec.get("allocationMode") or ""),
            ("Driver", status.get("driverName") or NONE),
            ("Parameters", f"{reference.get('kind')} {reference.get('name')}" if reference else NONE),
        ]
        sections.append(Facts("Classic claim", more))
        given: list[Sequence[Cell]] = [
            (device_link(device_id(one)),) for one in resource_claims.allocation_results(claim)
        ]
        if given:
            sections.append(Table("What it has", ("Device",), given))
    else:
        columns = ("Request", "Class", "Wanted", "Selectors", "Tolerations")
        sections.append(Table("What it asks for", columns, list(_requests(board, claim)), "Nothing."))
        constraints = ((claim.get("spec") or {}).get("devices") or {}).get("constraints") or ()
        if constraints:
            lines: list[Sequence[Cell]] = [
                (
                    ", ".join(one.get("requests") or ()) or "all requests",
                    Code(one.get("matchAttribute") or one.get("distinctAttribute") or ""),
                    "the same for all" if one.get("matchAttribute") else "different for each",
                )
                for one in constraints
            ]
            sections.append(Table("Constraints", ("Requests", "Attribute", "Must be"), lines))
        columns = ("Request", "Device", "Chosen by", "It has", "Share")
        sections.append(
            Table("What it has", columns, list(_results(board, key, claim)), "Nothing is allocated.")
        )
    for one in (claim.get("status") or {}).get("devices") or ():
        sections += reported_status(f"{one['driver']}/{one['pool']}/{one['device']}", one)
    sections.append(yaml_text(claim if classic is None else classic))
    return Page(
        "claim",
        id,
        id,
        claim_state(claim),
        why=True,
        uid=claim["metadata"].get("uid") or "",
        sections=sections,
    )


def _requests(board: Board, claim: ResourceClaim) -> Iterator[Sequence[Cell]]:
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        exact = request.get("exactly")
        admin = ", admin access" if exact and exact.get("adminAccess") else ""
        alternatives: list[tuple[str, ExactDeviceRequest | DeviceSubRequest]] = []
        if exact:
            alternatives.append((request["name"], exact))
        alternatives += [
            (f"{request['name']}/{one['name']}", one) for one in request.get("firstAvailable") or ()
        ]
        for name, one in alternatives:
            wanted = "all devices" if one.get("allocationMode") == "All" else f"{one.get('count') or 1}"
            wanted += admin
            if amounts := (one.get("capacity") or {}).get("requests"):
                wanted += ", " + ", ".join(f"{what} {amount}" for what, amount in amounts.items())
            yield (
                name,
                class_link(board, one.get("deviceClassName") or ""),
                wanted,
                [Code(text) for text in expressions(one)] or NONE,
                [Code(toleration_text(t)) for t in one.get("tolerations") or ()] or NONE,
            )


def expressions(selecting: ExactDeviceRequest | DeviceSubRequest | DeviceClassSpec) -> Iterator[str]:
    for one in selecting.get("selectors") or ():
        yield (one.get("cel") or {}).get("expression") or ""


def toleration_text(toleration: resource.DeviceToleration) -> str:
    key = toleration.get("key") or "every key"
    value = f"={toleration['value']}" if toleration.get("value") else ""
    return f"{key}{value}:{toleration.get('effect') or 'every effect'}"


def _results(board: Board, key: ObjectKey, claim: ResourceClaim) -> Iterator[Sequence[Cell]]:
    cluster = board.cluster
    for result in resource_claims.allocation_results(claim):
        request = request_of([claim], str(key), result["request"])
        class_name = request.get("deviceClassName") or ""
        of_class = (cluster.classes.get(class_name) or {}).get("spec") or {}
        device = cluster.inventory.device(device_id(result))
        matched = dict.fromkeys(matched_values(cluster, request, device)) if device is not None else {}
        chosen: list[Atom] = [Code(text) for text in (*expressions(request), *expressions(of_class))]
        yield (
            result["request"],
            device_link(device_id(result)),
            chosen or class_link(board, class_name),
            [Code(text) for text in matched] or ("no longer published" if device is None else NONE),
            share_text(result),
        )
