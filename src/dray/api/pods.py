"""Reading pods: phase, node, containers, conditions, deadlines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from dray.api import objects
from dray.api.times import to_epoch

if TYPE_CHECKING:
    from dray.api.types.core import (
        Container,
        EphemeralContainer,
        Pod,
        PodCondition,
        PodExtendedResourceClaimStatus,
        PodResourceClaimStatus,
        PodSpec,
    )
    from dray.api.types.meta import OwnerReference

#: Seconds that containers get to end by themselves where nothing else is said.
DEFAULT_GRACE: Final = 30.0
#: What the name of the volume with a pod's token begins with.
TOKEN_VOLUME: Final = "kube-api-access-"
#: The kubelet marks with it the API's copy of a pod that it got from elsewhere.
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"


def full_name(pod: Pod) -> str:
    """As in the kubelet's messages: name_namespace(uid)."""
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"


def phase(pod: Pod) -> str:
    return (pod.get("status") or {}).get("phase") or "Pending"


def is_terminal(pod: Pod) -> bool:
    """Whether all containers have ended for good."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_terminating(pod: Pod) -> bool:
    """Whether somebody has asked for the pod's deletion."""
    return "deletionTimestamp" in pod["metadata"]


def is_active(pod: Pod) -> bool:
    """Whether the pod runs or will run: neither terminal nor being deleted."""
    return not is_terminal(pod) and "deletionTimestamp" not in pod["metadata"]


def is_done(pod: Pod) -> bool:
    """Whether the pod needs no claims any more: it is terminal, or was deleted before it got a node."""
    return is_terminal(pod) or ("deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName"))


def is_mirror(pod: Pod) -> bool:
    return MIRROR_ANNOTATION in (pod["metadata"].get("annotations") or {})


def node_name(pod: Pod) -> str:
    """The node that the pod is bound to; empty if there is none yet."""
    return pod["spec"].get("nodeName") or ""


def restart_policy(pod: Pod) -> str:
    return pod["spec"].get("restartPolicy") or "Always"


def grace_period(pod: Pod) -> float:
    """Seconds that containers get to end by themselves."""
    seconds = pod["metadata"].get("deletionGracePeriodSeconds")
    if seconds is None:
        seconds = pod["spec"].get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE if seconds is None else float(seconds)


def deletion_deadline(pod: Pod) -> float | None:
    """When a pod that is being deleted must be gone; None while nobody has asked for its deletion."""
    timestamp = pod["metadata"].get("deletionTimestamp")
    return to_epoch(timestamp) if timestamp else None


def active_deadline(pod: Pod) -> float | None:
    """When the pod fails for having run too long."""
    seconds = pod["spec"].get("activeDeadlineSeconds")
    start = (pod.get("status") or {}).get("startTime")
    return to_epoch(start) + seconds if seconds is not None and start else None


def condition(pod: Pod, type_: str) -> PodCondition | None:
    return objects.find_condition((pod.get("status") or {}).get("conditions"), type_)


def is_ready(pod: Pod) -> bool:
    return objects.is_condition_true((pod.get("status") or {}).get("conditions"), "Ready")


def is_sidecar(container: Container) -> bool:
    """Whether an init container keeps running beside the others."""
    return container.get("restartPolicy") == "Always"


def containers(spec: PodSpec) -> Iterator[Container]:
    """Init containers, then the others, without ephemeral ones."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def all_containers(spec: PodSpec) -> Iterator[Container | EphemeralContainer]:
    """Init containers, then the others, then ephemeral ones."""
    yield from containers(spec)
    yield from spec.get("ephemeralContainers") or ()


def controller_reference(name: str, uid: str, *, block_owner_deletion: bool = False) -> OwnerReference:
    """The owner reference of an object that was made for a pod."""
    owner: OwnerReference = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
    if block_owner_deletion:
        owner["blockOwnerDeletion"] = True
    return owner


def claim_statuses(pod: Pod) -> Sequence[PodResourceClaimStatus]:
    """The claims that were made for the pod's entries, as its status names them."""
    return (pod.get("status") or {}).get("resourceClaimStatuses") or ()


def extended_resource_claim(pod: Pod) -> PodExtendedResourceClaimStatus | None:
    """The claim that the scheduler made for the pod's extended resources."""
    return (pod.get("status") or {}).get("extendedResourceClaimStatus")
