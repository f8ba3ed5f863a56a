"""Jobs and CronJobs end to end, over the real server."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dray.api.scheme.kinds import Object
from dray.client.resources import CRONJOBS, JOBS, PODS
from tests.support.controlplane import NAMESPACE, NOW, ControlPlane, control_plane, pod_template
from tests.support.wait import wait_for


def spec(**more: object) -> Object:
    pod = pod_template()
    pod["spec"]["restartPolicy"] = "Never"
    return {"template": pod, **more}


async def running(a: ControlPlane, count: int) -> list[Object]:
    """The unfinished pods, once there are so many."""

    async def look() -> list[Object]:
        pods = [p for p in await a.pods() if p["status"]["phase"] == "Pending"]
        return pods if len(pods) == count else []

    return await wait_for(f"{count} pending pods", look)


async def over(a: ControlPlane, name: str) -> Object:
    """The status of a job that has ended."""

    async def look() -> Object | None:
        status = (await a.get(JOBS, name))["status"]
        ended = [c for c in status.get("conditions") or () if c["type"] in ("Complete", "Failed")]
        return {**status, "end": (ended[0]["type"], ended[0]["reason"])} if ended else None

    found = await wait_for(f"Job {name} to end", look)
    assert found is not None
    return found


def test_a_job_counts_each_pod_once_and_lets_go_of_them(tmp_path: Path):
    async def play() -> None:
        async with control_plane("job-controller", data=tmp_path) as a:
            await a.create(JOBS, "j", spec(completions=6, parallelism=2))
            done = 0
            while done < 6:
                for pod in await running(a, 2 if done < 5 else 1):
                    await a.finish(pod)
                    done += 1
            status = await over(a, "j")
            assert status["end"] == ("Complete", "CompletionsReached")
            assert (status["succeeded"], status.get("failed"), status.get("active")) == (6, None, None)
            assert len(await a.pods()) == 6
            assert not any(p["metadata"].get("finalizers") for p in await a.pods())
            version = (await a.get(JOBS, "j"))["metadata"]["resourceVersion"]
            await a.client.patch(
                PODS, NAMESPACE, (await a.pods())[0]["metadata"]["name"], {"metadata": {"labels": {"a": "b"}}}
            )
            assert (await a.get(JOBS, "j"))["metadata"]["resourceVersion"] == version

    asyncio.run(play())


def test_an_indexed_job_gives_each_pod_its_index_and_repeats_what_failed(tmp_path: Path):
    async def play() -> None:
        async with control_plane("job-controller", data=tmp_path) as a:
            await a.create(
                JOBS, "j", spec(completions=3, parallelism=3, completionMode="Indexed", backoffLimit=1)
            )
            pods = await running(a, 3)
            names = sorted(
                p["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for p in pods
            )
            assert names == ["0", "1", "2"]
            assert {p["spec"]["hostname"] for p in pods} == {"j-0", "j-1", "j-2"}
            assert pods[0]["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
            await a.finish(pods[0])
            await a.finish(pods[1], succeeded=False)
            await a.finish(pods[2])

            async def repeated() -> list[Object]:
                return [p for p in await a.pods() if p["status"]["phase"] == "Pending"]

            again = (await wait_for("the pod of the failed index again", repeated))[0]
            assert again["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "1"
            assert (await a.get(JOBS, "j"))["status"]["completedIndexes"] == "0,2"
            await a.finish(again)
            status = await over(a, "j")
            assert (status["completedIndexes"], status["succeeded"], status["failed"]) == ("0-2", 3, 1)

    asyncio.run(play())


def test_a_job_fails_when_too_many_pods_have_and_ends_those_that_run(tmp_path: Path):
    async def play() -> None:
        async with control_plane("job-controller", data=tmp_path) as a:
            await a.create(JOBS, "j", spec(completions=2, parallelism=2, backoffLimit=0))
            pods = await running(a, 2)
            await a.finish(pods[0], succeeded=False)
            status = await over(a, "j")
            assert status["end"] == ("Failed", "BackoffLimitExceeded")
            assert status["failed"] == 2
            assert [c["type"] for c in status["conditions"]] == ["FailureTarget", "Failed"]
            assert [p["metadata"]["name"] for p in await a.pods()] == [pods[0]["metadata"]["name"]]

    asyncio.run(play())


def test_a_failure_policy_decides_what_a_failure_means(tmp_path: Path):
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]

    async def play() -> None:
        async with control_plane("job-controller", data=tmp_path) as a:
            await a.create(JOBS, "j", spec(backoffLimit=0, podFailurePolicy={"rules": rules}))
            pod = (await running(a, 1))[0]
            disrupted = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": NOW}
            await a.set_status(pod, {"phase": "Failed", "conditions": [disrupted]})

            async def replaced() -> list[Object]:
                return [p for p in await a.pods() if p["status"]["phase"] == "Pending"]

            await a.client.delete(PODS, NAMESPACE, pod["metadata"]["name"])
            again = (await wait_for("a pod in place of the disrupted one", replaced))[0]
            await a.finish(again, succeeded=False, exit_code=42)
            status = await over(a, "j")
            assert status["end"] == ("Failed", "PodFailurePolicy")
            name = again["metadata"]["name"]
            words = f"Container c for pod default/{name} failed with exit code 42 matching FailJob rule at index 1"
            assert status["conditions"][-1]["message"] == words
            assert status["failed"] == 1

    asyncio.run(play())


def test_a_suspended_job_has_no_pods_and_its_clock_stands(tmp_path: Path):
    async def play() -> None:
        async with control_plane("job-controller", data=tmp_path) as a:
            await a.create(JOBS, "j", spec(parallelism=2, completions=2))
            await running(a, 2)
            await a.change(JOBS, "j", {"suspend": True})

            async def suspended() -> bool:
                status = (await a.get(JOBS, "j"))["status"]
                told = [(c["type"], c["status"]) for c in status.get("conditions") or ()]
                return told == [("Suspended", "True")] and not await a.pods() and "startTime" not in status

            await wait_for("the Job to be suspended", suspended)
            await a.change(JOBS, "j", {"suspend": False})
            await running(a, 2)
            assert (await a.get(JOBS, "j"))["status"].get("failed") is None

    asyncio.run(play())


def test_a_finished_job_goes_when_its_time_to_live_is_over(tmp_path: Path):
    async def play() -> None:
        async with control_plane("job-controller", data=tmp_path) as a:
            await a.create(JOBS, "j", spec(ttlSecondsAfterFinished=0))
            await a.finish((await running(a, 1))[0])

            async def going() -> bool:
                jobs = (await a.client.list(JOBS, NAMESPACE)).items
                return not jobs or "deletionTimestamp" in jobs[0]["metadata"]

            await wait_for("the Job to be deleted", going)

    asyncio.run(play())


def test_a_cron_job_starts_what_is_due_and_keeps_a_short_history(tmp_path: Path):
    async def play() -> None:
        async with control_plane("cronjob-controller", "job-controller", data=tmp_path) as a:
            cron = {
                "schedule": "0 0 1 1 *",
                "successfulJobsHistoryLimit": 1,
                "concurrencyPolicy": "Forbid",
                "jobTemplate": {"spec": spec()},
            }
            await a.create(CRONJOBS, "c", cron)

            async def due_since(when: str) -> None:
                await a.client.patch_status(CRONJOBS, NAMESPACE, "c", {"status": {"lastScheduleTime": when}})

            for when in ("2020-06-01T00:00:00Z", "2020-06-02T00:00:00Z"):
                await due_since(when)
                pod = (await running(a, 1))[0]
                job = pod["metadata"]["ownerReferences"][0]["name"]
                active = (await wait_for("an active Job", lambda: _active(a)))[0]
                assert active["name"] == job
                await a.finish(pod)
                await over(a, job)

                async def idle() -> bool:
                    return "active" not in (await a.get(CRONJOBS, "c"))["status"]

                await wait_for("the CronJob to have no active Jobs", idle)
                await a.client.delete(JOBS, NAMESPACE, job, propagation="Background")
            status = (await a.get(CRONJOBS, "c"))["status"]
            assert status["lastScheduleTime"].endswith("-01-01T00:00:00Z") and status["lastSuccessfulTime"]
            assert any("Created job c-" in message for message in await a.events("SuccessfulCreate"))

    asyncio.run(play())


async def _active(a: ControlPlane) -> list[Object]:
    return list((await a.get(CRONJOBS, "c"))["status"].get("active") or ())
