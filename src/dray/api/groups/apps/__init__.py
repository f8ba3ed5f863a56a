"""The apps group: kinds that keep pods running."""

from __future__ import annotations

from dray.api.groups.apps import controllerrevision, daemonset, deployment, replicaset, statefulset
from dray.api.quirks import APIQuirks
from dray.api.scheme.kinds import Kind


def kinds(quirks: APIQuirks) -> tuple[Kind, ...]:
    return (
        controllerrevision.KIND,
        daemonset.kind(quirks),
        deployment.kind(quirks),
        replicaset.kind(quirks),
        statefulset.kind(quirks),
    )
