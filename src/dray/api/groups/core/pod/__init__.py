"""Pods: their shape, what may be in one, and what may become of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api.groups.core.pod.binding import bind, check_binding
from dray.api.groups.core.pod.conversion import pod_to_hub, pod_to_nested
from dray.api.groups.core.pod.defaults import default_pod
from dray.api.groups.core.pod.printer import PRINTER
from dray.api.groups.core.pod.strategy import (
    BindingStrategy,
    PodEphemeralContainersStrategy,
    PodResizeStrategy,
    PodStatusStrategy,
    PodStrategy,
)
from dray.api.quirks import APIQuirks
from dray.api.scheme.kinds import Kind, Version
from dray.api.scheme.strategy import UpdateStrategy

if TYPE_CHECKING:
    from dray.api.types.core import Pod

__all__ = ["BINDING", "bind", "check_binding", "kind"]

_STREAMS = ("create", "get")
_PROXY = ("create", "delete", "get", "patch", "update")


def _host_network(pod: Pod) -> str:
    return "true" if pod["spec"].get("hostNetwork") else "false"


def _pod_ip(pod: Pod) -> str:
    ips = pod.get("status", {}).get("podIPs")
    return ips[0].get("ip", "") if ips else ""


def kind(quirks: APIQuirks) -> Kind:
    """Pods as a release has them."""
    nested = quirks.nests_claim_sources
    version = Version(
        name="v1",
        type="core/v1.Pod",
        default=default_pod,
        to_hub=pod_to_hub,
        from_hub=pod_to_nested if nested else None,
    )
    subresources: dict[str, UpdateStrategy[Pod]] = {
        "ephemeralcontainers": PodEphemeralContainersStrategy(nested_claims=nested),
        "status": PodStatusStrategy(nested_claims=nested),
    }
    if quirks.serves_pod_resize:
        subresources["resize"] = PodResizeStrategy(nested_claims=nested)
    return Kind(
        group="",
        kind="Pod",
        plural="pods",
        short_names=("po",),
        categories=("all",),
        versions=(version,),
        storage="v1",
        strategy=PodStrategy(nested_claims=nested),
        subresources=subresources,
        actions={
            "attach": _STREAMS,
            "binding": ("create",),
            "eviction": ("create",),
            "exec": _STREAMS,
            "log": ("get",),
            "portforward": _STREAMS,
            "proxy": _PROXY,
        },
        printer=PRINTER,
        fields={
            "spec.nodeName": lambda pod: str(pod["spec"].get("nodeName", "")),
            "spec.restartPolicy": lambda pod: str(pod["spec"].get("restartPolicy", "")),
            "spec.schedulerName": lambda pod: str(pod["spec"].get("schedulerName", "")),
            "spec.serviceAccountName": lambda pod: str(pod["spec"].get("serviceAccountName", "")),
            "spec.hostNetwork": _host_network,
            "status.phase": lambda pod: str(pod.get("status", {}).get("phase", "")),
            "status.podIP": _pod_ip,
            "status.podIPs": _pod_ip,
            "status.nominatedNodeName": lambda pod: str(pod.get("status", {}).get("nominatedNodeName", "")),
            # An old name that clients still send.
            "spec.host": lambda pod: str(pod["spec"].get("nodeName", "")),
        },
    )


BINDING = Kind(
    group="",
    kind="Binding",
    plural="bindings",
    versions=(Version(name="v1", type="core/v1.Binding"),),
    storage="v1",
    strategy=BindingStrategy(),
    verbs=("create",),
)
