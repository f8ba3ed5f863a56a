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
from dray.api.quirks import APIQuirks
from dray.api.scheme.kinds import Kind


def kinds(quirks: APIQuirks) -> tuple[Kind, ...]:
    from dray.api.groups.core import (
        replicationcontroller,
    )  # a workload, and workloads are made of what is above

    return (
        pod.BINDING,
        configmap.KIND,
        endpoints.kind(quirks),
        event.KIND,
        limitrange.KIND,
        namespace.KIND,
        node.KIND,
        persistentvolumeclaim.KIND,
        persistentvolume.KIND,
        pod.kind(quirks),
        podtemplate.kind(quirks),
        replicationcontroller.kind(quirks),
        resourcequota.KIND,
        secret.KIND,
        serviceaccount.KIND,
        service.KIND,
    )
