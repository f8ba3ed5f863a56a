"""StatefulSets on the real API server: names, claims, adoption, and what events say."""

from __future__ import annotations

import pytest

from dray.client.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFULSETS
from dray.controllers.workloads import history, pod_template_hash
from dray.controllers.workloads.statefulset import volume_claims
from tests.support.controlplane import control_plane, owned_by
from tests.support.events import events_about
from tests.support.wait import wait_for

LABELS = {"app": "x"}
TEMPLATE = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0},
}
DATA = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def stateful(**spec):
    body = {"serviceName": "s", "selector": {"matchLabels": LABELS}, "template": TEMPLATE, "replicas": 1}
    return {"metadata": {"name": "web"}, "spec": body | spec}


async def make_ready(at, name):
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    status = {"phase": "Running", "conditions": [ready]}
    await at.client.patch(PODS, "default", name, {"status": status}, subresource="status")


async def test_a_revision_is_named_by_the_bytes_it_remembers():
    data = {"spec": {"template": {"a": "<&>", "$patch": "replace"}}}
    remembered = rb'{"spec":{"template":{"$patch":"replace","a":"\u003c\u0026\u003e"}}}'
    for collisions in (0, 12):
        digest = pod_template_hash.fnv1(remembered + str(collisions).encode())
        assert history.hash_of_data(data, {}, collisions) == pod_template_hash.safe_encode(digest)
    async with control_plane("statefulset-controller") as at:
        await at.client.create(STATEFULSETS, "default", stateful())
        pod = await wait_for("pod web-0", lambda: at.get(PODS, "web-0"))
        (kept,) = (await at.client.list(CONTROLLER_REVISIONS, "default")).items
        digest = history.hash_of_data(kept["data"], {}, 0)
        assert kept["metadata"]["name"] == f"web-{digest}"
        assert kept["metadata"]["labels"] == {**LABELS, "controller.kubernetes.io/hash": digest}
        assert pod["metadata"]["labels"]["controller-revision-hash"] == f"web-{digest}"
        assert pod["metadata"]["generateName"] == "web-"


@pytest.mark.parametrize(("release", "word"), [("1.34", "create"), ("1.36", "Create")])
async def test_events_tell_of_claims_and_pods_in_the_words_of_the_release(release, word):
    async with control_plane("statefulset-controller", emulate=release) as at:
        await at.client.create(STATEFULSETS, "default", stateful(volumeClaimTemplates=[DATA]))
        heard = await wait_for(
            "two events about the StatefulSet", lambda: events_about(at, "StatefulSet", count=2)
        )
        assert heard == [
            ("Normal", "SuccessfulCreate", f"{word} Claim data-web-0 Pod web-0 in StatefulSet web success"),
            ("Normal", "SuccessfulCreate", f"{word} Pod web-0 in StatefulSet web successful"),
        ]


async def test_a_claim_that_is_missing_is_made_again_while_its_pod_waits():
    async with control_plane("statefulset-controller") as at:
        await at.client.create(STATEFULSETS, "default", stateful(volumeClaimTemplates=[DATA]))
        await wait_for("pod web-0", lambda: at.get(PODS, "web-0"))
        await at.client.delete(PERSISTENT_VOLUME_CLAIMS, "default", "data-web-0")
        patch = {"metadata": {"finalizers": []}}
        if await at.find(PERSISTENT_VOLUME_CLAIMS, "data-web-0"):
            await at.client.patch(PERSISTENT_VOLUME_CLAIMS, "default", "data-web-0", patch)
        await at.client.patch(PODS, "default", "web-0", {"metadata": {"annotations": {"look": "again"}}})
        assert await wait_for("claim data-web-0", lambda: at.get(PERSISTENT_VOLUME_CLAIMS, "data-web-0"))


async def test_claims_follow_the_set_and_then_the_pods_it_gives_up():
    async with control_plane("statefulset-controller") as at:
        policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
        spec = stateful(volumeClaimTemplates=[DATA], persistentVolumeClaimRetentionPolicy=policy, replicas=1)
        made = await at.client.create(STATEFULSETS, "default", spec)

        async def owner():
            claim = await at.get(PERSISTENT_VOLUME_CLAIMS, "data-web-0")
            return [
                (r["kind"], r["uid"])
                for r in (claim or {"metadata": {}})["metadata"].get("ownerReferences", ())
            ]

        async def is_owned():
            return await owner() == [("StatefulSet", made["metadata"]["uid"])]

        await wait_for("the claim to be owned by the StatefulSet", is_owned)
        pod = await at.get(PODS, "web-0")
        await at.client.patch(PODS, "default", "web-0", {"metadata": {"finalizers": ["example.com/wait"]}})
        await at.client.patch(STATEFULSETS, "default", "web", {"spec": {"replicas": 0}})

        async def is_handed_over():
            return await owner() == [("Pod", pod["metadata"]["uid"])]

        await wait_for("the claim to be owned by the pod", is_handed_over)


def test_claims_of_others_are_not_touched():
    pod = {"metadata": {"name": "web-0", "uid": "p"}}
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    owner = {
        "metadata": {"name": "web", "uid": "s"},
        "spec": {"persistentVolumeClaimRetentionPolicy": policy},
    }
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c", "controller": True}
    before = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "old", "controller": True}
    for reference in (theirs, before):
        claim = {"metadata": {"ownerReferences": [reference]}}
        assert volume_claims.retention_owners(claim, owner, pod, stays=True) is None
    (mine,) = volume_claims.retention_owners({"metadata": {}}, owner, pod, stays=True)
    assert (mine["kind"], mine["uid"]) == ("StatefulSet", "s")
    assert (
        volume_claims.retention_owners({"metadata": {"ownerReferences": [mine]}}, owner, pod, stays=True)
        is None
    )


async def test_pods_and_revisions_that_were_left_behind_are_taken_over():
    async with control_plane("statefulset-controller") as at:
        await at.client.create(STATEFULSETS, "default", stateful())
        await wait_for("pod web-0", lambda: at.get(PODS, "web-0"))
        (kept,) = (await at.client.list(CONTROLLER_REVISIONS, "default")).items
        await at.client.delete(STATEFULSETS, "default", "web", propagation="Background")
        await at.wait_gone(STATEFULSETS, "web")
        for resource, name in ((PODS, "web-0"), (CONTROLLER_REVISIONS, kept["metadata"]["name"])):
            await at.client.patch(resource, "default", name, {"metadata": {"ownerReferences": None}})
        again = await at.client.create(STATEFULSETS, "default", stateful())
        wanted = {
            **owned_by("StatefulSet", again, api_version="apps/v1"),
            "controller": True,
            "blockOwnerDeletion": True,
        }

        async def is_taken_over():
            pod = await at.get(PODS, "web-0")
            revision = await at.get(CONTROLLER_REVISIONS, kept["metadata"]["name"])
            return all(o["metadata"].get("ownerReferences") == [wanted] for o in (pod, revision))

        await wait_for("pod and revision to be adopted", is_taken_over)


async def test_an_adopted_pod_gets_its_identity_once_it_is_well():
    async with control_plane("statefulset-controller") as at:
        await at.pod("web-0", metadata={"labels": LABELS})
        await make_ready(at, "web-0")
        await at.client.create(STATEFULSETS, "default", stateful(updateStrategy={"type": "OnDelete"}))

        async def is_member():
            labels = (await at.get(PODS, "web-0"))["metadata"]["labels"]
            return labels.get("statefulset.kubernetes.io/pod-name") == "web-0"

        await wait_for("the pod-name label of web-0", is_member)
        heard = await wait_for("an event about the StatefulSet", lambda: events_about(at, "StatefulSet"))
        assert heard[0] == ("Normal", "SuccessfulUpdate", "Update Pod web-0 in StatefulSet web successful")


async def test_a_name_that_somebody_else_has_is_waited_for():
    async with control_plane("statefulset-controller") as at:
        other = await at.pod("web-0")
        await at.client.create(STATEFULSETS, "default", stateful())
        await at.client.delete(PODS, "default", "web-0", grace_seconds=0)

        async def is_ours():
            pod = await at.get(PODS, "web-0")
            return pod is not None and pod["metadata"]["uid"] != other["metadata"]["uid"]

        await wait_for("a pod web-0 of the StatefulSet", is_ours)


async def test_a_pod_that_was_evicted_is_made_again():
    async with control_plane("statefulset-controller") as at:
        await at.client.create(STATEFULSETS, "default", stateful())
        first = await wait_for("pod web-0", lambda: at.get(PODS, "web-0"))
        evicted = {"status": {"phase": "Failed", "reason": "Evicted"}}
        await at.client.patch(PODS, "default", "web-0", evicted, subresource="status")

        async def made_again() -> bool:
            return (await at.get(PODS, "web-0"))["metadata"]["uid"] != first["metadata"]["uid"]

        await wait_for("another pod web-0", made_again)
