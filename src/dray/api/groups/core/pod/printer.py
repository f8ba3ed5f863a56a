"""The columns of pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.core.pod.resources import is_sidecar
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Object, Printer

if TYPE_CHECKING:
    from dray.api.types.core import ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus

_ENDED: Final = ("Succeeded", "Failed")


class _Tally:
    """What the containers' statuses add up to."""

    def __init__(self) -> None:
        self.ready = 0
        self.restarts = 0
        self.last_restart = ""

    def count_restarts(self, status: ContainerStatus) -> None:
        self.restarts += status.get("restartCount", 0)
        ended = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.last_restart = max(self.last_restart, ended)

    def shown_restarts(self, now: float) -> str:
        if self.restarts and self.last_restart:
            return f"{self.restarts} ({printers.since(self.last_restart, now)} ago)"
        return str(self.restarts)


def _how_it_ended(ended: ContainerStateTerminated) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _true(conditions: Sequence[PodCondition], kind: str) -> bool:
    return any(c.get("type") == kind and c.get("status") == "True" for c in conditions)


def _initializing(pod: Pod, everything: _Tally, sidecars: _Tally) -> str:
    """Which init container holds the pod up, as a reason; empty if none does."""
    spec, status = pod["spec"], pod.get("status", {})
    containers = {c.get("name", ""): c for c in spec.get("initContainers") or ()}
    for i, container in enumerate(status.get("initContainerStatuses") or ()):
        own = containers.get(container.get("name", ""))
        sidecar = own is not None and is_sidecar(own)
        everything.count_restarts(container)
        if sidecar:
            sidecars.count_restarts(container)
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), (state.get("waiting") or {}).get("reason", "")
        if ended is not None and not ended.get("exitCode", 0):
            continue
        if sidecar and container.get("started"):
            everything.ready += bool(container.get("ready"))
            sidecars.ready += bool(container.get("ready"))
            continue
        if ended is not None:
            return f"Init:{_how_it_ended(ended)}"
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{i}/{len(containers)}"
    return ""


def _running(status: PodStatus, reason: str, tally: _Tally) -> str:
    """What the ordinary containers are doing, as a reason."""
    any_running, failure = False, ""
    for container in reversed(status.get("containerStatuses") or ()):
        tally.count_restarts(container)
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), (state.get("waiting") or {}).get("reason", "")
        if waiting:
            reason = waiting
        elif ended is not None:
            reason = _how_it_ended(ended)
            if ended.get("exitCode", 0):
                failure = reason
        elif container.get("ready") and state.get("running") is not None:
            any_running = True
            tally.ready += 1
    if reason == "Completed":
        if any_running and _true(status.get("conditions") or (), "Ready"):
            return "Running"
        return failure or ("NotReady" if any_running else reason)
    return reason


def _summary(pod: Pod) -> tuple[str, _Tally]:
    status = pod.get("status", {})
    conditions = status.get("conditions") or ()
    phase = status.get("phase", "")
    reason = status.get("reason") or phase
    if any(c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in conditions):
        reason = "SchedulingGated"
    tally, sidecars = _Tally(), _Tally()
    held_up = _initializing(pod, tally, sidecars)
    if held_up:
        reason = held_up
    if not held_up or _true(conditions, "Initialized"):
        tally = sidecars
        reason = _running(status, reason, tally)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif phase not in _ENDED:
            reason = "Terminating"
    return reason, tally


def _readiness_gates(pod: Pod) -> str:
    gates = pod["spec"].get("readinessGates") or ()
    if not gates:
        return "<none>"
    states: Mapping[str, Any] = {
        c.get("type", ""): c.get("status") for c in pod["status"].get("conditions") or ()
    }
    met = sum(states.get(gate.get("conditionType", "")) == "True" for gate in gates)
    return f"{met}/{len(gates)}"


def _cells(pod: Pod, now: float) -> Sequence[object]:
    spec, status = pod["spec"], pod.get("status", {})
    reason, tally = _summary(pod)
    total = len(spec.get("containers") or ()) + sum(map(is_sidecar, spec.get("initContainers") or ()))
    ips = status.get("podIPs") or ()
    return (
        printers.name(pod),
        f"{tally.ready}/{total}",
        reason,
        tally.shown_restarts(now),
        printers.age(pod, now),
        (ips[0].get("ip") if ips else "") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        _readiness_gates(pod),
    )


def _conditions(pod: Pod) -> Sequence[Object]:
    phase = pod.get("status", {}).get("phase")
    if phase not in _ENDED:
        return ()
    message = "The pod has completed successfully." if phase == "Succeeded" else "The pod failed."
    return ({"type": "Completed", "status": "True", "reason": phase, "message": message},)


PRINTER: Final = Printer(
    columns=(
        printers.NAME,
        Column("Ready", description="How many of the containers are ready."),
        Column("Status", description="What the pod is doing, or what holds it up."),
        Column("Restarts", description="How often containers were restarted, and when last."),
        printers.AGE,
        Column("IP", priority=1, description="The pod's address."),
        Column("Node", priority=1, description="The node that the pod is bound to."),
        Column("Nominated Node", priority=1, description="The node that is being made free for the pod."),
        Column(
            "Readiness Gates", priority=1, description="How many of the further readiness conditions are met."
        ),
    ),
    cells=_cells,
    conditions=_conditions,
)
