"""Deployments and ReplicaSets on the real API server: what they write, and what events say."""

from __future__ import annotations

import pytest

from dray.client.resources import DEPLOYMENTS, PODS, REPLICASETS
from dray.controllers.workloads import owned_pods
from dray.controllers.workloads.deployment import rollout
from tests.support.controlplane import control_plane, owned_by
from tests.support.events import DenyKind, events_about
from tests.support.wait import wait_for

LABELS = {"app": "x"}
BOTH = ("deployment-controller", "replicaset-controller")


def template(image="i", **spec):
    containers = [{"name": "c", "image": image}]
    body = {"containers": containers, "terminationGracePeriodSeconds": 0, **spec}
    return {"metadata": {"labels": LABELS}, "spec": body}


def workload(name="d", **spec):
    body = {"selector": {"matchLabels": LABELS}, "template": template(), "replicas": 2}
    return {"metadata": {"name": name}, "spec": body | spec}


async def pods(at, count):
    found = (await at.client.list(PODS, "default")).items
    return found if len(found) == count else []


async def sets(at):
    return (await at.client.list(REPLICASETS, "default")).items


@pytest.mark.parametrize(
    ("release", "up", "down"),
    [("1.30", "to 2", "to 1 from 2"), ("1.36", "from 0 to 2", "from 2 to 1")],
)
async def test_scaling_is_told_in_the_words_of_the_release(release, up, down):
    async with control_plane(*BOTH, emulate=release) as at:
        await at.client.create(DEPLOYMENTS, "default", workload())
        await wait_for("two pods", lambda: pods(at, 2))
        await at.client.patch(DEPLOYMENTS, "default", "d", {"spec": {"replicas": 1}})
        heard = await wait_for(
            "two events about the Deployment", lambda: events_about(at, "Deployment", count=2)
        )
        (rs,) = await sets(at)
        name = rs["metadata"]["name"]
        assert heard == [
            ("Normal", "ScalingReplicaSet", f"Scaled up replica set {name} {up}"),
            ("Normal", "ScalingReplicaSet", f"Scaled down replica set {name} {down}"),
        ]


@pytest.mark.parametrize(("release", "count"), [("1.34", None), ("1.36", 1)])
async def test_pods_on_their_way_out_are_counted_where_the_release_does(release, count):
    async with control_plane(*BOTH, emulate=release) as at:
        await at.client.create(DEPLOYMENTS, "default", workload())
        found = await wait_for("two pods", lambda: pods(at, 2))
        name = found[0]["metadata"]["name"]
        await at.client.patch(PODS, "default", name, {"metadata": {"finalizers": ["example.com/wait"]}})
        await at.client.delete(PODS, "default", name)
        await wait_for("three pods", lambda: pods(at, 3))

        async def are_told():
            status = (await at.get(DEPLOYMENTS, "d"))["status"]
            told = [one["status"].get("terminatingReplicas") for one in await sets(at)]
            return status.get("replicas") == 2 and [status.get("terminatingReplicas"), *told] == [count] * 2

        await wait_for("terminatingReplicas in every status", are_told)


async def test_the_revision_is_written_with_the_status():
    async with control_plane(*BOTH) as at:
        await at.client.create(DEPLOYMENTS, "default", workload(replicas=0))

        async def is_marked():
            found = await at.get(DEPLOYMENTS, "d")
            return found if rollout.REVISION in (found["metadata"].get("annotations") or {}) else None

        found = await wait_for("the Deployment's revision annotation", is_marked)
        managers = {m["manager"]: m for m in found["metadata"]["managedFields"] if m.get("subresource")}
        (entry,) = managers.values()
        assert f"f:{rollout.REVISION}" in entry["fieldsV1"]["f:metadata"]["f:annotations"]


async def test_why_there_is_no_new_set_is_told():
    async with control_plane("deployment-controller") as at:
        DenyKind.install(at, "ReplicaSet")
        await at.client.create(DEPLOYMENTS, "default", workload())
        ((kind, reason, message),) = await wait_for(
            "an event about the Deployment", lambda: events_about(at, "Deployment")
        )
        assert (kind, reason) == ("Warning", "ReplicaSetCreateError")
        assert message.startswith('Failed to create new replica set "d-')
        assert message.endswith('": no')
        (condition,) = (await at.get(DEPLOYMENTS, "d"))["status"]["conditions"]
        told = [condition[name] for name in ("type", "status", "reason", "message")]
        assert told == ["Progressing", "False", reason, message]


async def test_sets_that_cannot_delete_pods_tell_so():
    async with control_plane("replicaset-controller") as at:
        await at.client.create(REPLICASETS, "default", workload())
        await wait_for("two pods", lambda: pods(at, 2))
        DenyKind.install(at, "Pod")
        await at.client.patch(REPLICASETS, "default", "d", {"spec": {"replicas": 1}})
        heard = await wait_for(
            "three events about the ReplicaSet", lambda: events_about(at, "ReplicaSet", count=3)
        )
        assert heard[2] == ("Warning", "FailedDelete", "Error deleting: no")

        async def is_told():
            return (await at.get(REPLICASETS, "d"))["status"].get("conditions")

        (condition,) = await wait_for("conditions of the ReplicaSet", is_told)
        told = [condition[name] for name in ("type", "status", "reason", "message")]
        assert told == ["ReplicaFailure", "True", "FailedDelete", "unable to delete pods: no"]


async def test_a_long_name_is_cut_for_the_hash():
    async with control_plane("deployment-controller") as at:
        await at.client.create(DEPLOYMENTS, "default", workload("x" * 250))
        (made,) = await wait_for("the ReplicaSets", lambda: sets(at))
        assert len(made["metadata"]["name"]) == 253


async def test_recreating_makes_no_new_set_before_the_last_old_pod_is_gone():
    async with control_plane(*BOTH) as at:
        await at.client.create(DEPLOYMENTS, "default", workload(strategy={"type": "Recreate"}))
        found = await wait_for("two pods", lambda: pods(at, 2))
        for pod in found:
            name = pod["metadata"]["name"]
            await at.client.patch(PODS, "default", name, {"metadata": {"finalizers": ["example.com/wait"]}})
        await at.client.patch(DEPLOYMENTS, "default", "d", {"spec": {"template": template("other")}})

        async def are_leaving():
            return all("deletionTimestamp" in p["metadata"] for p in await pods(at, 2))

        await wait_for("both pods to be deleted", are_leaving)
        await at.wait_quiet()
        assert len(await sets(at)) == 1
        for pod in found:
            await at.client.patch(
                PODS, "default", pod["metadata"]["name"], {"metadata": {"finalizers": None}}
            )

        async def is_new():
            images = [p["spec"]["containers"][0]["image"] for p in await pods(at, 2)]
            return images == ["other", "other"]

        await wait_for("two pods of the new image", is_new)
        assert len(await sets(at)) == 2


async def test_a_deployment_that_is_about_to_go_still_tells_of_its_pods():
    async with control_plane(*BOTH) as at:
        await at.client.create(DEPLOYMENTS, "default", workload())
        await wait_for("two pods", lambda: pods(at, 2))
        await at.client.delete(DEPLOYMENTS, "default", "d", propagation="Foreground")
        (rs,) = await sets(at)
        await at.client.patch(REPLICASETS, "default", rs["metadata"]["name"], {"spec": {"replicas": 1}})

        async def is_told():
            return (await at.get(DEPLOYMENTS, "d"))["status"]["replicas"] == 1

        await wait_for("one replica in the Deployment's status", is_told)


async def test_a_set_that_lost_a_pod_makes_another_and_one_that_finds_a_pod_adopts_it():
    async with control_plane("replicaset-controller") as at:
        rs = await at.client.create(REPLICASETS, "default", workload())
        found = await wait_for("two pods", lambda: pods(at, 2))
        name = found[0]["metadata"]["name"]
        await at.client.patch(PODS, "default", name, {"metadata": {"labels": {"app": "y"}}})
        await wait_for("three pods", lambda: pods(at, 3))
        other = workload("e", selector={"matchLabels": {"app": "y"}}, replicas=1)
        other["spec"]["template"]["metadata"]["labels"] = {"app": "y"}
        taker = await at.client.create(REPLICASETS, "default", other)

        async def is_adopted():
            owners = (await at.get(PODS, name))["metadata"].get("ownerReferences") or ()
            return [o["uid"] for o in owners] == [taker["metadata"]["uid"]]

        await wait_for(f"pod {name} to be adopted", is_adopted)
        mine = owned_by("ReplicaSet", rs, api_version="apps/v1", controller=True, blockOwnerDeletion=True)
        await at.client.patch(
            PODS, "default", name, {"metadata": {"labels": LABELS, "ownerReferences": [mine]}}
        )

        async def are_right():
            listed = (await at.client.list(PODS, "default")).items
            counts = dict.fromkeys((rs["metadata"]["uid"], taker["metadata"]["uid"]), 0)
            for pod in listed:
                counts[pod["metadata"]["ownerReferences"][0]["uid"]] += 1
            return list(counts.values()) == [2, 1]

        await wait_for("the right number of pods for both ReplicaSets", are_right)


def test_pods_are_named_after_their_owner_with_a_dash_if_there_is_room():
    def prefix(length):
        owner = {"metadata": {"name": "n" * length, "uid": "u"}}
        return owned_pods.pod_from_template({"spec": {}}, REPLICASETS, owner)["metadata"]["generateName"]

    assert prefix(60) == "n" * 60 + "-"
    assert prefix(253) == "n" * 253
