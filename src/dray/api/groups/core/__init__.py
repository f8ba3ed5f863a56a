"""The core group: pods, nodes, namespaces and what they are made of."""

from __future__ import annotations

from dray.api.groups.core import (
    configmap,
    endpoints,
    event,
    limitrange,
    namespace,
    node,
    persistentvolume,
    persistentvolumeclaim,
    pod,
    podtemplate,
    resourcequota,
    secret,
    service,
    serviceaccount,
)
from dray.api.release import EffectiveVersion
from dray.api.scheme.kinds import Kind


def kinds(release: EffectiveVersion) -> tuple[Kind, ...]:
    return (
        pod.BINDING,
        configmap.KIND,
        endpoints.kind(release),
        event.KIND,
        limitrange.KIND,
        namespace.KIND,
        node.KIND,
        persistentvolumeclaim.KIND,
        persistentvolume.KIND,
        pod.kind(release),
        podtemplate.kind(release),
        resourcequota.KIND,
        secret.KIND,
        serviceaccount.KIND,
        service.KIND,
    )
