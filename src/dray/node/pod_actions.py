"""What is to be done next for a pod: a pure function of the pod, of what is known about its containers, and of the time.

The pod's worker carries out the actions, notes the outcome, and asks again. Three questions decide: must the pod end, is
it set up, and which of its containers should run now?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from dray.api import pods
from dray.api.pods import is_sidecar
from dray.backoff import Backoff
from dray.node.container.roles import roles
from dray.runtimes.interface import ContainerStatus, SandboxStatus, State

if TYPE_CHECKING:
    from dray.api.types.core import Container, Pod, ResourceRequirements

#: Seconds before a container that keeps failing is started again: at once, then ten, doubling up to five minutes.
INITIAL_BACKOFF = 10.0
MAX_BACKOFF = 300.0
#: A container that ran this long has proven itself; its next failure is a first one.
BACKOFF_RESET_AFTER = 600.0
#: Seconds between tries of steps that failed.
_RETRY = Backoff(initial=0.5, maximum=10.0)


class Failure(NamedTuple):
    """A step that did not work, in words for a container's waiting state."""

    reason: str
    message: str
    tries: int = 1

    @property
    def pause(self) -> float:
        return _RETRY.after(self.tries - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownContainer:
    """What is known about one container of a pod."""

    current: ContainerStatus | None = None  # the latest attempt to run it
    previous: ContainerStatus | None = None  # the one before
    failure: Failure | None = None  # why the next attempt could not be made
    retry_at: float = 0.0
    backoff: float = 0.0  # seconds to wait after the end of the current attempt
    stopping: bool = False
    started: bool = False  # its startup probe has succeeded, or it has none
    ready: bool = False
    unhealthy: str = ""  # a probe wants it restarted, and why
    resources: ResourceRequirements | None = None  # in force; None if an agent before this one started it

    @property
    def running(self) -> bool:
        return self.current is not None and self.current.state is State.RUNNING

    @property
    def exited(self) -> bool:
        return self.current is not None and self.current.state is State.EXITED

    @property
    def succeeded(self) -> bool:
        return self.exited and self.current is not None and self.current.exit_code == 0

    @property
    def alive(self) -> bool:
        return self.current is not None and self.current.state is not State.EXITED

    @property
    def attempts(self) -> int:
        return 0 if self.current is None else self.current.attempt + 1

    def due(self) -> float:
        """When it may be started again."""
        ended = self.current.finished_at if self.current else 0.0
        return max(ended + self.backoff, self.retry_at)

    def next_backoff(self) -> float:
        """The wait after the attempt that is about to be made."""
        if self.current is None or _run_time(self.current) >= BACKOFF_RESET_AFTER:
            return 0.0
        return min(self.backoff * 2, MAX_BACKOFF) if self.backoff else INITIAL_BACKOFF


def _run_time(container: ContainerStatus) -> float:
    """Seconds for which a container ran; none if it never started."""
    return container.finished_at - container.started_at if container.started_at else 0.0


_UNKNOWN = KnownContainer()


@dataclass(frozen=True, kw_only=True, slots=True)
class PodState:
    """What is known about a pod beyond its object."""

    set_up: bool = False  # claims prepared, volumes there, sandbox up
    sandbox: SandboxStatus | None = None
    containers: Mapping[str, KnownContainer] = field(default_factory=dict)
    failure: Failure | None = None  # of setting up or tearing down
    retry_at: float = 0.0
    killed: Failure | None = None  # why the pod has to fail although it could go on
    resize: Failure | None = None  # why containers do not have the resources that the pod asks for by now
    torn_down: bool = False  # nothing of it is left on the node
    removed: bool = False  # its object is gone

    def container(self, name: str) -> KnownContainer:
        return self.containers.get(name, _UNKNOWN)

    def with_container(self, name: str, container: KnownContainer) -> PodState:
        return replace(self, containers={**self.containers, name: container})


@dataclass(frozen=True, slots=True)
class SetUpPod:
    """Prepare claims, provide volumes, run the sandbox."""


@dataclass(frozen=True, slots=True)
class StartContainer:
    container: str
    attempt: int


@dataclass(frozen=True, slots=True)
class StopContainer:
    container: str
    grace: float
    message: str


@dataclass(frozen=True, slots=True)
class KillPod:
    """The pod has to end."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class TearDownPod:
    """Remove the sandbox, unprepare claims, clear away volumes."""


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Remove the object: nothing of the pod is left."""


Action = SetUpPod | StartContainer | StopContainer | KillPod | TearDownPod | DeletePod


class PodActions(NamedTuple):
    """What to do now, and when to ask again at the latest."""

    actions: tuple[Action, ...] = ()
    wake_at: float | None = None


def compute_pod_actions(pod: Pod, state: PodState, *, now: float) -> PodActions:
    if must_end(pod, state):
        return _end(pod, state, now)
    deadline = pods.active_deadline(pod)
    if deadline is not None and deadline <= now:
        return PodActions(
            (KillPod("DeadlineExceeded", "Pod was active on the node longer than the specified deadline"),)
        )
    if not state.set_up:
        if state.retry_at > now:
            return PodActions(wake_at=_earliest(state.retry_at, deadline))
        return PodActions((SetUpPod(),))
    actions, wakes = [], [deadline]
    for action in _progress(pod, state, now):
        if isinstance(action, float):
            wakes.append(action)
        else:
            actions.append(action)
    return PodActions(tuple(actions), _earliest(*wakes))


def must_end(pod: Pod, state: PodState) -> bool:
    return (
        state.removed
        or state.killed is not None
        or pods.deletion_deadline(pod) is not None
        or pods.is_terminal(pod)
        or has_finished(pod, state)
    )


def has_finished(pod: Pod, state: PodState) -> bool:
    """Whether all containers have run and none is to run again."""
    containers = roles(pod)
    policy = pods.restart_policy(pod)
    if policy == "Never" and any(
        state.container(c["name"]).exited and not state.container(c["name"]).succeeded
        for c in containers.init
        if not is_sidecar(c)
    ):
        return True
    mains = [state.container(c["name"]) for c in containers.main]
    return bool(mains) and all(c.exited and not _restarts(policy, c) for c in mains)


def is_initialized(pod: Pod, state: PodState) -> bool:
    """Whether the init containers have done their work, so that the others may start."""
    containers = roles(pod)
    if any(state.container(c["name"]).current for c in containers.main):
        return True
    return all(
        state.container(c["name"]).started if is_sidecar(c) else state.container(c["name"]).succeeded
        for c in containers.init
    )


def is_starting(pod: Pod, state: PodState) -> bool:
    """Whether the pod is on its way up, and nothing has gone wrong yet."""
    if must_end(pod, state) or state.failure:
        return False
    known = [state.container(c["name"]) for c in roles(pod).all]
    return not any(c.failure or c.exited for c in known) and not all(c.running for c in known)


def is_ending(pod: Pod, state: PodState) -> bool:
    """Whether the pod is on its way down, and nothing has gone wrong."""
    if not must_end(pod, state) or state.failure:
        return False
    deleting = pods.deletion_deadline(pod) is not None and not state.removed
    return deleting or not state.torn_down


def should_restart(pod: Pod, name: str, state: PodState) -> bool:
    """Whether a container that has ended is to be started again."""
    if must_end(pod, state):
        return False
    containers = roles(pod)
    known = state.container(name)
    for spec in containers.init:
        if spec["name"] == name:
            return is_sidecar(spec) or (pods.restart_policy(pod) != "Never" and not known.succeeded)
    if any(spec["name"] == name for spec in containers.ephemeral):
        return False
    return _restarts(pods.restart_policy(pod), known)


def resized(pod: Pod, state: PodState) -> list[Container]:
    """Running containers that are to have other resources than they have."""
    return [
        spec
        for spec in roles(pod).all
        if (known := state.container(spec["name"])).running
        and known.resources is not None
        and known.resources != (spec.get("resources") or {})
    ]


def restarts_to_resize(spec: Container, before: ResourceRequirements) -> bool:
    """Whether a container wants to be restarted when those of its resources change that are changing."""
    wanting = {
        policy["resourceName"]
        for policy in spec.get("resizePolicy") or ()
        if policy["restartPolicy"] == "RestartContainer"
    }
    after = spec.get("resources") or {}
    return any(
        (before.get("requests") or {}).get(name) != (after.get("requests") or {}).get(name)
        or (before.get("limits") or {}).get(name) != (after.get("limits") or {}).get(name)
        for name in wanting
    )


def _progress(pod: Pod, state: PodState, now: float) -> Iterator[Action | float]:
    """Starts and stops that are due, and times at which others will be."""
    containers = roles(pod)
    initialized = is_initialized(pod, state)
    policy = pods.restart_policy(pod)
    for spec in containers.ephemeral:
        yield from _keep_running(pod, spec, state.container(spec["name"]), now, once=True)
    for spec in containers.init:
        known = state.container(spec["name"])
        if is_sidecar(spec):
            yield from _keep_running(pod, spec, known, now)
            if not initialized and not (known.running and known.started):
                return  # the next one waits for it
        elif not initialized:
            if known.succeeded:
                continue
            # A policy of Always means for init containers: until it succeeds.
            yield from _keep_running(pod, spec, known, now, once=policy == "Never")
            return
    for spec in containers.main:
        known = state.container(spec["name"])
        yield from _keep_running(pod, spec, known, now, once=known.exited and not _restarts(policy, known))


def _keep_running(
    pod: Pod, spec: Container, known: KnownContainer, now: float, *, once: bool = False
) -> Iterator[Action | float]:
    """Starts a container that should run, after its back-off, and stops one that a probe has given up."""
    if known.running:
        if known.unhealthy and not known.stopping:
            yield StopContainer(spec["name"], _probe_grace(pod, spec), known.unhealthy)
        return
    if known.alive or (once and known.exited):
        return
    due = known.due()
    if due <= now:
        yield StartContainer(spec["name"], known.attempts)
    else:
        yield due


def _restarts(policy: str, container: KnownContainer) -> bool:
    return policy == "Always" or (policy == "OnFailure" and not container.succeeded)


def _end(pod: Pod, state: PodState, now: float) -> PodActions:
    """Main containers first, then sidecars from the last to the first, then everything around them."""
    containers = roles(pod)
    others = (*containers.main, *containers.ephemeral)
    mains = [c["name"] for c in others] + [c["name"] for c in containers.init if not is_sidecar(c)]
    alive = [name for name in mains if state.container(name).alive]
    if not alive:
        alive = [c["name"] for c in reversed(containers.sidecars) if state.container(c["name"]).alive][:1]
    if alive:
        grace = _remaining_grace(pod, state, now)
        stops = tuple(
            StopContainer(name, grace, f"Stopping container {name}")
            for name in alive
            if not state.container(name).stopping
        )
        return PodActions(stops)
    if not state.torn_down:
        if state.retry_at > now:
            return PodActions(wake_at=state.retry_at)
        return PodActions((TearDownPod(),))
    if pods.deletion_deadline(pod) is not None and not state.removed:
        if state.retry_at > now:
            return PodActions(wake_at=state.retry_at)
        return PodActions((DeletePod(),))
    return PodActions()


def _remaining_grace(pod: Pod, state: PodState, now: float) -> float:
    deadline = pods.deletion_deadline(pod)
    if state.removed:
        return 0.0
    if deadline is None:
        return pods.grace_period(pod)
    # Stamps are whole seconds: without this a grace of one second would often be none.
    return min(max(deadline - now, 0.0) + 0.5, pods.grace_period(pod)) if pods.grace_period(pod) else 0.0


def _probe_grace(pod: Pod, spec: Container) -> float:
    for probe in (spec.get("livenessProbe"), spec.get("startupProbe")):
        own = (probe or {}).get("terminationGracePeriodSeconds")
        if own is not None:
            return float(own)
    return pods.grace_period(pod)


def _earliest(*times: float | None) -> float | None:
    known = [t for t in times if t is not None]
    return min(known) if known else None
