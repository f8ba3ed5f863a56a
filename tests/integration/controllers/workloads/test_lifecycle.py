"""Workloads end to end, over the real server: what they make, replace, adopt and give up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dray.api.scheme.kinds import Object
from dray.client.resources import (
    CONTROLLER_REVISIONS,
    DAEMONSETS,
    DEPLOYMENTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICASETS,
    REPLICATION_CONTROLLERS,
    STATEFULSETS,
)
from tests.support.controlplane import NAMESPACE, ControlPlane, control_plane, pod_template
from tests.support.wait import wait_for

ROLLOUTS = ("deployment-controller", "replicaset-controller")


def selecting(**more: object) -> Object:
    return {"selector": {"matchLabels": {"app": "x"}}, "template": pod_template(app="x"), **more}


def image(name: str) -> Object:
    changed = pod_template(app="x")
    changed["spec"]["containers"][0]["image"] = name
    return {"template": changed}


async def images(a: ControlPlane) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in await a.pods(app="x"))


async def settled(a: ControlPlane, name: str, replicas: int, of: str) -> Object:
    async def look() -> Object | None:
        found = await a.get(DEPLOYMENTS, name)
        status = found["status"]
        numbers = [status.get(n) for n in ("replicas", "updatedReplicas", "availableReplicas")]
        observed = status["observedGeneration"] == found["metadata"]["generation"]
        return (
            found if observed and numbers == [replicas] * 3 and await images(a) == [of] * replicas else None
        )

    found = await wait_for(f"Deployment {name} with {replicas} replicas of {of}", look)
    assert found is not None
    return found


def reasons(obj: Object) -> dict[str, str]:
    return {c["type"]: c["reason"] for c in obj["status"]["conditions"]}


def test_a_deployment_rolls_to_a_new_template_and_back_without_losing_availability(tmp_path: Path):
    async def play() -> None:
        async with control_plane(*ROLLOUTS, data=tmp_path) as a, a.hollow_kubelet():
            await a.create(DEPLOYMENTS, "d", selecting(replicas=4))
            first = await settled(a, "d", 4, "i")
            assert reasons(first) == {
                "Available": "MinimumReplicasAvailable",
                "Progressing": "NewReplicaSetAvailable",
            }
            await a.change(DEPLOYMENTS, "d", image("two"))
            second = await settled(a, "d", 4, "two")
            assert second["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
            await a.change(DEPLOYMENTS, "d", image("i"))
            third = await settled(a, "d", 4, "i")
            assert third["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
            sets = (await a.client.list(REPLICASETS, NAMESPACE)).items
            assert sorted(rs["spec"]["replicas"] for rs in sets) == [0, 4], (
                "going back takes the old set up again"
            )
            back = next(rs for rs in sets if rs["spec"]["replicas"])
            assert back["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
            scaled = await a.events("ScalingReplicaSet")
            assert any(f"up replica set {back['metadata']['name']} from 0 to 4" in m for m in scaled)

    asyncio.run(play())


def test_a_replication_controller_keeps_its_number_of_pods_and_leaves_them_behind(tmp_path: Path):
    async def play() -> None:
        controllers = (
            "replicationcontroller-controller",
            "disruption-controller",
            "garbage-collector-controller",
        )
        async with control_plane(*controllers, data=tmp_path) as a, a.hollow_kubelet():
            await a.pod("orphan", metadata={"labels": {"app": "x"}})
            await a.create(REPLICATION_CONTROLLERS, "rc", {"replicas": 3, "template": pod_template(app="x")})

            async def ready(count: int) -> bool:
                status = (await a.get(REPLICATION_CONTROLLERS, "rc"))["status"]
                return (status.get("replicas"), status.get("readyReplicas", 0)) == (count, count)

            await wait_for("three pods", lambda: ready(3))
            assert "orphan" in [pod["metadata"]["name"] for pod in await a.pods(app="x")], "it is adopted"
            await a.create(
                POD_DISRUPTION_BUDGETS,
                "b",
                {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "x"}}},
            )

            async def expected() -> bool:
                status = (await a.get(POD_DISRUPTION_BUDGETS, "b")).get("status", {})
                return status.get("expectedPods") == 3

            await wait_for("the budget to know the size", expected)
            await a.change(REPLICATION_CONTROLLERS, "rc", {"replicas": 1})
            await wait_for("one pod", lambda: ready(1))
            await a.client.delete(REPLICATION_CONTROLLERS, NAMESPACE, "rc")
            await a.wait_gone(REPLICATION_CONTROLLERS, "rc")
            (left,) = await a.pods(app="x")
            assert not left["metadata"].get("ownerReferences")

    asyncio.run(play())


def test_a_recreating_deployment_has_never_two_templates_at_once(tmp_path: Path):
    async def play() -> None:
        async with control_plane(*ROLLOUTS, data=tmp_path) as a, a.hollow_kubelet():
            await a.create(DEPLOYMENTS, "d", selecting(replicas=3, strategy={"type": "Recreate"}))
            await settled(a, "d", 3, "i")
            seen: list[set[str]] = []

            async def watch() -> None:
                alive: dict[str, str] = {}
                async with a.client.watch(PODS, NAMESPACE, resource_version="0") as stream:
                    async for batch in stream:
                        for event in batch:
                            name = event.object["metadata"]["name"]
                            if event.type == "DELETED":
                                alive.pop(name, None)
                            else:
                                alive[name] = event.object["spec"]["containers"][0]["image"]
                            seen.append(set(alive.values()))

            watching = asyncio.create_task(watch())
            await a.change(DEPLOYMENTS, "d", image("two"))
            await settled(a, "d", 3, "two")
            watching.cancel()
            assert {"i"} in seen and {"i", "two"} not in seen

    asyncio.run(play())


def test_a_deployment_resized_in_the_middle_of_a_rollout_keeps_its_proportions(tmp_path: Path):
    async def play() -> None:
        async with control_plane(*ROLLOUTS, data=tmp_path) as a:
            rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
            await a.create(DEPLOYMENTS, "d", selecting(replicas=10, strategy=rolling))
            async with a.hollow_kubelet():
                await settled(a, "d", 10, "i")
            await a.change(DEPLOYMENTS, "d", image("broken"))

            async def sizes() -> list[int]:
                sets = (await a.client.list(REPLICASETS, NAMESPACE)).items
                return sorted(rs["spec"]["replicas"] for rs in sets)

            async def are(*wanted: int) -> None:
                async def look() -> bool:
                    return await sizes() == list(wanted)

                await wait_for(f"ReplicaSets of sizes {wanted}", look)

            await are(5, 8)
            await a.change(DEPLOYMENTS, "d", {"replicas": 15})
            await are(7, 11)

    asyncio.run(play())


def test_a_rollout_without_progress_fails_by_its_deadline(tmp_path: Path):
    async def play() -> None:
        async with control_plane(*ROLLOUTS, data=tmp_path) as a:
            await a.create(DEPLOYMENTS, "d", selecting(replicas=1, progressDeadlineSeconds=1))

            async def failed() -> bool:
                return reasons(await a.get(DEPLOYMENTS, "d")).get("Progressing") == "ProgressDeadlineExceeded"

            await wait_for("ProgressDeadlineExceeded", failed)

    asyncio.run(play())


def test_strays_are_adopted_and_pods_that_no_longer_match_are_let_go(tmp_path: Path):
    async def play() -> None:
        async with control_plane(*ROLLOUTS, data=tmp_path) as a:
            await a.create(PODS, "stray", pod_template()["spec"], labels={"app": "x"})
            await a.create(REPLICASETS, "rs", selecting(replicas=2))

            async def names() -> list[str]:
                owned = [p for p in await a.pods(app="x") if p["metadata"].get("ownerReferences")]
                return [p["metadata"]["name"] for p in owned] if len(owned) == 2 else []

            assert "stray" in await wait_for("two adopted pods", names)
            await a.client.patch(PODS, NAMESPACE, "stray", {"metadata": {"labels": {"app": "y"}}})

            async def replaced() -> bool:
                free = await a.get(PODS, "stray")
                return not free["metadata"].get("ownerReferences") and len(await a.pods(app="x")) == 2

            await wait_for("the stray pod to be released and replaced", replaced)
            await a.client.delete(REPLICASETS, NAMESPACE, "rs", propagation="Orphan")
            await a.client.delete(PODS, NAMESPACE, "stray")

    asyncio.run(play())


def test_an_orphaned_replica_set_is_taken_over_by_a_deployment_of_its_template(tmp_path: Path):
    async def play() -> None:
        async with control_plane(*ROLLOUTS, data=tmp_path) as a:
            await a.create(REPLICASETS, "before", selecting(replicas=2), labels={"app": "x"})

            async def made() -> bool:
                return len(await a.pods(app="x")) == 2

            await wait_for("two pods", made)
            await a.create(DEPLOYMENTS, "d", selecting(replicas=2))

            async def owner() -> str:
                found = await a.get(REPLICASETS, "before")
                return str(found["metadata"]["ownerReferences"][0]["name"])

            assert await wait_for("an owner of the ReplicaSet", owner) == "d"

            async def observed() -> bool:
                return (await a.get(DEPLOYMENTS, "d"))["status"].get("updatedReplicas") == 2

            await wait_for("two updated replicas", observed)
            assert len((await a.client.list(REPLICASETS, NAMESPACE)).items) == 1

    asyncio.run(play())


def test_a_replica_set_that_may_not_make_pods_says_so(tmp_path: Path):
    async def play() -> None:
        async with control_plane("replicaset-controller", data=tmp_path) as a:
            bad = selecting(replicas=2)
            bad["template"]["spec"]["priorityClassName"] = "missing"
            await a.create(REPLICASETS, "rs", bad)

            async def failure() -> str:
                return str((await a.get(REPLICASETS, "rs"))["status"]["conditions"][0]["message"])

            assert "missing" in await wait_for("the ReplicaSet's failure condition", failure)
            assert any(
                "Error creating" in m
                for m in await wait_for("a FailedCreate event", lambda: a.events("FailedCreate"))
            )

    asyncio.run(play())


def test_a_stateful_set_starts_in_order_and_updates_and_shrinks_from_the_end(tmp_path: Path):
    async def play() -> None:
        async with control_plane("statefulset-controller", data=tmp_path) as a:
            await a.create(STATEFULSETS, "s", selecting(replicas=3, serviceName="svc"))

            async def names() -> list[str]:
                return [p["metadata"]["name"] for p in await a.pods(app="x")]

            for index in range(3):
                expected = [f"s-{i}" for i in range(index + 1)]

                async def are(wanted: list[str] = expected) -> bool:
                    return await names() == wanted

                await wait_for(f"pods {expected}", are)
                await a.run(await a.get(PODS, f"s-{index}"))
            pod = await a.get(PODS, "s-1")
            assert pod["spec"]["hostname"] == "s-1" and pod["spec"]["subdomain"] == "svc"
            assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"

            strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
            await a.change(STATEFULSETS, "s", {**image("two"), "updateStrategy": strategy})

            async def is_new(index: int) -> bool:
                return (await a.get(PODS, f"s-{index}"))["spec"]["containers"][0]["image"] == "two"

            await wait_for("pod s-2 to be updated", lambda: is_new(2))
            assert not await is_new(1), "it waits until the one after it is available"
            await a.run(await a.get(PODS, "s-2"))
            await wait_for("pod s-1 to be updated", lambda: is_new(1))
            await a.run(await a.get(PODS, "s-1"))

            async def partly() -> bool:
                status = (await a.get(STATEFULSETS, "s"))["status"]
                return bool(status.get("updatedReplicas") == 2 and status.get("readyReplicas") == 3)

            await wait_for("two updated and three ready replicas", partly)
            assert not await is_new(0)
            await a.client.delete(PODS, NAMESPACE, "s-0")
            await wait_for("the StatefulSet's pods", names)

            async def remade() -> bool:
                return len(await names()) == 3

            await wait_for("three pods", remade)
            assert not await is_new(0), "below the partition the old template still holds"
            await a.run(await a.get(PODS, "s-0"))
            await a.change(STATEFULSETS, "s", {"updateStrategy": {"rollingUpdate": {"partition": 0}}})
            await wait_for("pod s-0 to be updated", lambda: is_new(0))
            await a.run(await a.get(PODS, "s-0"))

            async def complete() -> bool:
                status = (await a.get(STATEFULSETS, "s"))["status"]
                return bool(status["currentRevision"] == status["updateRevision"])

            await wait_for("the update to be complete", complete)
            assert len((await a.client.list(CONTROLLER_REVISIONS, NAMESPACE)).items) == 2
            await a.change(STATEFULSETS, "s", {"replicas": 1})

            async def one() -> bool:
                return await names() == ["s-0"]

            await wait_for("pod s-0 alone", one)

    asyncio.run(play())


@pytest.mark.parametrize("rolling", [{"maxUnavailable": 1}, {"maxSurge": 1, "maxUnavailable": 0}])
def test_a_daemon_set_covers_the_nodes_that_suit_it_and_rolls_over_them(tmp_path: Path, rolling: Object):
    async def play() -> None:
        async with control_plane("daemonset-controller", data=tmp_path) as a, a.hollow_kubelet():
            for name, labels in (("n1", {"disk": "ssd"}), ("n2", {"disk": "ssd"}), ("n3", {})):
                await a.client.create(NODES, "", {"metadata": {"name": name, "labels": labels}})
            spec = selecting(updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling})
            spec["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
            await a.create(DAEMONSETS, "d", spec)

            async def ready(wanted: int, of: str) -> bool:
                status = (await a.get(DAEMONSETS, "d"))["status"]
                numbers = [
                    status[n] for n in ("desiredNumberScheduled", "numberReady", "updatedNumberScheduled")
                ]
                return numbers == [wanted] * 3 and await images(a) == [of] * wanted

            await wait_for("two ready pods", lambda: ready(2, "i"))
            pod = (await a.pods(app="x"))[0]
            assert {
                "key": "node.kubernetes.io/not-ready",
                "operator": "Exists",
                "effect": "NoExecute",
            } in pod["spec"]["tolerations"]
            await a.client.patch(NODES, "", "n3", {"metadata": {"labels": {"disk": "ssd"}}})
            await wait_for("three ready pods", lambda: ready(3, "i"))
            changed = image("two")
            changed["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
            await a.change(DAEMONSETS, "d", changed)
            await wait_for("three ready pods of the new image", lambda: ready(3, "two"))
            await a.client.patch(NODES, "", "n1", {"metadata": {"labels": {"disk": None}}})
            await wait_for("two ready pods of the new image", lambda: ready(2, "two"))
            assert len((await a.client.list(CONTROLLER_REVISIONS, NAMESPACE)).items) == 2

    asyncio.run(play())
