"""The pod that a DaemonSet has on a node. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dray.client.resources import DAEMONSETS
from dray.controllers.workloads import owned_pods
from dray.controllers.workloads.history import REVISION_HASH_LABEL

if TYPE_CHECKING:
    from dray.api.types.apps import DaemonSet
    from dray.api.types.core import Affinity, NodeSelectorTerm, Pod, PodSpec, Toleration


TEMPLATE_GENERATION_LABEL: Final = "pod-template-generation"


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _toleration(name: str, effect: str) -> Toleration:
    return {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}


#: What pods of DaemonSets tolerate: they also run on nodes that are not healthy.
_DAEMON_TOLERATIONS: Final = (
    _toleration("not-ready", "NoExecute"),
    _toleration("unreachable", "NoExecute"),
    _toleration("disk-pressure", "NoSchedule"),
    _toleration("memory-pressure", "NoSchedule"),
    _toleration("pid-pressure", "NoSchedule"),
    _toleration("unschedulable", "NoSchedule"),
)


_HOST_NETWORK_TOLERATION: Final = _toleration("network-unavailable", "NoSchedule")


def tolerations(spec: PodSpec) -> list[Toleration]:
    """The template's tolerations and those of all DaemonSets, which replace equal ones of the template."""
    found: list[Toleration] = list(spec.get("tolerations") or ())
    for toleration in (
        (*_DAEMON_TOLERATIONS, _HOST_NETWORK_TOLERATION) if spec.get("hostNetwork") else _DAEMON_TOLERATIONS
    ):
        alike = [at for at, one in enumerate(found) if _toleration_key(one) == _toleration_key(toleration)]
        for at in alike:
            found[at] = toleration
        if not alike:
            found.append(toleration)
    return found


def _toleration_key(toleration: Toleration) -> tuple[str, ...]:
    return tuple(toleration.get(name) or "" for name in ("key", "operator", "value", "effect"))


def pod_for(daemons: DaemonSet, node: str, digest: str) -> Pod:
    """A pod that the scheduler can only put on this node."""
    labels = {REVISION_HASH_LABEL: digest}
    generation = template_generation(daemons)
    if generation:
        labels[TEMPLATE_GENERATION_LABEL] = generation
    pod = owned_pods.pod_from_template(daemons["spec"]["template"], DAEMONSETS, daemons, labels=labels)
    spec: PodSpec = {**pod["spec"], "tolerations": tolerations(pod["spec"])}
    spec["affinity"] = with_node_affinity(spec.get("affinity") or {}, node)
    return {**pod, "spec": spec}


def template_generation(daemons: DaemonSet) -> str:
    """The number of the template, which goes back to a time before there were revisions."""
    annotations = daemons["metadata"].get("annotations") or {}
    found = annotations.get("deprecated.daemonset.template.generation") or ""
    return found if found.isdecimal() else ""


def with_node_affinity(affinity: Affinity, node: str) -> Affinity:
    """The affinity with every other node ruled out; that the node is fit otherwise has been seen to."""
    pinned: NodeSelectorTerm = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    nodes = affinity.get("nodeAffinity") or {}
    return {**affinity, "nodeAffinity": {**nodes, _REQUIRED: {"nodeSelectorTerms": [pinned]}}}


def node_of(pod: Pod) -> str:
    """Where a pod is, or the one node it can go to."""
    return pod["spec"].get("nodeName") or _affinity_node(pod["spec"]) or ""


def _affinity_node(spec: PodSpec) -> str | None:
    nodes = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    for term in (nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for one in term.get("matchFields") or ():
            if one.get("key") == "metadata.name" and len(one.get("values") or ()) == 1:
                return one["values"][0]
    return None
