"""scheduling.k8s.io: how important pods are, and which of them start together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.scheduling.podgroup import (
    CompositePodGroupStatusStrategy,
    CompositePodGroupStrategy,
    PodGroupStatusStrategy,
    PodGroupStrategy,
    composite_cells,
    group_cells,
)
from dray.api.groups.scheduling.priorityclass import PRIORITY_CLASS
from dray.api.groups.scheduling.workload import WorkloadStrategy
from dray.api.release import Gates
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version

if TYPE_CHECKING:
    from dray.api.types.scheduling_v1alpha3 import CompositePodGroup
    from dray.api.types.scheduling_v1beta1 import PodGroup

_GROUP: Final = "scheduling.k8s.io"


def _workloads(gates: Gates) -> bool:
    return "GenericWorkload" in gates


def _composites(gates: Gates) -> bool:
    return "CompositePodGroup" in gates


def _default(obj: PodGroup | CompositePodGroup) -> None:
    obj.setdefault("spec", {}).setdefault("disruptionMode", {"single": {}})


def _versions(kind: str, default: Callable[[Any], None] | None = None) -> tuple[Version, ...]:
    return tuple(
        Version(name=name, type=f"scheduling/{name}.{kind}", served=_workloads, default=default)
        for name in ("v1beta1", "v1alpha3")
    )


_POLICY: Final = Column(
    "Policy", description="Whether its members start together (Gang) or one by one (Basic)."
)
_WORKLOAD: Final = Column("Workload", description="The workload whose template it was made from.")

WORKLOAD = Kind(
    group=_GROUP,
    kind="Workload",
    plural="workloads",
    versions=_versions("Workload"),
    storage="v1beta1",
    strategy=WorkloadStrategy(),
    printer=printers.NAME_AND_AGE,
)
POD_GROUP = Kind(
    group=_GROUP,
    kind="PodGroup",
    plural="podgroups",
    versions=_versions("PodGroup", _default),
    storage="v1beta1",
    strategy=PodGroupStrategy(),
    subresources={"status": PodGroupStatusStrategy()},
    printer=printers.printer(
        (
            printers.NAME,
            _POLICY,
            _WORKLOAD,
            Column("Status", description="Whether the group has been scheduled."),
            printers.AGE,
        ),
        group_cells,
    ),
)
COMPOSITE_POD_GROUP = Kind(
    group=_GROUP,
    kind="CompositePodGroup",
    plural="compositepodgroups",
    versions=(
        Version(
            name="v1alpha3",
            type="scheduling/v1alpha3.CompositePodGroup",
            served=_composites,
            default=_default,
        ),
    ),
    storage="v1alpha3",
    strategy=CompositePodGroupStrategy(),
    subresources={"status": CompositePodGroupStatusStrategy()},
    printer=printers.printer((printers.NAME, _POLICY, _WORKLOAD, printers.AGE), composite_cells),
)
KINDS = (PRIORITY_CLASS, WORKLOAD, POD_GROUP, COMPOSITE_POD_GROUP)
