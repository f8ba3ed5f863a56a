"""apiregistration.k8s.io: who serves which version of which group. Every one is served here, so the kind is read-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.release.serving import GroupVersion
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import SubdomainStrategy

if TYPE_CHECKING:
    from dray.api.types.apiregistration import APIService

GROUP: Final = "apiregistration.k8s.io"
PLURAL: Final = "apiservices"
_MANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
_CUSTOM_PRIORITY: Final = 1000
#: The order of groups in discovery, as numbers; groups that are not here come behind them.
_PRIORITIES: Final = {
    "": 18000, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700, "authorization.k8s.io": 17600,
    "autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300, "networking.k8s.io": 17200, "policy": 17100,
    "rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700, "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500,
    "node.k8s.io": 16300, "discovery.k8s.io": 16200, "resource.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100,
}  # fmt: skip
_STAGES: Final = {"ga": 15, "beta": 9, "alpha": 1}


def local_service(served: GroupVersion, now: str, *, custom: bool) -> APIService:
    """What is said about a version that this server serves itself."""
    group, version = served
    stage = 100 if custom else _STAGES[served.stage]
    return {
        "metadata": {
            "name": f"{version}.{group}",
            "uid": f"local-{version}.{group}",
            "creationTimestamp": now,
            "labels": {_MANAGED: "true" if custom else "onstart"},
        },
        "spec": {
            **({"group": group} if group else {}),
            "version": version,
            "groupPriorityMinimum": _CUSTOM_PRIORITY if custom else _PRIORITIES.get(group, 15000),
            "versionPriority": 30 if (group, version) == ("autoscaling", "v2") else stage if group else 1,
        },
        "status": {
            "conditions": [
                {
                    "type": "Available",
                    "status": "True",
                    "lastTransitionTime": now,
                    "reason": "Local",
                    "message": "Local APIServices are always available",
                }
            ]
        },
    }


def _cells(obj: APIService, now: float) -> Sequence[object]:
    service = obj.get("spec", {}).get("service")
    conditions = obj.get("status", {}).get("conditions") or ()
    available = next((c for c in conditions if c.get("type") == "Available"), None)
    shown = "Unknown" if available is None else available.get("status", "")
    if available is not None and shown != "True":
        shown = f"{shown} ({available.get('reason', '')})"
    name = "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"
    return printers.name(obj), name, shown, printers.age(obj, now)


KINDS = (
    Kind(
        group=GROUP,
        kind="APIService",
        plural=PLURAL,
        categories=("api-extensions",),
        namespaced=False,
        versions=(Version(name="v1", type="apiregistration/v1.APIService"),),
        storage="v1",
        prefix="apiregistration.k8s.io/apiservices",
        verbs=("get", "list", "watch"),
        strategy=SubdomainStrategy(),
        printer=printers.printer(
            (
                printers.NAME,
                Column("Service", description="The service that serves it."),
                Column("Available", description="Whether it is served."),
                printers.AGE,
            ),
            _cells,
        ),
    ),
)
