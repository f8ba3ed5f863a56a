"""DaemonSets on the real API server: what happens when daemons end."""

from __future__ import annotations

import pytest

from dray.client.resources import DAEMONSETS, PODS
from tests.support.controlplane import control_plane
from tests.support.events import events_about
from tests.support.wait import wait_for

LABELS = {"app": "x"}


def daemons():
    spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}
    template = {"metadata": {"labels": LABELS}, "spec": spec}
    return {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": LABELS}, "template": template}}


async def only_pod(at):
    found = (await at.client.list(PODS, "default")).items
    return found[0] if len(found) == 1 else None


@pytest.mark.parametrize(
    ("phase", "kind", "reason", "words"),
    [
        ("Failed", "Warning", "FailedDaemonPod", "Found failed daemon pod {} on node n, will try to kill it"),
        (
            "Succeeded",
            "Normal",
            "SucceededDaemonPod",
            "Found succeeded daemon pod {} on node n, will try to delete it",
        ),
    ],
)
async def test_a_daemon_that_ended_is_told_of_and_replaced(phase, kind, reason, words):
    async with control_plane("daemonset-controller") as at:
        await at.node("n")
        await at.client.create(DAEMONSETS, "default", daemons())
        first = (await wait_for("the DaemonSet's pod", lambda: only_pod(at)))["metadata"]["name"]
        await at.client.patch_status(PODS, "default", first, {"status": {"phase": phase}})

        async def is_replaced():
            pod = await only_pod(at)
            return pod is not None and pod["metadata"]["name"] != first

        await wait_for("the pod to be replaced", is_replaced)
        second = (await only_pod(at))["metadata"]["name"]
        assert await wait_for(
            "four events about the DaemonSet", lambda: events_about(at, "DaemonSet", count=4)
        ) == [
            ("Normal", "SuccessfulCreate", f"Created pod: {first}"),
            (kind, reason, words.format(f"default/{first}")),
            ("Normal", "SuccessfulDelete", f"Deleted pod: {first}"),
            ("Normal", "SuccessfulCreate", f"Created pod: {second}"),
        ]


async def test_a_node_on_which_daemons_fail_again_and_again_gets_time():
    now = [1000.0]
    async with control_plane("daemonset-controller", clock=lambda: now[0]) as at:
        await at.node("n")
        await at.client.create(DAEMONSETS, "default", daemons())
        pod = await wait_for("the DaemonSet's pod", lambda: only_pod(at))

        async def fail(pod):
            name = pod["metadata"]["name"]
            await at.client.patch_status(PODS, "default", name, {"status": {"phase": "Failed"}})

        async def is_another():
            found = await only_pod(at)
            return found if found and found["metadata"]["uid"] != pod["metadata"]["uid"] else None

        await fail(pod)
        pod = await wait_for("another pod", is_another)
        await fail(pod)
        await at.wait_quiet()
        assert await is_another() is None, "the next one waits"
        now[0] += 2
        again = {"metadata": {"annotations": {"look": "again"}}}
        await at.client.patch(PODS, "default", pod["metadata"]["name"], again)
        await wait_for("another pod", is_another)
