"""A pod's status as its node reports it, from what is known about its containers. Pure; the texts are the kubelet's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from dray.api import pods
from dray.api.pods import is_sidecar
from dray.api.times import format_duration, from_epoch
from dray.node.container.roles import roles
from dray.node.pod_actions import KnownContainer, PodState, is_initialized, must_end, should_restart
from dray.runtimes.interface import ContainerStatus, State

if TYPE_CHECKING:
    from dray.api.types import core

    #: The health of the devices that a container uses.
    Health = Callable[[core.Container], Sequence[core.ResourceStatus]]


#: A time that is not known. Go writes such a time as null.
NO_TIME: Final = cast("str", None)


class NodeFacts(NamedTuple):
    """What a pod's status and environment say about the node."""

    host_ip: str
    runtime: str
    name: str = ""
    #: What the node has for pods.
    allocatable: Mapping[str, str] = MappingProxyType({})

    def fields(self) -> dict[str, str]:
        """The fields of a pod that the downward API offers and that the node decides."""
        return {
            "spec.nodeName": self.name,
            "status.hostIP": self.host_ip,
            "status.hostIPs": self.host_ip,
            "status.podIP": self.host_ip,
            "status.podIPs": self.host_ip,
        }


def pod_status(
    pod: core.Pod, state: PodState, *, node: NodeFacts, now: float, health: Health = lambda container: []
) -> core.PodStatus:
    """The fields of ``status`` that belong to the node agent. Others are left out, and so stay as they are."""
    containers = roles(pod)
    phase = _phase(pod, state)
    old = pod.get("status") or {}
    out: core.PodStatus = {
        "phase": phase,
        "conditions": _conditions(pod, state, phase, now),
        "hostIP": node.host_ip,
        "hostIPs": [{"ip": node.host_ip}],
        "startTime": old.get("startTime") or from_epoch(now),
    }
    if generation := pod["metadata"].get("generation"):
        out["observedGeneration"] = generation
    if state.sandbox:
        out["podIP"] = state.sandbox.ip or node.host_ip
        out["podIPs"] = [{"ip": out["podIP"]}]
    elif old.get("podIP"):
        out["podIP"], out["podIPs"] = old["podIP"], old.get("podIPs") or [{"ip": old["podIP"]}]
    if containers.init:
        out["initContainerStatuses"] = [
            _ended_before(old.get("initContainerStatuses"), c, state)
            or _container_status(pod, c, state, node, now, health, init=True)
            for c in containers.init
        ]
    out["containerStatuses"] = [
        _ended_before(old.get("containerStatuses"), c, state)
        or _container_status(pod, c, state, node, now, health, init=False)
        for c in containers.main
    ]
    if containers.ephemeral:
        out["ephemeralContainerStatuses"] = [
            _ended_before(old.get("ephemeralContainerStatuses"), c, state)
            or _container_status(pod, c, state, node, now, health, init=False)
            for c in containers.ephemeral
        ]
    if state.killed:
        out["reason"], out["message"] = state.killed.reason, state.killed.message
    return out


def _phase(pod: core.Pod, state: PodState) -> str:
    """A pod is over only when its claims have been unprepared: others act on the phase by taking its devices."""
    old = (pod.get("status") or {}).get("phase") or "Pending"
    if old in ("Succeeded", "Failed"):
        return old
    containers = [state.container(c["name"]) for c in roles(pod).main]
    if must_end(pod, state) and state.torn_down:
        if state.killed or not all(c.succeeded for c in containers):
            return "Failed"
        return "Succeeded"
    if containers and all(c.current and c.current.state is not State.CREATED for c in containers):
        return "Running"
    return old  # a pod never goes back to Pending


def _ended_before(
    reported: Iterable[core.ContainerStatus] | None, spec: core.Container, state: PodState
) -> core.ContainerStatus | None:
    """How a container ended that an agent before this one saw to its end: that is the last word on it."""
    known = state.container(spec["name"])
    if known.current or known.failure:
        return None
    for status in reported or ():
        if status["name"] == spec["name"] and "terminated" in (status.get("state") or {}):
            return status
    return None


def _container_status(
    pod: core.Pod,
    spec: core.Container,
    state: PodState,
    node: NodeFacts,
    now: float,
    health: Health,
    *,
    init: bool,
) -> core.ContainerStatus:
    known = state.container(spec["name"])
    current = known.current
    out: core.ContainerStatus = {
        "name": spec["name"],
        "state": _state(pod, spec, known, state, node, now),
        "lastState": {},
        "ready": known.succeeded if init and not is_sidecar(spec) else known.running and known.ready,
        "restartCount": current.attempt if current else 0,
        "image": current.image if current else spec.get("image", ""),
        "imageID": current.image_id if current else "",
        "started": known.running and known.started,
    }
    last = current if "waiting" in out["state"] and current and known.exited else known.previous
    if last is not None:
        out["lastState"] = {"terminated": _terminated(last, node)}
    if current is not None:
        out["containerID"] = f"{node.runtime}://{current.id}"
    in_force = spec.get("resources") if known.resources is None else known.resources
    if known.running and in_force and (in_force.get("requests") or in_force.get("limits")):
        out["resources"] = cast(
            "core.ResourceRequirements", {k: v for k, v in in_force.items() if k != "claims"}
        )
        if requests := in_force.get("requests"):
            out["allocatedResources"] = requests
    if devices := health(spec):
        out["allocatedResourcesStatus"] = devices
    return out


def _state(
    pod: core.Pod, spec: core.Container, known: KnownContainer, state: PodState, node: NodeFacts, now: float
) -> core.ContainerState:
    current = known.current
    if current is not None and current.state is State.RUNNING:
        return {"running": {"startedAt": from_epoch(current.started_at)}}
    if known.failure is not None and not must_end(pod, state):
        return {"waiting": {"reason": known.failure.reason, "message": known.failure.message}}
    if current is not None and current.state is State.EXITED:
        if known.backoff and known.due() > now and should_restart(pod, spec["name"], state):
            wait = f"back-off {format_duration(int(known.backoff) * 10**9)} restarting failed container={spec['name']}"
            return {"waiting": {"reason": "CrashLoopBackOff", "message": f"{wait} pod={pods.full_name(pod)}"}}
        return {"terminated": _terminated(current, node)}
    return {"waiting": {"reason": "PodInitializing" if roles(pod).init else "ContainerCreating"}}


def _terminated(status: ContainerStatus, node: NodeFacts) -> core.ContainerStateTerminated:
    out: core.ContainerStateTerminated = {"exitCode": status.exit_code}
    if status.signal:
        out["signal"] = status.signal
    out["reason"] = status.reason or ("Completed" if status.exit_code == 0 else "Error")
    if status.message:
        out["message"] = status.message
    out["startedAt"] = from_epoch(status.started_at) if status.started_at else NO_TIME
    out["finishedAt"] = from_epoch(status.finished_at) if status.finished_at else NO_TIME
    out["containerID"] = f"{node.runtime}://{status.id}"
    return out


def _conditions(pod: core.Pod, state: PodState, phase: str, now: float) -> list[core.PodCondition]:
    containers = roles(pod)
    initialized = is_initialized(pod, state)
    waiting = [c["name"] for c in containers.init if not _init_done(c, state)]
    unready = [
        c["name"]
        for c in (*containers.sidecars, *containers.main)
        if not (state.container(c["name"]).running and state.container(c["name"]).ready)
    ]
    ready: tuple[bool, str, str]
    if phase == "Succeeded":
        ready = False, "PodCompleted", ""
    elif phase == "Failed":
        ready = False, "PodFailed", ""
    elif unready:
        ready = False, "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    else:
        ready = True, "", ""
    gates = _closed_gates(pod)
    whole = ready if not ready[0] or not gates else (False, "ReadinessGatesNotReady", _gates_message(gates))
    init = (
        (True, "PodCompleted" if phase == "Succeeded" else "", "")
        if initialized
        else (False, "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(waiting)}]")
    )
    wanted = {
        "PodReadyToStartContainers": (state.sandbox is not None and not state.torn_down, "", ""),
        "Initialized": init,
        "Ready": whole,
        "ContainersReady": ready,
        "PodScheduled": (True, "", ""),
    }
    if state.resize:
        wanted["PodResizePending"] = (True, state.resize.reason, state.resize.message)
    old = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or []}
    if "PodResizePending" in old and not state.resize:
        wanted["PodResizePending"] = (False, "", "")
    made = [_condition(kind, *value, old=old.get(kind), now=now) for kind, value in wanted.items()]
    if generation := pod["metadata"].get("generation"):
        for condition in made:
            condition["observedGeneration"] = generation
    return made


def _init_done(spec: core.Container, state: PodState) -> bool:
    known = state.container(spec["name"])
    return known.started if is_sidecar(spec) else known.succeeded


def _closed_gates(pod: core.Pod) -> list[str]:
    true = {c["type"] for c in (pod.get("status") or {}).get("conditions") or [] if c["status"] == "True"}
    gates = pod["spec"].get("readinessGates") or []
    return [g["conditionType"] for g in gates if g["conditionType"] not in true]


def _gates_message(gates: Iterable[str]) -> str:
    return " ".join(f'corresponding condition of pod readiness gate "{g}" does not exist.' for g in gates)


def _condition(
    kind: str, true: bool, reason: str, message: str, *, old: core.PodCondition | None, now: float
) -> core.PodCondition:
    status = "True" if true else "False"
    since = (
        old["lastTransitionTime"]
        if old and old["status"] == status and old.get("lastTransitionTime")
        else None
    )
    out: core.PodCondition = {
        "type": kind,
        "status": status,
        "lastProbeTime": NO_TIME,
        "lastTransitionTime": since or from_epoch(now),
    }
    if reason:
        out["reason"] = reason
    if message:
        out["message"] = message
    return out
