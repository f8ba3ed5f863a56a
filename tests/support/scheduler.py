"""Small pods and nodes for the scheduler's tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from dray.allocation import Features
from dray.api.release import NEWEST, EffectiveVersion
from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.nodes import ClusterCache
from dray.placement.cache.pods import PodInfo
from dray.placement.config import SchedulerProfile
from dray.placement.decision import decide
from dray.placement.outcome import Bind, Outcome
from dray.placement.placement import Placement
from dray.placement.plugins.dynamic_resources import (
    DeviceReservation,
    DynamicResources,
    NodePlan,
    Options,
)
from dray.placement.policies.registry import policy_type
from dray.placement.policies.scorer import Scorer
from dray.placement.preemption import DisruptionBudget
from dray.placement.profiles import Framework
from dray.placement.quirks import PlacementQuirks

_serial = itertools.count()


def pod(name: str = "", **spec: Any) -> PodInfo:
    """A pod of one container; ``requests``, ``labels`` and ``status`` are shorthands."""
    serial = next(_serial)
    requests, labels, status = spec.pop("requests", {}), spec.pop("labels", {}), spec.pop("status", {})
    metadata = {
        "name": name or f"pod-{serial}",
        "namespace": spec.pop("namespace", "default"),
        "uid": f"uid-{serial}",
        "labels": labels,
        "creationTimestamp": f"2026-01-01T00:00:{serial % 60:02d}Z",
        **spec.pop("metadata", {}),
    }
    container = {"name": "main", "image": "pause", "resources": {"requests": requests}}
    return PodInfo({"metadata": metadata, "spec": {"containers": [container], **spec}, "status": status})


def node(name: str, *, cpu: str = "4", memory: str = "8Gi", pods: str = "110", **more: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, **more.pop("labels", {})}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": more.pop("spec", {}),
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods, **more}},
    }


def cluster(*nodes: dict[str, Any]) -> ClusterCache:
    made = ClusterCache()
    for document in nodes:
        made.set_node(document)
    return made


DRIVER = "gpu.example.com"


def slice_of(name: str, devices: Iterable[str | dict[str, Any]]) -> dict[str, Any]:
    """The devices of one node, by name or in full."""
    return {
        "metadata": {"name": f"{name}-slice"},
        "spec": {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": d} if isinstance(d, str) else d for d in devices],
        },
    }


def claim(name: str = "", *, count: int = 1, selector: str = "", **status: Any) -> dict[str, Any]:
    """A claim for so many devices."""
    serial = next(_serial)
    wanted: dict[str, Any] = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    if selector:
        wanted["selectors"] = [{"cel": {"expression": selector}}]
    return {
        "metadata": {
            "name": name or f"claim-{serial}", "namespace": "default", "uid": f"claim-uid-{serial}", "resourceVersion": "1",
        },
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": wanted}]}},
        "status": status,
    }  # fmt: skip


class Harness:
    """Nodes with devices, and pods that are placed on them one after the other, as the scheduler does it."""

    def __init__(
        self,
        nodes: Mapping[str, Iterable[str | dict[str, Any]]],
        *,
        quirks: PlacementQuirks | None = None,
        **profile: Any,
    ) -> None:
        self.profile = SchedulerProfile(**profile)
        self.cluster = cluster(*(node(name) for name in nodes))
        self.claim_cache = ClaimCache(freed=self._freed)
        self.claim_cache.set_class({"metadata": {"name": "gpu"}, "spec": {}})
        for name, devices in nodes.items():
            self.claim_cache.set_slice(slice_of(name, devices))
        features = Features.of(NEWEST, EffectiveVersion().gates())
        quirks = quirks or PlacementQuirks()
        self.options = Options(features=features, quirks=quirks)
        scorer = Scorer(
            policy_type(self.profile.device_policy),
            self.claim_cache.inventory,
            self.claim_cache.usage,
            features,
        )
        self.placement = Placement(
            self.cluster,
            plugins=self.profile.plugins,
            scorer=scorer,
            served_by_devices=self.claim_cache.classes,
            quirks=quirks,
        )
        devices = DynamicResources(
            self.claim_cache,
            self.options,
            self.placement.nominator,
            scorer=scorer,
            new_share_id=lambda: f"share-{next(_serial)}",
        )
        self.framework = Framework(self.profile, quirks, self.placement, devices)
        self.budgets: list[DisruptionBudget] = []

    def _freed(self, nodes: set[str] | None) -> None:
        if nodes is None:
            self.cluster.touch_all()
        else:
            for name in nodes:
                self.cluster.touch(name)

    def user(self, *wanted: dict[str, Any], **spec: Any) -> PodInfo:
        """A pod with these claims, which are made known."""
        for one in wanted:
            if self.claim_cache.claim("default", one["metadata"]["name"]) is None:
                self.claim_cache.set_claim(one)
        entries = [
            {"name": f"c{i}", "resourceClaimName": one["metadata"]["name"]} for i, one in enumerate(wanted)
        ]
        return pod(resourceClaims=entries, **spec)

    def decide(self, wanted: PodInfo) -> Outcome:
        return decide(wanted, self.framework, budgets=lambda: self.budgets)

    def place(self, wanted: PodInfo) -> list[tuple[str, str]]:
        """Place the pod and write its claims as the API server would have them; its devices as (node, device)."""
        decision = self.decide(wanted)
        assert isinstance(decision, Bind), decision
        self.cluster.add_pod(wanted, decision.node)
        reserved = reservation(decision)
        plan = reserved.plan
        given = dict(zip((c["metadata"]["uid"] for c in plan.claims), plan.results, strict=True))
        devices: list[tuple[str, str]] = []
        for old in reserved.claims:
            status = dict(old.get("status") or {})
            status.setdefault("allocation", given.get(old["metadata"]["uid"]))
            user = {"resource": "pods", "name": wanted.name, "uid": wanted.uid}
            status["reservedFor"] = [*status.get("reservedFor", ()), user]
            version = str(int(old["metadata"]["resourceVersion"]) + 1)
            self.claim_cache.set_claim(
                {**old, "metadata": {**old["metadata"], "resourceVersion": version}, "status": status}
            )
            devices += [(r["pool"], r["device"]) for r in status["allocation"]["devices"]["results"]]
        return devices


def reservation(decision: Outcome) -> DeviceReservation:
    """What a decision reserves for claims of the current generation; nothing for a pod without claims."""
    assert isinstance(decision, Bind), decision
    found = decision.reservation
    assert found is None or isinstance(found, DeviceReservation)
    return found or DeviceReservation((), NodePlan((), ()))
