"""Finds out what a runtime still has of each pod after the agent was restarted."""

from __future__ import annotations

from dataclasses import replace

from dray.node.pod_actions import KnownContainer, PodState
from dray.runtimes.interface import ContainerStatus, Listing, SandboxStatus, State


class RecoveredPod:
    """What a runtime still has of a pod after the agent was restarted."""

    def __init__(self) -> None:
        self.sandbox: SandboxStatus | None = None
        self.containers: dict[str, list[ContainerStatus]] = {}

    def add(self, status: ContainerStatus) -> None:
        self.containers.setdefault(status.name, []).append(status)

    def state(self) -> PodState:
        known = {}
        for name, attempts in self.containers.items():
            attempts.sort(key=lambda a: a.attempt)
            latest = attempts[-1]
            previous = attempts[-2] if len(attempts) > 1 else None
            if latest.state is State.CREATED:
                # It was about to be started. What exactly happened is not known: the attempt counts as failed.
                latest = replace(latest, state=State.EXITED, exit_code=128, reason="StartError")
            known[name] = KnownContainer(current=latest, previous=previous)
        return PodState(set_up=self.sandbox is not None, sandbox=self.sandbox, containers=known)


def recovered_pods(listing: Listing) -> dict[str, RecoveredPod]:
    """What a runtime has, pod by pod."""
    out: dict[str, RecoveredPod] = {}
    for sandbox in sorted(listing.sandboxes, key=lambda s: s.attempt):
        out.setdefault(sandbox.pod_uid, RecoveredPod()).sandbox = sandbox
    for container in listing.containers:
        out.setdefault(container.pod_uid, RecoveredPod()).add(container)
    return out
