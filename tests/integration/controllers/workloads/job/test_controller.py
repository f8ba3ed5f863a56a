"""Jobs on the real API server: pods that are lost, found, deleted, and released."""

from __future__ import annotations

from dray.client.resources import JOBS, PODS
from dray.controllers.workloads.job.controller import FINALIZER
from tests.support.controlplane import control_plane
from tests.support.events import DenyKind, events_about
from tests.support.wait import wait_for

LABELS = {"app": "x"}


def job(**spec):
    body = {
        "containers": [{"name": "c", "image": "i"}],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
    }
    template = {"metadata": {"labels": LABELS}, "spec": body}
    return {"metadata": {"name": "j"}, "spec": {"template": template, **spec}}


def selecting(**spec):
    return job(manualSelector=True, selector={"matchLabels": LABELS}, **spec)


async def pods(at, count=1):
    found = (await at.client.list(PODS, "default")).items
    return found if len(found) == count else []


async def test_a_pod_that_a_job_finds_is_counted_by_it():
    async with control_plane("job-controller") as at:
        await at.pod("found", metadata={"labels": LABELS}, restartPolicy="Never")
        made = await at.client.create(JOBS, "default", selecting())

        async def is_adopted():
            metadata = (await at.get(PODS, "found"))["metadata"]
            owners = [o["uid"] for o in metadata.get("ownerReferences") or ()]
            return owners == [made["metadata"]["uid"]] and metadata.get("finalizers") == [FINALIZER]

        await wait_for("pod found to be adopted", is_adopted)
        await at.client.patch_status(PODS, "default", "found", {"status": {"phase": "Succeeded"}})

        async def is_counted():
            return (await at.get(JOBS, "j"))["status"].get("succeeded") == 1

        await wait_for("the finished pod to be counted", is_counted)


async def test_a_pod_that_no_longer_fits_is_let_go_and_another_made():
    async with control_plane("job-controller") as at:
        await at.client.create(JOBS, "default", selecting())
        (first,) = await wait_for("the Job's pod", lambda: pods(at))
        name = first["metadata"]["name"]
        await at.client.patch(PODS, "default", name, {"metadata": {"labels": {"app": "y"}}})
        await wait_for("both pods of the Job", lambda: pods(at, 2))
        metadata = (await at.get(PODS, name))["metadata"]
        assert "ownerReferences" not in metadata
        assert "finalizers" not in metadata


async def test_pods_of_a_job_that_left_them_are_released():
    async with control_plane("job-controller") as at:
        await at.client.create(JOBS, "default", job())
        (pod,) = await wait_for("the Job's pod", lambda: pods(at))
        await at.client.delete(JOBS, "default", "j", propagation="Background")
        await at.wait_gone(JOBS, "j")
        name = pod["metadata"]["name"]
        await at.client.patch(PODS, "default", name, {"metadata": {"ownerReferences": None}})

        async def is_released():
            return "finalizers" not in (await at.get(PODS, name))["metadata"]

        await wait_for("the pod to lose its finalizer", is_released)


async def test_a_pod_that_was_deleted_is_a_failure_and_the_next_one_waits():
    now = [2_000_000_000.0]
    async with control_plane("job-controller", clock=lambda: now[0]) as at:
        await at.client.create(JOBS, "default", job())
        (pod,) = await wait_for("the Job's pod", lambda: pods(at))
        now[0] = 0.0  # long before it was deleted
        await at.client.delete(PODS, "default", pod["metadata"]["name"])

        async def is_counted():
            return (await at.get(JOBS, "j"))["status"].get("failed") == 1

        await wait_for("the failed pod to be counted", is_counted)
        await at.wait_quiet()
        assert not await pods(at)
        now[0] = 4_000_000_000.0
        await at.client.patch(JOBS, "default", "j", {"metadata": {"annotations": {"look": "again"}}})
        await wait_for("the Job's next pod", lambda: pods(at))


async def test_a_job_that_is_about_to_go_still_counts_its_pods():
    async with control_plane("job-controller") as at:
        await at.client.create(JOBS, "default", job())
        (pod,) = await wait_for("the Job's pod", lambda: pods(at))
        await at.client.delete(JOBS, "default", "j", propagation="Foreground")

        async def is_released():
            return "finalizers" not in (await at.get(PODS, pod["metadata"]["name"]))["metadata"]

        await wait_for("the pod to lose its finalizer", is_released)
        await at.client.delete(PODS, "default", pod["metadata"]["name"])

        async def is_told():
            return "active" not in (await at.get(JOBS, "j"))["status"]

        await wait_for("the Job to have no active pods", is_told)
        assert "failed" not in (await at.get(JOBS, "j"))["status"]


async def test_a_job_tells_its_state_also_when_it_cannot_make_pods():
    async with control_plane("job-controller") as at:
        DenyKind.install(at, "Pod")
        await at.client.create(JOBS, "default", job())
        heard = await wait_for("an event about the Job", lambda: events_about(at, "Job"))
        assert heard[0] == ("Warning", "FailedCreate", "Error creating: no")

        async def is_told():
            return (await at.get(JOBS, "j"))["status"].get("startTime")

        await wait_for("the Job's startTime", is_told)
