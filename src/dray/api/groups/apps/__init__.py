"""The apps group: kinds that keep pods running."""

from __future__ import annotations

from dray.api.groups.apps import controllerrevision, daemonset, deployment, replicaset, statefulset
from dray.api.release import EffectiveVersion
from dray.api.scheme.kinds import Kind


def kinds(release: EffectiveVersion) -> tuple[Kind, ...]:
    return (
        controllerrevision.KIND,
        daemonset.kind(release),
        deployment.kind(release),
        replicaset.kind(release),
        statefulset.kind(release),
    )
