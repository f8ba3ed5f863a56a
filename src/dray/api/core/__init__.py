"""The core group: pods, nodes, namespaces and what they are made of."""

from __future__ import annotations

from dray.api.core import (
    configmap,
    endpoints,
    event,
    limitrange,
    namespace,
    node,
    pod,
    podtemplate,
    quota,
    secret,
    service,
    serviceaccount,
    volume,
    volumeclaim,
)
from dray.api.kinds import Kind
from dray.api.release import Release


def kinds(release: Release) -> tuple[Kind, ...]:
    return (
        pod.BINDING,
        configmap.KIND,
        endpoints.kind(release),
        event.KIND,
        limitrange.KIND,
        namespace.KIND,
        node.KIND,
        volumeclaim.KIND,
        volume.KIND,
        pod.kind(release),
        podtemplate.kind(release),
        quota.KIND,
        secret.KIND,
        serviceaccount.KIND,
        service.KIND,
    )
