"""kill -9 of the node agent and of the driver at every step of preparing and unpreparing.

Never is a device prepared twice without being unprepared in between, none is left prepared at the end, and the pod ends
up running, then gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.wait import wait_for_sync

DRIVER_PREPARE = ["prepare.intent", "prepare.driver", "prepare.spec", "prepare.done"]
DRIVER_UNPREPARE = ["unprepare.intent", "unprepare.driver", "unprepare.done"]
AGENT_PREPARE = [
    "node.prepare.enlisted",
    "node.prepare.called",
    "node.prepare.done",
    "node.pod.prepared",
    "node.pod.sandbox",
    "node.container.started",
]
AGENT_UNPREPARE = [
    "node.pod.sandbox_removed",
    "node.unprepare.begun",
    "node.unprepare.called",
    "node.unprepare.done",
]


def check_journal(journal: list[str]) -> None:
    """Between two preparations of a claim lies its unpreparing."""
    assert not [line for line in journal if line.startswith("VIOLATION")], journal
    prepared: set[str] = set()
    for line in journal:
        words = line.split()
        if words[0] == "prepare":
            assert (words[1], words[2]) not in prepared, journal
            prepared.add((words[1], words[2]))
        else:
            prepared = {(d, c) for d, c in prepared if c != words[1]}
    assert not prepared, journal


def begin(make_node: Callable[..., Any], prefix: str, where: str) -> tuple[Any, str, Callable[[], None]]:
    """A pod with a claim on a node whose agent or driver dies on the way, and what waits for that and starts it anew."""
    world = make_node(f"{prefix}-{where.replace('.', '-')}".replace("_", "-"))
    mortal = "agent" if where.startswith("node.") else "driver"
    programs = {
        what: world.start(what, faults=where if what == mortal else "") for what in ("driver", "agent")
    }
    name = f"pod-{world.name}"
    world.pod_with_claim(name, "dev-1", "dev-2")

    def revive() -> None:
        programs[mortal].wait_killed()
        world.start(mortal)

    return world, name, revive


def check_gone(world: Any, name: str) -> None:
    wait_for_sync(f"pod {name} to go", lambda: world.pod(name) is None)
    assert (world.in_use, world.specs, world.checkpointed) == ([], [], [])
    check_journal(world.journal)


@pytest.mark.parametrize("where", AGENT_PREPARE + DRIVER_PREPARE)
def test_a_crash_while_preparing(make_node: Callable[..., Any], where: str) -> None:
    world, name, revive = begin(make_node, "up", where)
    revive()
    wait_for_sync(f"pod {name} to run", lambda: world.phase(name) == "Running")
    world.delete(name)
    check_gone(world, name)
    if where in ("node.prepare.done", "node.pod.prepared", "node.pod.sandbox", "node.container.started"):
        assert len([line for line in world.journal if line.startswith("prepare dev-1")]) == 1, (
            "prepared anew by mistake"
        )


@pytest.mark.parametrize("where", AGENT_UNPREPARE + DRIVER_UNPREPARE)
def test_a_crash_while_unpreparing(make_node: Callable[..., Any], where: str) -> None:
    world, name, revive = begin(make_node, "down", where)
    wait_for_sync(f"pod {name} to run", lambda: world.phase(name) == "Running")
    world.delete(name)
    revive()
    check_gone(world, name)


def test_a_pod_deleted_by_force_while_the_agent_was_down_leaves_nothing(
    make_node: Callable[..., Any],
) -> None:
    world = make_node("forced")
    world.start("driver")
    agent = world.start("agent")
    world.pod_with_claim("pod-forced", "dev-1")
    wait_for_sync("pod pod-forced to run", lambda: world.phase("pod-forced") == "Running")
    agent.process.kill()
    agent.wait_killed()
    world.server.request("DELETE", "/api/v1/namespaces/default/pods/pod-forced?gracePeriodSeconds=0")
    world.start("agent")
    wait_for_sync(
        "no device in use, no CDI spec and nothing in the checkpoint",
        lambda: (world.in_use, world.specs, world.checkpointed) == ([], [], []),
    )
    check_journal(world.journal)
