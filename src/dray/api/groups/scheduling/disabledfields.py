"""Fields of groups of pods that are dropped while their feature gate is off, unless the old object has them."""

from __future__ import annotations

from typing import Any, Final

from dray.api.release import Gates

_GATED: Final = (
    ("TopologyAwareWorkloadScheduling", "schedulingConstraints"),
    ("DRAWorkloadResourceClaims", "resourceClaims"),
    ("PodGroupPreemptionPolicy", "preemptionPolicy"),
    ("CompositePodGroup", "parentCompositePodGroupName"),
)


def drop_from_group(spec: Any, old: Any, gates: Gates) -> None:
    """From a PodGroup's spec, or a template of one."""
    for gate, name in _GATED:
        if gate not in gates and not old.get(name) and spec.get(name) is not None:
            del spec[name]


def drop_from_composite(spec: Any, old: Any, gates: Gates) -> None:
    """Of a CompositePodGroup, or a template of one, only the preemption policy has a gate of its own."""
    if "PodGroupPreemptionPolicy" not in gates and not old.get("preemptionPolicy"):
        spec.pop("preemptionPolicy", None)


def drop_from_workload(spec: Any, old: Any, gates: Gates) -> None:
    before = old.get("podGroupTemplates") or ()
    for i, template in enumerate(spec.get("podGroupTemplates") or ()):
        drop_from_group(template, before[i] if i < len(before) else {}, gates)
        template.setdefault("schedulingConstraints", None)
    if "CompositePodGroup" not in gates and not old.get("compositePodGroupTemplates"):
        spec.pop("compositePodGroupTemplates", None)
    named = {template.get("name"): template for template in old.get("compositePodGroupTemplates") or ()}
    for template in spec.get("compositePodGroupTemplates") or ():
        known = named.get(template.get("name"), {})
        drop_from_composite(template, known, gates)
        drop_from_workload(template, known, gates)
