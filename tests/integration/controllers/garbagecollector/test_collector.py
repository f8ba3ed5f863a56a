"""The garbage collector on a real API server."""

from __future__ import annotations

import contextlib
import time

import pytest

from dray.api.errors import StatusError
from dray.client.resources import (
    CONFIGMAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    NODES,
    RESOURCE_SLICES,
    SECRETS,
    Resource,
)
from tests.support.controlplane import control_plane, controllers, owned_by, server
from tests.support.wait import wait_for

GARBAGE = "garbage-collector-controller"


async def test_what_is_owned_goes_after_its_owner():
    async with control_plane(GARBAGE) as s:
        owner = await s.configmap("owner")
        child = await s.configmap("child", owned_by("ConfigMap", owner))
        await s.configmap("grandchild", owned_by("ConfigMap", child))
        await s.configmap("bystander")
        await s.client.delete(CONFIGMAPS, "default", "owner")
        await s.wait_gone(CONFIGMAPS, "child")
        await s.wait_gone(CONFIGMAPS, "grandchild")
        assert await s.get(CONFIGMAPS, "bystander")


async def test_what_lost_its_owner_while_nobody_looked_goes_at_the_start():
    async with server() as s:
        owner = await s.configmap("owner")
        await s.configmap("child", owned_by("ConfigMap", owner))
        await s.client.delete(CONFIGMAPS, "default", "owner")
        async with controllers(s, GARBAGE):
            await s.wait_gone(CONFIGMAPS, "child")


async def test_an_owner_of_the_same_name_is_another_one():
    async with server() as s:
        first = await s.configmap("owner")
        await s.client.delete(CONFIGMAPS, "default", "owner")
        await s.configmap("owner")
        await s.configmap("child", owned_by("ConfigMap", first))
        async with controllers(s, GARBAGE):
            await s.wait_gone(CONFIGMAPS, "child")
            assert await s.get(CONFIGMAPS, "owner")


async def test_one_living_owner_is_enough_and_the_others_are_forgotten():
    async with control_plane(GARBAGE) as s:
        lost, kept = await s.configmap("lost"), await s.configmap("kept")
        await s.configmap("child", owned_by("ConfigMap", lost), owned_by("ConfigMap", kept))
        await s.client.delete(CONFIGMAPS, "default", "lost")

        async def names() -> bool:
            child = await s.get(CONFIGMAPS, "child")
            return [r["name"] for r in child["metadata"]["ownerReferences"]] == ["kept"]

        await wait_for("owner kept to remain alone", names)


async def test_dependents_go_first_when_their_owner_is_deleted_in_the_foreground():
    async with control_plane(GARBAGE) as s:
        owner = await s.configmap("owner")
        blocking = owned_by("ConfigMap", owner, blockOwnerDeletion=True)
        await s.configmap("child", blocking, finalizers=["example.com/hold"])
        await s.configmap("free", owned_by("ConfigMap", owner))
        await s.client.delete(CONFIGMAPS, "default", "owner", propagation="Foreground")
        await s.wait_gone(CONFIGMAPS, "free")

        async def child_goes() -> bool:
            return "deletionTimestamp" in (await s.get(CONFIGMAPS, "child"))["metadata"]

        await wait_for("ConfigMap child to be deleted", child_goes)
        assert (await s.get(CONFIGMAPS, "owner"))["metadata"]["finalizers"] == ["foregroundDeletion"]
        await s.client.patch(CONFIGMAPS, "default", "child", {"metadata": {"finalizers": None}})
        await s.wait_gone(CONFIGMAPS, "child")
        await s.wait_gone(CONFIGMAPS, "owner")


async def test_two_that_own_each_other_do_not_hold_each_other_for_ever():
    async with control_plane(GARBAGE) as s:
        a = await s.configmap("a")
        b = await s.configmap("b", owned_by("ConfigMap", a, blockOwnerDeletion=True))
        patch = {"metadata": {"ownerReferences": [owned_by("ConfigMap", b, blockOwnerDeletion=True)]}}
        await s.client.patch(CONFIGMAPS, "default", "a", patch)
        await s.client.delete(CONFIGMAPS, "default", "a", propagation="Foreground")
        await s.wait_gone(CONFIGMAPS, "a")
        await s.wait_gone(CONFIGMAPS, "b")


async def test_orphans_forget_their_owner_before_it_goes():
    async with control_plane(GARBAGE) as s:
        owner = await s.configmap("owner")
        await s.configmap("child", owned_by("ConfigMap", owner))
        await s.client.delete(CONFIGMAPS, "default", "owner", propagation="Orphan")
        await s.wait_gone(CONFIGMAPS, "owner")
        assert "ownerReferences" not in (await s.get(CONFIGMAPS, "child"))["metadata"]


async def test_a_work_begun_by_a_collector_that_was_stopped_is_finished_by_the_next():
    async with server() as s:
        owner = await s.configmap("owner")
        await s.configmap("child", owned_by("ConfigMap", owner, blockOwnerDeletion=True))
        await s.configmap("kept", owned_by("ConfigMap", owner))
        await s.client.delete(CONFIGMAPS, "default", "owner", propagation="Foreground")
        async with controllers(s, GARBAGE):
            for name in ("child", "kept", "owner"):
                await s.wait_gone(CONFIGMAPS, name)


async def test_cluster_scoped_owners_have_namespaced_and_cluster_scoped_dependents():
    async with control_plane(GARBAGE) as s:
        node = await s.node("n")
        await s.configmap("child", owned_by("Node", node))
        spec = {
            "driver": "d.example.com",
            "nodeName": "n",
            "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        }
        metadata = {"name": "slice", "ownerReferences": [owned_by("Node", node)]}
        await s.client.create(RESOURCE_SLICES, "", {"metadata": metadata, "spec": spec})
        await s.client.delete(NODES, "", "n")
        await s.wait_gone(CONFIGMAPS, "child")
        await s.wait_gone(RESOURCE_SLICES, "slice")


async def test_an_owner_in_another_namespace_does_not_count_and_users_are_told():
    async with control_plane(GARBAGE) as s:
        await s.namespace("other")
        owner = await s.configmap("owner", namespace="other")
        child = await s.configmap("child", owned_by("ConfigMap", owner))

        async def events() -> list:
            found = (await s.client.list(EVENTS, "default")).items
            return [e for e in found if e["reason"] == "OwnerRefInvalidNamespace"]

        (event,) = await wait_for("an OwnerRefInvalidNamespace event", events)
        uid = owner["metadata"]["uid"]
        assert event["message"] == (
            f"ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: {uid}] "
            'does not exist in namespace "default"'
        )
        assert event["involvedObject"]["uid"] == child["metadata"]["uid"]
        await s.wait_gone(CONFIGMAPS, "child")


async def test_a_cluster_scoped_object_with_a_namespaced_owner_is_left_alone():
    async with control_plane(GARBAGE) as s:
        owner = await s.configmap("owner")
        node = {"metadata": {"name": "n", "ownerReferences": [owned_by("ConfigMap", owner)]}}
        await s.client.create(NODES, "", node)
        await s.client.delete(CONFIGMAPS, "default", "owner")
        await s.configmap("mark", owned_by("ConfigMap", owner))
        await s.wait_gone(CONFIGMAPS, "mark")
        assert await s.get(NODES, "n")


async def test_custom_resources_own_and_are_owned():
    async with control_plane(GARBAGE, settings={GARBAGE: {"discovery_seconds": 0.01}}) as s:
        cats = Resource("example.com", "v1", "cats", "Cat")
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        definition = {
            "metadata": {"name": "cats.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "cats", "singular": "cat", "kind": "Cat", "listKind": "CatList"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }
        await s.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition)

        async def cat(name: str, *owners: dict) -> dict:
            metadata = {"name": name, "ownerReferences": list(owners)}
            return await s.client.create(cats, "default", {"metadata": metadata})

        async def first() -> dict | None:
            with contextlib.suppress(StatusError):  # not served yet
                return await cat("mother")
            return None

        mother = await wait_for("cat mother to be served", first)
        father = await s.configmap("father")
        kitten = owned_by("Cat", mother, api_version="example.com/v1")
        await cat("kitten", kitten, owned_by("ConfigMap", father))
        await cat("stray", kitten)
        await s.configmap("basket", kitten)
        await s.client.delete(cats, "default", "mother", propagation="Foreground")
        await s.wait_gone(CONFIGMAPS, "basket")
        await s.wait_gone(cats, "stray")
        await s.wait_gone(cats, "mother")
        (left,) = (await s.get(cats, "kitten"))["metadata"]["ownerReferences"]
        assert left["name"] == "father"


async def test_an_object_whose_owner_is_of_an_unknown_kind_is_kept():
    async with control_plane(GARBAGE) as s:
        stranger = {"apiVersion": "nowhere.example.com/v1", "kind": "Stranger", "name": "x", "uid": "x"}
        owner = await s.configmap("owner")
        await s.configmap("child", stranger, owned_by("ConfigMap", owner))
        await s.client.create(
            SECRETS,
            "default",
            {"metadata": {"name": "mark", "ownerReferences": [owned_by("ConfigMap", owner)]}},
        )
        await s.client.delete(CONFIGMAPS, "default", "owner")
        await s.wait_gone(SECRETS, "mark")
        assert await s.get(CONFIGMAPS, "child")


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_many_dependents_go(propagation):
    async with control_plane(GARBAGE) as s:
        owner = await s.configmap("owner")
        for i in range(60):
            await s.configmap(f"child-{i}", owned_by("ConfigMap", owner, blockOwnerDeletion=True))
        await s.client.delete(CONFIGMAPS, "default", "owner", propagation=propagation)
        for i in range(60):
            await s.wait_gone(CONFIGMAPS, f"child-{i}")
        await s.wait_gone(CONFIGMAPS, "owner")


async def test_an_object_with_thousands_of_owners_is_no_burden():
    """Creation, collection and the patch that removes the references take time in proportion to their number."""
    async with control_plane(GARBAGE) as s:
        lost = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": f"lost-{i}", "uid": f"lost-{i}"}
            for i in range(13_000)  # near the largest object that is stored
        ]
        kept = owned_by("ConfigMap", await s.configmap("kept"))
        started = time.monotonic()
        await s.configmap("child", *lost, kept)

        async def forgotten() -> bool:
            return (await s.get(CONFIGMAPS, "child"))["metadata"]["ownerReferences"] == [kept]

        await wait_for("the lost owners are forgotten", forgotten)
        assert time.monotonic() - started < 15
