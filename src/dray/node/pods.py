"""Reading pods: their init containers, sidecars and main containers, their policies and deadlines. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dray.api.times import to_epoch

if TYPE_CHECKING:
    from dray.api.types.core import Container, Pod

DEFAULT_GRACE = 30.0


class Roles(NamedTuple):
    """A pod's containers by role, each in its order. ``init`` holds ordinary init containers and sidecars."""

    init: tuple[Container, ...]
    main: tuple[Container, ...]

    @property
    def sidecars(self) -> tuple[Container, ...]:
        return tuple(c for c in self.init if is_sidecar(c))

    @property
    def all(self) -> tuple[Container, ...]:
        return self.init + self.main

    def find(self, name: str) -> Container | None:
        return next((c for c in self.all if c["name"] == name), None)


def roles(pod: Pod) -> Roles:
    spec = pod["spec"]
    return Roles(tuple(spec.get("initContainers") or ()), tuple(spec.get("containers") or ()))


def is_sidecar(container: Container) -> bool:
    """An init container that keeps running beside the others."""
    return container.get("restartPolicy") == "Always"


def uid(pod: Pod) -> str:
    return pod["metadata"]["uid"]


def full_name(pod: Pod) -> str:
    """As in the kubelet's messages: name_namespace(uid)."""
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"


def restart_policy(pod: Pod) -> str:
    return pod["spec"].get("restartPolicy") or "Always"


def grace_period(pod: Pod) -> float:
    """Seconds that containers get to end by themselves."""
    asked = pod["metadata"].get("deletionGracePeriodSeconds")
    if asked is None:
        asked = pod["spec"].get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE if asked is None else float(asked)


def deletion_deadline(pod: Pod) -> float | None:
    """When a pod that is being deleted must be gone; None if it is not being deleted."""
    stamp = pod["metadata"].get("deletionTimestamp")
    return to_epoch(stamp) if stamp else None


def active_deadline(pod: Pod) -> float | None:
    """When the pod fails for having run too long."""
    seconds = pod["spec"].get("activeDeadlineSeconds")
    start = (pod.get("status") or {}).get("startTime")
    return to_epoch(start) + seconds if seconds is not None and start else None


def is_finished(pod: Pod) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
